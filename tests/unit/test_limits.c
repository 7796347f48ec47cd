/* What a run does not take: prompts and outputs beyond the model's context, and more memory than it
 * may have. */
#include "tests/unit/scene_testing.h"

TestSuite(limits, .init = setup_scene, .fini = teardown);

/* As in an engine: a prompt must leave room for a token, and an output ends with the context. */
Test(limits, the_context_of_a_model_rejects_prompts_and_cuts_outputs) {
  scene.config.model.max_model_len = 100;
  const TraceRow rows[] = {row(0, 90, 10), row(MS, 90, 11), row(2 * MS, 99, 50),
                           row(3 * MS, 100, 1), row(4 * MS, 12000, 8000)};
  static const Rejection want[] = {REJECTED_NOT, REJECTED_NOT, REJECTED_NOT, REJECTED_CONTEXT,
                                   REJECTED_CONTEXT};
  static const int32_t outputs[] = {10, 10, 1, 1, 8000};
  run(rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++) {
    cr_expect_eq(scene.records[i].rejected, want[i], "request %zu", i);
    cr_expect_eq(scene.records[i].output_tokens, outputs[i], "request %zu", i);
  }
  const Metrics *metrics = &scene.result.metrics;
  cr_expect_eq(metrics->rejected_for[REJECTED_CONTEXT], 2u);
  cr_expect_eq(metrics->rejected_for[REJECTED_KV_MEMORY], 0u);
  cr_expect_eq(metrics->cut_outputs, 2u);
  cr_expect_eq(metrics->output_tokens, 21u);
  cr_expect_eq(metrics->asked.gaps, 9u + 9u + 0u + 0u + 7999u);
}

/* A limit ends a run or does nothing to it. */
Test(limits, what_a_router_keeps_of_machines_counts_before_it_is_made) {
  const TraceRow rows[] = {row(0, 100, 2)};
  scene.pools[0].count = 100;
  scene_choose(&scene, POLICY_ROUTER, "prefix_affinity", "{replication: 4096}");
  scene.config.memory_limit = arena.bytes + 100 * 4096 * 15;
  cr_expect_lt(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_assert_eq(diag.n_entries, 1u);
  cr_expect(strstr(diag.entries[0].message, "100 instances alone"), "%s", diag.entries[0].message);
}

Test(limits, a_run_ends_at_its_limit_of_memory_and_says_what_it_needs) {
  enum { N = 20 };
  TraceRow rows[N];
  for (int i = 0; i < N; i++)
    rows[i] = row(0, 90, 3);
  run(rows, N);
  const uint64_t digest = scene.result.digest;
  scene.config.memory_limit = arena.bytes + 1000000;
  run(rows, N);
  cr_expect_eq(scene.result.digest, digest);
  scene.config.memory_limit = arena.bytes - 1;
  cr_assert_lt(scene_run(&scene, rows, N), 0);
  cr_assert_eq(diag.n_entries, 1);
  cr_expect_eq(diag.entries[0].kind, DIAG_ENVIRONMENT);
  cr_expect(strstr(diag.entries[0].message, "1 instances alone"), "%s", diag.entries[0].message);
}
