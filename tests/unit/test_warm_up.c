/* A start that is not counted. Pinned: which requests are, by number and by time; what machines did
 * before is left out, in the middle of a run of decodes as well; a gap between tokens counts where
 * its request does; where nothing is left, nothing is counted. That outcomes are the same, and so
 * are figures with --step, is shown by the swarm. */
#include "sim/warm_up.h"
#include "tests/unit/sim_testing.h"

enum { ROWS = 10, WARM = 4 };

static Scene scene;
static TraceRow rows[ROWS];

static void begin(void) {
  setup();
  scene_init(&scene, &arena, &diag);
  for (int i = 0; i < ROWS; i++)
    rows[i] = row(i * TICKS_PER_SECOND, 100, 5);
}

TestSuite(warm_up, .init = begin, .fini = teardown);

static void expect_the_last_six(void) {
  const SimResult *result = &scene.result;
  cr_assert_eq(scene_run(&scene, rows, ROWS), 0);
  cr_expect_eq(result->metrics.asked.requests, (uint64_t)(ROWS - WARM));
  cr_expect_eq(result->metrics.completed, (uint64_t)(ROWS - WARM));
  cr_expect_eq(result->metrics.ttft.total, (uint64_t)(ROWS - WARM));
  cr_expect_eq(result->metrics.first_arrival_at, WARM * TICKS_PER_SECOND);
  cr_expect_eq(result->totals.prefill_tokens, 100 * (ROWS - WARM));
  cr_expect_eq(result->totals.decode_tokens, 4 * (ROWS - WARM));
  cr_expect_eq(result->span, result->end - WARM * TICKS_PER_SECOND);
}

Test(warm_up, is_so_many_requests_or_those_before_a_time) {
  scene.config.warm_up.requests = WARM;
  expect_the_last_six();
  scene.config.warm_up = (WarmUp){.duration = WARM * TICKS_PER_SECOND};
  expect_the_last_six();
  scene.config.warm_up = (WarmUp){.requests = 1, .duration = 3 * TICKS_PER_SECOND + 1};
  expect_the_last_six();
}

Test(warm_up, ends_within_a_run_of_decodes) {
  const TraceRow two[] = {row(0, 100, 200), row(TICKS_PER_SECOND, 100, 5)};
  scene_run_both(&scene, two, 2);
  const MachineTotals all = scene.result.totals;
  scene.config.warm_up.requests = 1;
  cr_assert_eq(scene_run(&scene, two, 2), 0);
  const MachineTotals *totals = &scene.result.totals;
  cr_expect_eq(scene.result.metrics.tbt.total, 4);
  cr_expect_lt(totals->decode_tokens, all.decode_tokens);
  cr_expect_gt(totals->decode_tokens, 100, "those of the first that came later");
  cr_expect_eq(totals->prefill_tokens, 100);
  cr_expect(machine_busy_ticks(totals) <= scene.result.span);
  cr_expect(machine_busy_ticks(totals) + 100 * MS > scene.result.span, "it was busy all along");
}

Test(warm_up, of_all_leaves_nothing) {
  scene.config.warm_up.requests = ROWS;
  cr_assert_eq(scene_run(&scene, rows, ROWS), 0);
  cr_expect_eq(scene.result.metrics.asked.requests, 0);
  cr_expect_eq(scene.result.totals.decode_tokens, 0);
  cr_expect_eq(scene.result.span, 0);
}
