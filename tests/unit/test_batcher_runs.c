/* Whole runs of the batchers that cut prompts into chunks: what a plan needs of the core. Pinned:
 * that chunks of prompts which block each other's memory are given up, and that a run is cut when
 * time alone lets a request join. The model is plain: 10 ms, 1 ms per token, 10 us per token of
 * context. */
#include "tests/unit/scene_testing.h"

static void begin(void) {
  setup_scene();
  scene.pools[0].block_size = 1;
}

TestSuite(batcher_runs, .init = begin, .fini = teardown);

static void run_both_ways(const TraceRow *rows, size_t n_rows) {
  scene.config.step = true;
  cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
  const uint64_t digest = scene.result.digest;
  scene.config.step = false;
  cr_assert_eq(scene_run(&scene, rows, n_rows), 0);
  cr_assert_eq(scene.result.digest, digest);
  cr_assert_eq(scene.result.unfinished, 0u);
}

/* Ten tokens of every prompt, as long as there is room. */
static void plan_ten_of_each(void *state, void *machine_state, const InstanceView *view,
                             BatchPlan *plan) {
  (void)state, (void)machine_state;
  int64_t blocks = view->instance->free_blocks;
  for (RequestIx ix = view->instance->prefill_queue.first; ix != REQUEST_NONE;
       ix = view->requests[ix].next) {
    const int64_t needed = view_prefill_blocks(view, ix, 10);
    if (needed > blocks) return;
    plan_prefill(plan, ix, 10);
    blocks -= needed;
  }
}

static bool always(void *state, void *machine_state, const InstanceView *view, Wake why,
                   RequestIx request) {
  (void)state, (void)machine_state, (void)view, (void)why, (void)request;
  return true;
}

/* 40 blocks: after two iterations both prompts of 30 hold 20 and neither can go on. The second
 * gives up and begins again beside the last of the first, 30 + 30 + 30 ms; then it takes 2 × 20. */
Test(batcher_runs, a_prompt_between_chunks_gives_way) {
  static const Batcher ten_of_each = {
      .policy = {.name = "ten_of_each"}, .wake = always, .plan = plan_ten_of_each};
  scene.config.policies[POLICY_BATCHER] = (PolicyChoice){&ten_of_each.policy, NULL};
  scene.pools[0].kv_blocks = 40;
  const TraceRow rows[] = {row(0, 30, 1), row(0, 30, 1)};
  run_both_ways(rows, 2);
  cr_assert_eq(scene.records[0].last_token_at, 90 * MS);
  cr_assert_eq(scene.records[1].last_token_at, 130 * MS);
  cr_assert_eq(scene.records[1].preemptions, 1);
  cr_assert_eq(scene.records[1].recomputes, 0);
  cr_assert_eq(scene.result.metrics.preemptions, 1u);
  cr_assert_eq(scene.result.metrics.restarted_prefills, 1u);
  cr_assert_eq(scene.result.metrics.dropped_tokens, 20);
  cr_assert_eq(scene.result.totals.prefill_tokens, 80);
}

/* Both are prefilled at 40 ms and hold 20 of 36 blocks. Until the first finishes after 10 more,
 * both would take 20; joining after 4 iterations (11.11 + 11.12 + 11.13 + 11.14 ms) the second
 * takes 6 by then. */
Test(batcher_runs, reserve_dynamic_admits_in_the_iteration_in_which_it_may) {
  scene.pools[0].kv_blocks = 36;
  scene_choose(&scene, POLICY_PREDICTOR, "oracle", NULL);
  scene_choose(&scene, POLICY_BATCHER, "tetriinfer", "{chunk_size: 10}");
  const TraceRow rows[] = {row(0, 10, 11), row(0, 10, 25)};
  run_both_ways(rows, 2);
  cr_assert_eq(scene.records[0].decode_began_at, 40 * MS);
  cr_assert_eq(scene.records[1].decode_began_at, 40 * MS + 44500 * US);
  cr_assert_eq(scene.result.metrics.recomputes, 0u);
}

/* Decodes begin at 20 ms. The second, of 30 ms, is taken in after five of them (11.11 + … + 11.15
 * ms), the third, which comes during its prefill of 20 ms, right after that. */
Test(batcher_runs, prompts_are_taken_in_at_each_fifth_iteration_of_decodes) {
  scene_choose(&scene, POLICY_BATCHER, "continuous", "{scheduler_recv_interval: 5}");
  const TraceRow rows[] = {row(0, 10, 30), row(30 * MS, 10, 30), row(80 * MS, 10, 2)};
  run_both_ways(rows, 3);
  cr_assert_eq(scene.records[1].prefill_began_at, 75650 * US);
  cr_assert_eq(scene.records[2].prefill_began_at, 95650 * US);
}

/* Prompts come while others decode, and memory is short: nobody is left behind. */
Test(batcher_runs, a_tight_machine_serves_all) {
  static const struct {
    const char *name, *options;
  } cases[] = {
      {"sarathi", "{max_num_batched_tokens: 16}"},
      {"tetriinfer", "{chunk_size: 16, decode_policy: greedy}"},
      {"tetriinfer", "{chunk_size: 16, decode_policy: reserve_static, prefill_policy: ljf}"},
      {"tetriinfer", "{chunk_size: 16, decode_policy: reserve_dynamic}"},
      {"tetriinfer", "{chunk_size: 200}"},
      {"continuous", "{max_num_prefill_seqs: 2, pad_prefills: true}"},
      {"continuous", "{scheduler_recv_interval: 4}"},
  };
  TraceRow rows[24];
  for (int i = 0; i < 24; i++)
    rows[i] = row(i * 7 * MS, 5 + 13 * i % 37, 1 + 11 * i % 29);
  scene.pools[0].kv_blocks = 75;
  scene_choose(&scene, POLICY_PREDICTOR, "oracle", NULL);
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, cases[i].name, cases[i].options);
    run_both_ways(rows, COUNT(rows));
    cr_assert_eq(scene.result.metrics.completed, COUNT(rows), "%s %s", cases[i].name,
                 cases[i].options);
  }
}
