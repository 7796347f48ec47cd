/* What TensorRT-LLM's scheduler does otherwise than vLLM's. Pinned: that nobody gives way where
 * admission keeps blocks for all outputs, and that memory is used up otherwise; that prompts are
 * whole, but for those that no step has room for, and when they wait for others. Steps one by one
 * and coalesced are held against each other by each run, and on random clusters by the swarm. */
#include "tests/unit/scene_testing.h"

TestSuite(capacity, .init = setup_scene, .fini = teardown);

/* 20 blocks of 16; each request needs 3 at first and 8 in the end, so that two can end together. */
Test(capacity, who_is_admitted_can_end) {
  TraceRow rows[6];
  for (int i = 0; i < 6; i++)
    rows[i] = row(i * MS, 40, 88);
  scene.pools[0].kv_blocks = 20;
  static const char *const options[] = {
      "{enable_prefix_caching: false}",
      "{enable_prefix_caching: false, capacity_scheduler_policy: guaranteed_no_evict}"};
  uint64_t recomputes[2];
  for (int i = 0; i < 2; i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm", options[i]);
    run(rows, 6);
    recomputes[i] = scene.result.metrics.recomputes;
    cr_expect_eq(scene.records[2].prefill_began_at >= scene.records[0].last_token_at, i == 1);
  }
  cr_expect_gt(recomputes[0], 0);
  cr_expect_eq(recomputes[1], 0);
}

/* Steps of 100 tokens: 10 ms, and a millisecond for each. */
Test(capacity, prompts_are_whole) {
  const TraceRow rows[] = {row(0, 60, 1), row(0, 70, 1), row(0, 230, 1)};
  static const struct {
    const char *options;
    Tick first_us[3];
  } cases[] = {
      {"{async_scheduling: false, max_num_batched_tokens: 100}", {110000, 220000, 400000}},
      {"{async_scheduling: false, max_num_batched_tokens: 100, enable_chunked_prefill: false}",
       {70000, 180000, 400000}},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm", cases[i].options);
    run(rows, COUNT(rows));
    for (size_t r = 0; r < COUNT(rows); r++)
      expect_at(scene.records[r].first_token_at, cases[i].first_us[r], cases[i].options);
  }
}

/* Decodes of the first begin at 20 ms. The second, of 25 ms, waits in four decisions from that at
 * 31.11 ms on; the third fills the batch at once. A step is 10 ms, a millisecond for each token and
 * 10 us for each of context. */
Test(capacity, prompts_wait_for_more_beside_decodes) {
  static const struct {
    const char *options;
    Tick began_us;
  } cases[] = {
      {"{async_scheduling: false}", 31110},
      {"{async_scheduling: false, batch_wait_timeout_iters: 4, batch_wait_max_tokens_ratio: 1}",
       75650},
      {"{async_scheduling: false, batch_wait_timeout_iters: 4, max_num_batched_tokens: 100, "
       "batch_wait_max_tokens_ratio: 0.11}",
       31110},
  };
  const TraceRow rows[] = {row(0, 10, 30), row(25 * MS, 10, 2)};
  for (size_t i = 0; i < COUNT(cases); i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm", cases[i].options);
    run(rows, COUNT(rows));
    expect_at(scene.records[1].prefill_began_at, cases[i].began_us, cases[i].options);
  }
}
