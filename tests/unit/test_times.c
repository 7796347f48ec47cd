/* What is known of the iteration times of many runs together, and how it is said. */
#include "experiments/report/report.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(times, .init = setup, .fini = teardown);

static TimesKnown times_of(double measured, double error, double share, double far) {
  TimesKnown times = {0};
  times_add(&times, &(ExtrapolatedFigures){.perfmodel_measured = measured,
                                           .perfmodel_error = error,
                                           .time_share = share,
                                           .far_time_share = far});
  return times;
}

Test(times, the_worst_of_many_runs_is_said) {
  TimesKnown all = {0};
  cr_expect_str_eq(times_text(&all, &arena), "");
  cr_expect_null(times_extrapolated_text(&all, "it", &arena));
  const TimesKnown known[] = {times_of(1, 0.03, 0.2, 0.01), times_of(1, 0.056, 0.1, 0.09)};
  for (int i = 0; i < 2; i++)
    times_merge(&all, &known[i]);
  cr_expect_str_eq(times_text(&all, &arena), "measured, held-out error up to 5.6%");
  // What is far outside is of the same run.
  cr_expect_str_eq(
      times_extrapolated_text(&all, "one", &arena),
      "up to 20.0% of the time of one (far: 1.0%) is outside the measured range, where "
      "the error is unknown");
  const TimesKnown unknown = times_of(1, NAN, 0, 0), computed = times_of(0, NAN, 0, 0);
  times_merge(&all, &computed);
  cr_expect_str_eq(times_text(&all, &arena),
                   "measured, held-out error up to 5.6%; some from a roofline, not "
                   "measured, with unknown error");
  cr_expect_str_eq(times_text(&unknown, &arena), "measured, with unknown error");
  cr_expect_str_eq(times_text(&computed, &arena),
                   "from a roofline, not measured, with unknown error");
}
