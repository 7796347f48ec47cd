/* Clients that give up: in each state a request leaves when the rules say, to the tick; what it
 * held goes to others; a token that comes in the very tick counts. Times are worked out by hand
 * from the plain model (sim_testing.h); the audit looks at all books after each event, and whole
 * clusters of impatient clients are the swarm's. */
#include "sim/run.h"
#include "tests/unit/scene_testing.h"

TestSuite(patience, .init = setup_scene, .fini = teardown);

/* Clients that wait so long for their last token and for their first; 0: for ever. */
static TraceRow impatient(TraceRow row, Tick last_us, Tick first_us) {
  row.patience = last_us * US;
  row.first_token_patience = first_us * US;
  return row;
}

static void expect_cancelled(int i, Cancellation why, Tick at_us, int32_t tokens) {
  const RequestRecord *record = &scene.records[i];
  cr_expect_eq(record->cancelled, why, "request %d", i);
  expect_at(record->cancelled_at, at_us, "it left");
  cr_expect(record->generated_tokens == tokens && record->last_token_at == -1, "%d tokens, not %d",
            record->generated_tokens, tokens);
}

/* 90 tokens in 100 ms, then steps that end at 111.91, 123.83 and 135.76 ms. */
Test(patience, who_is_in_an_iteration_leaves_as_that_ends) {
  static const struct {
    const char *what;
    int32_t output_tokens;
    Tick last, first; // us
    Cancellation why;
    Tick leaves; // us
    int32_t tokens, computed;
  } cases[] = {
      {"in its prefill", 3, 0, 50000, CANCELLED_TTFT, 100000, 0, 91},
      {"in it, for the last", 3, 50000, 60000, CANCELLED_E2E, 100000, 0, 91},
      {"first token in the very tick", 100, 130000, 100000, CANCELLED_E2E, 135760, 3, 94},
      {"as an iteration ends", 100, 123830, 0, CANCELLED_E2E, 135760, 3, 94},
      {"in the one that makes its last", 3, 123829, 0, CANCELLED_E2E, 123830, 2, 93},
      {"last token in the very tick", 3, 123830, 100000, CANCELLED_NOT, 0, 3, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const TraceRow rows[] = {
        impatient(row(0, 90, cases[i].output_tokens), cases[i].last, cases[i].first)};
    run(rows, 1);
    const Metrics *metrics = &scene.result.metrics;
    if (cases[i].why)
      expect_cancelled(0, cases[i].why, cases[i].leaves, cases[i].tokens);
    else
      expect_at(scene.records[0].last_token_at, 123830, cases[i].what);
    cr_expect_eq(metrics->cancelled_for[cases[i].why], cases[i].why != CANCELLED_NOT, "%s",
                 cases[i].what);
    cr_expect_eq(metrics->cancelled_tokens, cases[i].computed, "%s", cases[i].what);
    cr_expect(metrics->good + metrics->cancelled == 1);
  }
}

/* Behind a prefill of 100 ms. With the second gone, the third begins with what comes after it. */
Test(patience, who_waits_for_prefill_leaves_at_once) {
  const TraceRow rows[] = {row(0, 90, 1), impatient(row(10 * MS, 40, 5), 0, 30000),
                           row(20 * MS, 40, 1)};
  run(rows, 3);
  expect_cancelled(1, CANCELLED_TTFT, 40000, 0);
  cr_expect_eq(scene.records[1].prefill_began_at, -1);
  expect_at(scene.records[2].first_token_at, 150000, "the third request alone");
}

/* Four blocks of 16: the first holds three of them while it decodes, and the second needs as many.
 * Steps over 41, 42 … tokens end at 61.41, 72.83 and 84.26 ms. */
Test(patience, its_memory_goes_to_who_waits_for_it) {
  scene.pools[0].kv_blocks = 4;
  const TraceRow rows[] = {impatient(row(0, 40, 20), 80000, 0), row(20 * MS, 40, 1)};
  run(rows, 2);
  expect_cancelled(0, CANCELLED_E2E, 84260, 3);
  expect_at(scene.records[1].prefill_began_at, 84260, "the second request");
}

/* KV of 91 tokens is on its way from 100 to 190 ms. */
Test(patience, kv_on_its_way_is_discarded_where_it_comes) {
  scene_split(&scene, 1, 1);
  const TraceRow rows[] = {impatient(row(0, 90, 20), 150000, 0)};
  run(rows, 1);
  expect_cancelled(0, CANCELLED_E2E, 190000, 1);
  cr_expect(scene.result.metrics.transfers == 1 && scene.result.totals.decode_tokens == 0);
}

/* Prefilled together in 280 ms. The decode machine has room for one at a time: the second's KV
 * waits there, and when it has gone and the first has finished the third's comes. */
Test(patience, kv_that_waits_for_room_leaves_at_once) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 8;
  const TraceRow rows[] = {row(0, 90, 30), impatient(row(0, 90, 30), 400000, 0), row(0, 90, 3)};
  run(rows, 3);
  expect_cancelled(1, CANCELLED_E2E, 400000, 1);
  cr_expect(scene.result.metrics.transfers == 2 && scene.result.metrics.completed == 2);
}

/* Chunk by chunk, of 30 tokens: 10 + 30 ms each. As its second ends the KV of the first is across;
 * what is on its way of the second is stopped. */
Test(patience, kv_that_moves_beside_its_prefill_is_stopped) {
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_BATCHER, "sarathi", "max_num_batched_tokens: 30");
  scene_choose(&scene, POLICY_TRANSFER, "chunked", NULL);
  const TraceRow rows[] = {impatient(row(0, 120, 20), 0, 90000), row(0, 30, 2)};
  run(rows, 2);
  expect_cancelled(0, CANCELLED_TTFT, 120000, 0);
  cr_expect_eq(scene.result.metrics.completed, 1u);
}

/* Two of 60 tokens on ten blocks: at 398.2 ms, when each has made 21, the second goes to CPU
 * memory, for 80 ms (test_swap.c), and the third may not begin. It does with the first iteration to
 * end after the second has gone. */
Test(patience, who_is_in_cpu_memory_leaves_at_once) {
  scene.pools[0].kv_blocks = 10;
  scene.pools[0].cpu_kv_blocks = 5;
  scene.pools[0].kv_block_bytes = 16000000;
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 2000000000, .to_cpu = 1000000000, .efficiency = 1};
  scene_choose(&scene, POLICY_KVTIER, "swap", NULL);
  const TraceRow rows[] = {row(0, 60, 40), impatient(row(0, 60, 40), 450000, 0),
                           row(410 * MS, 10, 1)};
  run(rows, 3);
  expect_cancelled(1, CANCELLED_E2E, 450000, 21);
  cr_expect(scene.result.totals.swaps_out == 1 && scene.result.totals.swaps_in == 0);
  expect_at(scene.records[2].prefill_began_at, 398200 + 80000 + 11810, "the third request");
}

/* The first decodes with 6 of the blocks when the second is prefilled, in 5. With a sixth that is
 * also decoded, in a step that is decided then. Without one it gives way, before its prefill has
 * ended, and its client gives up: 80 tokens were computed all the same, and one of output. */
Test(patience, a_prefill_that_was_preempted_was_computed) {
  static const struct {
    int64_t kv_blocks, stages, computed;
  } cases[] = {{12, 1, 82}, {11, 1, 81}, {12, 2, 82}, {11, 2, 81}};
  const TraceRow rows[] = {row(0, 80, 17), impatient(row(95 * MS, 80, 10), 70000, 0)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 "{async_scheduling: true, enable_prefix_caching: false}");
    scene.pools[0].kv_blocks = cases[i].kv_blocks;
    scene.pools[0].pipeline_stages = cases[i].stages;
    scene.pools[0].pipeline_lanes = 1;
    run(rows, COUNT(rows));
    const Metrics *metrics = &scene.result.metrics;
    cr_expect_eq(scene.records[1].preemptions, cases[i].kv_blocks == 11, "case %zu", i);
    cr_expect(scene.records[1].cancelled == CANCELLED_E2E &&
              scene.records[1].generated_tokens == 0);
    cr_expect_eq(metrics->cancelled_tokens, cases[i].computed, "case %zu: %lld tokens", i,
                 (long long)metrics->cancelled_tokens);
  }
}

/* So the run is over with them. */
Test(patience, a_request_that_ended_takes_its_deadline_along) {
  TraceRow rows[2] = {row(0, 90, 3), row(0, 90, 1)};
  rows[0].patience = rows[1].patience = TICK_MAX;
  rows[1].first_token_patience = 3600 * TICKS_PER_SECOND;
  run(rows, 2);
  cr_expect_eq(scene.result.metrics.completed, 2u);
  cr_expect_lt(scene.result.span, TICKS_PER_SECOND);
}

/* Some give up before, while and after they are prefilled. When all have gone, what policies and
 * machines count is back at nothing. */
Test(patience, nobodys_books_keep_what_was_given_up) {
  static const struct {
    const char *batcher, *transfer, *kvtier;
  } cases[] = {
      {"splitwise_sim", "serialized", "splitwise_sim"},
      {"splitwise_sim_orca", "layerwise", "splitwise_sim"},
      {"tetriinfer", "chunked", "recompute"},
  };
  enum { N = 60 };
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = impatient(row(i * 15 * MS, 40 + i % 7 * 30, 2 + i % 5 * 20),
                        i % 3 ? 40000 * (1 + i % 29) : 0, i % 4 ? 0 : 90000 * (1 + i % 3));
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_split(&scene, 1, 2);
    scene_choose(&scene, POLICY_BATCHER, cases[i].batcher, NULL);
    scene_choose(&scene, POLICY_ROUTER, "splitwise_sim_mixed_pool", NULL);
    scene_choose(&scene, POLICY_TRANSFER, cases[i].transfer, NULL);
    scene_choose(&scene, POLICY_KVTIER, cases[i].kvtier, NULL);
    scene.pools[1].kv_blocks = 40;
    array_trace_init(&scene.trace, rows, N);
    scene.config.trace = &scene.trace.source;
    Simulation *engine = ARENA_NEW(&arena, Simulation);
    sim_init(engine, &scene.config, &arena, &diag);
    while (sim_step(engine))
      continue;
    const Metrics *metrics = &engine->metrics;
    cr_expect(metrics->cancelled_for[CANCELLED_TTFT] > 0 &&
              metrics->cancelled_for[CANCELLED_E2E] > 4 && metrics->completed > 4);
    cr_expect_eq(metrics_ended(metrics), N);
    int n = 0;
    for (const Column *column = engine->columns.all->first; column; column = column->next, n++)
      for (InstanceIx m = 0; m < engine->n_instances; m++)
        cr_expect_eq(column->of[m], 0, "%s: column %d from the last, of machine %u",
                     cases[i].batcher, n, m);
  }
}
