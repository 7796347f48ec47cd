/* What TensorRT-LLM's scheduler does otherwise than vLLM's. Pinned: that nobody gives way where
 * admission keeps blocks for all outputs, and that memory is used up otherwise; that prompts are
 * whole, but for those that no step has room for. Steps one by one and coalesced are held against
 * each other by each run, and on random clusters by the swarm. */
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
  uint64_t evictions[2];
  for (int i = 0; i < 2; i++) {
    scene_choose(&scene, POLICY_BATCHER, "vllm", options[i]);
    run(rows, 6);
    evictions[i] = scene.result.metrics.evictions;
    cr_expect_eq(scene.records[2].prefill_began_at >= scene.records[0].last_token_at, i == 1);
  }
  cr_expect_gt(evictions[0], 0);
  cr_expect_eq(evictions[1], 0);
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
