/* A start that is not counted. Pinned: which requests are, by number and by time; what machines did
 * before is left out, in the middle of a run of decodes as well, and without a warm-up before the
 * first arrival; a gap between tokens counts where its request does; where nothing is left, nothing
 * is counted. That outcomes are the same, and so
 * are figures with --step, is shown by the swarm. */
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
  const InstanceTotals all = scene.result.totals;
  scene.config.warm_up.requests = 1;
  cr_assert_eq(scene_run(&scene, two, 2), 0);
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_eq(scene.result.metrics.tbt.total, 4);
  cr_expect_lt(totals->decode_tokens, all.decode_tokens);
  cr_expect_gt(totals->decode_tokens, 100, "those of the first that came later");
  cr_expect_eq(totals->prefill_tokens, 100);
  cr_expect(instance_busy_ticks(totals) <= scene.result.span);
  cr_expect(instance_busy_ticks(totals) + 100 * MS > scene.result.span, "it was busy all along");
}

/* Without one it ends with the first arrival, though that reaches the router later; with one, when
 * the first that is counted arrives. Of a machine that is down until 3 s after that as much counts.
 */
Test(warm_up, ends_with_an_arrival_whatever_was_before) {
  enum { LATE = 1000 };
  const FaultSpan outage = {TICKS_PER_SECOND, (LATE + 3) * TICKS_PER_SECOND};
  const FaultSource source = {.kind = FAULT_FAIL,
                              .factor = 1,
                              .first = 1,
                              .n_instances = 1,
                              .spans = &outage,
                              .n_spans = 1};
  scene.pools[0].count = 2;
  scene.config.faults = &source;
  scene.config.n_faults = 1;
  for (int i = 0; i < ROWS; i++)
    rows[i] = row((LATE + i) * TICKS_PER_SECOND, 100, 5);
  for (int i = 0; i < 4; i++) {
    const int left_out = i / 2;
    scene.config.warm_up.requests = left_out;
    scene.config.request_time = i % 2 ? 300 * MS : 0;
    cr_assert_eq(scene_run(&scene, rows, ROWS), 0);
    const SimResult *result = &scene.result;
    const Tick from = (LATE + left_out) * TICKS_PER_SECOND;
    cr_expect_eq(result->counted_from, from, "case %d", i);
    cr_expect_eq(result->span, result->end - from, "case %d", i);
    cr_expect_eq(result->metrics.asked.requests, (uint64_t)(ROWS - left_out));
    const Tick booted = outage.until + 1; // no boot is shorter
    cr_expect(result->totals.down_ticks == booted - from, "case %d", i);
    const double busy = total_seconds(instance_busy_ticks(&result->totals));
    cr_expect_float_eq(result->pools[0].utilization, busy / tick_seconds(result->span) / 2, 1e-9);
  }
}

Test(warm_up, of_all_leaves_nothing) {
  scene.config.warm_up.requests = ROWS;
  cr_assert_eq(scene_run(&scene, rows, ROWS), 0);
  cr_expect_eq(scene.result.metrics.asked.requests, 0);
  cr_expect_eq(scene.result.totals.decode_tokens, 0);
  cr_expect_eq(scene.result.span, 0);
}
