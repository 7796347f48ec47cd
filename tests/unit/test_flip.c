/* The control plane in whole runs: that flips and broadcasts neither keep a run alive nor lose a
 * request, which machine may not flip, and where dispatchers have no say. The times of flips are in
 * the golden timelines; random clusters are the swarm's. */
#include "tests/unit/scene_testing.h"

static void begin(void) {
  setup_scene();
  scene.config.monitor_interval = 10 * MS;
}

TestSuite(flip, .init = begin, .fini = teardown);

/* Runs both ways and holds one against the other; nothing is left over. */
static const Metrics *run_flips(const TraceRow *rows, size_t n_rows) {
  scene_run_both(&scene, rows, n_rows);
  const Metrics *metrics = &scene.result.metrics;
  cr_assert_eq(metrics->completed + metrics->rejected, n_rows);
  return metrics;
}

static void flip(const char *options) {
  scene_choose(&scene, POLICY_POOL, "tetriinfer_flip", options);
}

/* 90 tokens in 100 ms, 90 ms to move, then 11.91 and 11.92 ms. */
static const TraceRow alone[] = {{.at = 0, .prompt_tokens = 90, .output_tokens = 3}};
static const Tick alone_us = 213830;

/* An hour at rest. Each machine flips at most once between two pieces of work; but those that wait
 * in the wrong role help once the others have work. */
Test(flip, a_cluster_at_rest_comes_to_rest) {
  static const char *const rules[] = {"idle_for: 1 s", "when: load, window: 1 s"};
  scene_split(&scene, 2, 2);
  const TraceRow rows[] = {alone[0], row(3600 * TICKS_PER_SECOND, 90, 3)};
  for (size_t i = 0; i < COUNT(rules); i++) {
    flip(arena_printf(&arena, "{%s, only_if_other_busy: false}", rules[i]));
    const Metrics *metrics = run_flips(rows, COUNT(rows));
    cr_expect(0 < metrics->flips && metrics->flips <= 8, "%s: %llu flips", rules[i],
              (unsigned long long)metrics->flips);
  }
}

Test(flip, a_run_ends_though_machines_would_flip) {
  scene_split(&scene, 3, 3);
  flip("{idle_for: 0 s, flip_time: 5 ms, only_if_other_busy: false}");
  cr_expect_gt(run_flips(alone, 1)->flips, 0u);
  cr_expect_eq(scene.result.span, alone_us * US);
  flip("{idle_for: 0 s, flip_time: 1000 s, only_if_other_busy: false}");
  cr_expect_eq(run_flips(alone, 1)->flips, 0u, "none was over");
  cr_expect_eq(scene.result.span, alone_us * US, "the end does not wait for flips");
}

Test(flip, loads_are_broadcast_only_where_they_are_read) {
  scene_split(&scene, 1, 2);
  run_flips(alone, 1);
  const uint64_t events = scene.result.events;
  scene_choose(&scene, POLICY_DISPATCHER, "random", NULL);
  run_flips(alone, 1);
  cr_expect_eq(scene.result.events, events);
  scene_choose(&scene, POLICY_DISPATCHER, "power_of_two", NULL);
  run_flips(alone, 1);
  cr_expect_eq(scene.result.events, events + 21, "each 10 ms");
}

Test(flip, role_changes_count_flips) {
  scene_split(&scene, 1, 2);
  flip("{idle_for: 20 ms}");
  const Metrics *metrics = run_flips(alone, 1);
  cr_expect_gt(metrics->flips, 0u);
  cr_expect_eq(metrics->flips, metrics->role_changes);
  cr_expect_eq(metrics->flip_ticks, (Tick)metrics->flips * 6 * MS);
}

/* Two prefill machines, of which only the first can hold the second request. */
Test(flip, the_roomiest_machine_of_a_phase_stays) {
  scene_split(&scene, 1, 1);
  scene.pools[2] = scene.pools[0];
  scene.pools[2].kv_blocks = 10;
  scene.config.n_pools = 3;
  flip("{idle_for: 0 s, only_if_other_busy: false, min_prefill: 0, min_decode: 0}");
  const TraceRow rows[] = {alone[0], row(500 * MS, 250, 3)};
  const Metrics *metrics = run_flips(rows, COUNT(rows));
  cr_expect_eq(metrics->rejected, 0u);
  cr_expect_gt(metrics->flips, 0u, "the small machine flips");
  cr_expect(scene.records[1].prefill_instance == 0 && scene.records[1].decode_instance == 1);
}

/* Requests too large for half of the machines, with everything on the move. */
Test(flip, large_requests_find_their_machine) {
  scene_split(&scene, 2, 2);
  scene.pools[1].kv_blocks = 10;
  scene.pools[2] = scene.pools[1];
  scene.pools[2].kv_blocks = 20;
  scene.pools[2].count = 2;
  scene.config.n_pools = 3;
  flip("{idle_for: 5 ms, flip_time: 1 ms, only_if_other_busy: false}");
  TraceRow rows[40];
  for (int i = 0; i < 40; i++)
    rows[i] = row(i * 37 * MS, i % 3 ? 90 : 250, 1 + i % 70);
  static const char *const dispatchers[] = {"router", "power_of_two", "random", "least_loaded",
                                            "imbalance"};
  for (size_t d = 0; d < COUNT(dispatchers); d++) {
    scene_choose(&scene, POLICY_DISPATCHER, dispatchers[d], NULL);
    const Metrics *metrics = run_flips(rows, COUNT(rows));
    cr_expect_eq(metrics->rejected, 0u);
    cr_expect_gt(metrics->flips, 10u);
    cr_expect_eq(metrics->dispatches, d > 0 ? 39u : 0u, "all but the one of a single token");
    for (int i = 0; i < 40; i += 3)
      cr_expect_neq(scene.records[i].decode_instance / 2, 1u, "request %d is too large", i);
  }
}

Test(flip, a_machine_that_prefills_and_decodes_is_asked_nothing) {
  scene_choose(&scene, POLICY_DISPATCHER, "power_of_two", NULL);
  scene.pools[0].count = 2;
  const Metrics *metrics = run_flips(alone, 1);
  cr_expect_eq(metrics->dispatches, 0u);
  cr_expect_eq(metrics->transfers, 0u);
}

/* Instance 0 prefills request 0 to 910 ms and request 3 after it. Instance 1 is claimed to prefill
 * requests 1 and 2, and as it stays mixed it becomes a prefill machine, so that nobody decodes when
 * request 3 is dispatched: it is decoded where it is. */
Test(flip, where_all_decode_machines_have_moved_one_is_claimed) {
  scene_split(&scene, 1, 1);
  scene_choose(&scene, POLICY_ROUTER, "splitwise", "{prefill_queue_limit: 1000}");
  scene_choose(&scene, POLICY_POOL, "splitwise_mixed", "{repurpose_after: 1 ms}");
  scene_choose(&scene, POLICY_BATCHER, "splitwise", "{max_num_batched_tokens: 50}");
  scene_choose(&scene, POLICY_DISPATCHER, "power_of_two", NULL);
  const TraceRow rows[] = {row(0, 900, 1), row(10 * MS, 200, 1), row(20 * MS, 200, 1),
                           row(30 * MS, 90, 3)};
  const Metrics *metrics = run_flips(rows, COUNT(rows));
  cr_expect_eq(metrics->role_changes, 4u, "each machine to mixed and from it");
  cr_expect_eq(metrics->dispatches, 1u);
  cr_expect(scene.records[1].prefill_instance == 1 && scene.records[2].prefill_instance == 1);
  cr_expect(scene.records[3].prefill_instance == 0 && scene.records[3].decode_instance == 0);
}
