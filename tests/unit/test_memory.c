/* Who joins, who gives way and what policies know of it, in whole runs, to the
 * tick, from the plain model (10 ms + 1 ms per token + 10 us per token of
 * decode context). Pinned: that memory somebody gave up goes to those it was
 * given up for, that nobody who needs no block waits for one who does, that
 * those who wait are looked at when somebody has given way, and that policies
 * know of the blocks that a run has taken so far. */
#include "sim/run.h"
#include "tests/unit/scene_testing.h"

TestSuite(memory, .init = setup_scene, .fini = teardown);

/* Ten blocks: five hold the 80 tokens of the first, five the 66 of the second.
 * Both are prefilled, 90 + 76, to 166 ms; then the first needs a sixth block,
 * and the second gives way. The first makes 39 tokens alone, over 81 … 119 of
 * context. The second is prefilled again, 67 tokens, and makes 38, over 68 …
 * 105. */
Test(memory, what_is_given_up_is_not_taken_back_at_once) {
  static const char *const batchers[] = {"continuous", "splitwise"};
  const Tick first = 166000 + 39 * 11000 + 10 * 39 * (81 + 119) / 2;
  const TraceRow rows[] = {row(0, 80, 40), row(100000, 66, 40)};
  scene.pools[0].kv_blocks = 10;
  for (size_t i = 0; i < COUNT(batchers); i++) {
    scene_choose(&scene, POLICY_BATCHER, batchers[i], NULL);
    scene_run_both(&scene, rows, COUNT(rows));
    cr_expect_eq(scene.result.metrics.recomputes, 1u, "%s: %llu recomputes", batchers[i],
                 (unsigned long long)scene.result.metrics.recomputes);
    expect_at(scene.records[0].last_token_at, first, batchers[i]);
    expect_at(scene.records[1].last_token_at, first + 77000 + 38 * 11000 + 10 * 38 * (68 + 105) / 2,
              batchers[i]);
  }
}

/* The same on a TetriInfer instance, with chunks of 16: five and five of them,
 * 26 ms each, and five again. */
Test(memory, what_is_given_up_is_not_taken_back_at_once_by_chunks) {
  const Tick first = 10 * 26000 + 39 * 11000 + 10 * 39 * (81 + 119) / 2;
  const TraceRow rows[] = {row(0, 80, 40), row(100000, 66, 40)};
  scene.pools[0].kv_blocks = 10;
  scene_choose(&scene, POLICY_BATCHER, "tetriinfer", "{chunk_size: 16, decode_policy: greedy}");
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.recomputes, 1u);
  expect_at(scene.records[0].last_token_at, first, "the first");
  expect_at(scene.records[1].last_token_at,
            first + 5 * 26000 + 38 * 11000 + 10 * 38 * (68 + 105) / 2, "the second");
}

/* Three blocks, full: prefilled together, 28 tokens, to 38 ms, and the second
 * needs another for its next token. The last to arrive gives way, the others go
 * on over 24, 26 … tokens of context. */
Test(memory, nobody_waits_behind_one_who_needs_a_block) {
  static const char *const batchers[] = {"continuous", "mixed", "sarathi"};
  const TraceRow rows[] = {row(0, 6, 10), row(0, 16, 10), row(0, 6, 10)};
  scene.pools[0].kv_blocks = 3;
  for (size_t i = 0; i < COUNT(batchers); i++) {
    scene_choose(&scene, POLICY_BATCHER, batchers[i], NULL);
    scene_run_both(&scene, rows, COUNT(rows));
    const Tick ends = 38000 + 9 * 12000 + 10 * 9 * (24 + 40) / 2;
    expect_at(scene.records[0].decode_began_at, 38000, batchers[i]);
    expect_at(scene.records[1].decode_began_at, 38000, batchers[i]);
    expect_at(scene.records[0].last_token_at, ends, batchers[i]);
    expect_at(scene.records[1].last_token_at, ends, batchers[i]);
    cr_expect_eq(scene.records[2].recomputes, 1, "%s", batchers[i]);
    expect_at(scene.records[2].decode_began_at, ends + 17000, "once prefilled again");
  }
}

/* Five blocks, prefilled together, 58 tokens, to 68 ms. The first decodes, over
 * 22 … 32 tokens, while the second wants a block and the third waits behind it.
 * Then the first needs a block: the third gives up two, and an iteration later
 * the second has the other. */
Test(memory, those_who_wait_are_looked_at_when_somebody_has_given_way) {
  static const struct {
    const char *batcher, *options;
  } cases[] = {{"splitwise", "{memory_reserve: 0}"},
               {"tetriinfer", "{chunk_size: 58, prefill_policy: fcfs, decode_policy: greedy}"}};
  const TraceRow rows[] = {row(0, 21, 60), row(0, 16, 9), row(0, 21, 9)};
  scene.pools[0].kv_blocks = 5;
  const Tick evicted = 68000 + 11 * 11000 + 10 * 11 * (22 + 32) / 2;
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, cases[i].batcher, cases[i].options);
    scene_run_both(&scene, rows, COUNT(rows));
    cr_expect_gt(scene.records[2].recomputes, 0, "%s", cases[i].batcher);
    expect_at(scene.records[1].decode_began_at, evicted + 11000 + 330, cases[i].batcher);
  }
}

/* --- what policies know */

/* The first is on machine 0 with 4 blocks, the second, from 400 ms, on machine
 * 1 with 5. At 700 ms the first has made 55 tokens and holds 7 blocks, the
 * second 19 and holds 6. */
Test(memory, routers_know_the_blocks_that_runs_have_taken) {
  scene.pools[0].count = 2;
  scene_choose(&scene, POLICY_ROUTER, "least_kv", NULL);
  const TraceRow rows[] = {row(0, 50, 200), row(400 * MS, 70, 200), row(700 * MS, 10, 2)};
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_instance, 1u);
  cr_expect_eq(scene.records[2].prefill_instance, 1u);
}

/* Chunks of 100 tokens, 110 ms each: at 900 ms eight of the first prompt's ten
 * have ended. */
Test(memory, routers_know_the_chunks_that_have_ended) {
  scene_split(&scene, 2, 1);
  scene_choose(&scene, POLICY_ROUTER, "token_jsq", NULL);
  scene_choose(&scene, POLICY_BATCHER, "tetriinfer", "{chunk_size: 100}");
  const TraceRow rows[] = {row(0, 1000, 1), row(900 * MS, 300, 1), row(905 * MS, 10, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.records[1].prefill_instance, 1u);
  cr_expect_eq(scene.records[2].prefill_instance, 0u, "200 tokens are left there, 300 here");
}

/* 200 blocks of a token. The first decodes from 110 ms, 99 iterations over 51 …
 * 149 tokens. The second, prefilled at 850 ms, will be of 100 tokens, which
 * were free when that run began. */
Test(memory, batchers_receive_by_the_blocks_that_a_run_has_taken) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 200;
  scene.pools[1].block_size = 1;
  scene_choose(&scene, POLICY_PREDICTOR, "oracle", NULL);
  scene_choose(&scene, POLICY_BATCHER, "tetriinfer",
               "{chunk_size: 1, decode_policy: reserve_static}");
  scene.pools[0].batcher = choose_policy(POLICY_BATCHER, "continuous", NULL, &arena);
  const TraceRow rows[] = {row(0, 50, 100), row(800 * MS, 40, 60)};
  scene_run_both(&scene, rows, COUNT(rows));
  const Tick ends = 110000 + 99 * 11000 + 10 * 99 * (51 + 149) / 2;
  expect_at(scene.records[0].last_token_at, ends, "the first");
  expect_at(scene.records[1].decode_began_at, ends + 40000, "the second");
}

/* Runs the scene until `until`; the free blocks of machine 1 as last broadcast.
 */
static int64_t broadcast_blocks(const TraceRow *rows, size_t n_rows, Tick until, bool step) {
  Simulation engine;
  array_trace_init(&scene.trace, rows, n_rows);
  scene.config.step = step;
  sim_init(&engine, &scene.config, &arena, &diag);
  while (engine.now < until && sim_step(&engine))
    ;
  cr_expect_eq(engine.deployments[0].view.loads_at, until);
  return engine.deployments[0].view.loads[1].free_blocks;
}

/* 100 blocks of 16 tokens, four of which come over by 110 ms. Iterations are
 * of 11.51, 11.52 … ms: at 1000 ms 75 have ended and another has begun, which
 * is at 50 + 76 tokens, 8 blocks. */
Test(memory, broadcasts_tell_of_the_blocks_that_runs_have_taken) {
  scene_split(&scene, 1, 1);
  scene.pools[1].kv_blocks = 100;
  scene_choose(&scene, POLICY_DISPATCHER, "least_loaded", NULL);
  scene.config.monitor_interval = 1000 * MS;
  const TraceRow rows[] = {row(0, 50, 200)};
  for (int step = 0; step < 2; step++)
    cr_expect_eq(broadcast_blocks(rows, 1, 1000 * MS, step), 100 - 8);
}
