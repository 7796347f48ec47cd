/* Samples of one point, from a machine that is made up. Pinned: what of its clock, its reasons to
 * throttle and its energy a point is said to have had, when energy is not known, and that samples
 * of the lead do not count. */
#include "calib/sampling.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(sampling, .init = setup, .fini = teardown);

/* A machine that takes 20 ms a run until it has run for `fast_seconds`, then 30 ms, at 300 W. Its
 * counter of energy moves by steps. It says its power unless `window` is 0, for so long that of the
 * work before, 600 W. */
typedef struct Made {
  double fast_seconds, ran, step_joule, idle_clock, window;
  int64_t readings;
} Made;

static CalibStatus measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  Made *self = state;
  (void)error;
  *ret_seconds = self->ran < self->fast_seconds ? 0.02 : 0.03;
  self->ran += *ret_seconds * repeats;
  return CALIB_OK;
}

/* The clock is that of an idle machine before it has run, and falls when it slows down. */
static void telemetry(void *state, CalibTelemetry *ret_telemetry) {
  Made *self = state;
  const bool is_slow = self->ran >= self->fast_seconds;
  self->readings++;
  *ret_telemetry = (CalibTelemetry){
      .sm_clock_mhz = self->ran == 0 ? self->idle_clock
                      : is_slow      ? 1200
                                     : 1800,
      .mem_clock_mhz = 2600,
      .power_w = self->window == 0          ? NAN
                 : self->ran < self->window ? 600
                                            : 300,
      .power_window_s = self->window,
      .energy_j = 1000 + self->step_joule * floor(300 * self->ran / self->step_joule),
      .throttle = is_slow ? 0x4 : 0};
}

static Sampled sample(Made *made, SampleLimits limits, double lead) {
  const Backend backend = {.name = "made", .measure = measure, .telemetry = telemetry};
  const Sampler sampler = {.backend = &backend,
                           .state = made,
                           .limits = limits,
                           .region_seconds = 0.002,
                           .lead_seconds = lead};
  char error[CALIB_ERROR_SIZE] = "";
  Sampled sampled;
  cr_assert_eq(sampling_take(&sampler, &sampled, error), CALIB_OK, "%s", error);
  return sampled;
}

static const SampleLimits SECOND = {3, SAMPLES_MOST, 1, 1, 0.001};

Test(sampling, energy_is_that_of_a_run) {
  Made made = {.fast_seconds = INFINITY, .step_joule = 1, .idle_clock = 300};
  const Sampled sampled = sample(&made, SECOND, 0);
  cr_expect_float_eq(sampled.energy_j, 0.02 * 300, 0.1);
  cr_expect_float_eq(sampled.statistics.median, 0.02, 1e-12);
  cr_expect_eq(sampled.sm_clock_mhz, 1800); // not what it was when it was idle
  cr_expect_eq(sampled.least_sm_clock_mhz, 1800);
  cr_expect_eq(sampled.throttle, 0);
  cr_expect_lt(made.readings, 40); // 1 s of samples, one reading in 25 ms
}

/* One step either way is more than a tenth of what it moved by. */
Test(sampling, energy_is_unknown_where_its_counter_hardly_moved) {
  Made coarse = {.fast_seconds = INFINITY, .step_joule = 40};
  cr_expect(isnan(sample(&coarse, SECOND, 0).energy_j));
  Made fine = {.fast_seconds = INFINITY, .step_joule = 40};
  const SampleLimits longer = {3, SAMPLES_MOST, 4, 4, 0.001};
  cr_expect_float_eq(sample(&fine, longer, 0).energy_j, 6, 0.6);
  Made none = {.fast_seconds = INFINITY, .step_joule = NAN};
  cr_expect(isnan(sample(&none, longer, 0).energy_j));
}

Test(sampling, power_is_that_of_the_point) {
  Made made = {.fast_seconds = INFINITY, .step_joule = NAN, .window = 0.5};
  const Sampled sampled = sample(&made, SECOND, 0);
  cr_expect_eq(sampled.power_w, 300);
  cr_expect_float_eq(sampled.energy_j, 6, 1e-9);
  Made brief = {.fast_seconds = INFINITY, .step_joule = NAN, .window = 2};
  const Sampled unknown = sample(&brief, SECOND, 0);
  cr_expect(isnan(unknown.power_w) && isnan(unknown.energy_j));
  Made led = {.fast_seconds = INFINITY, .step_joule = NAN, .window = 2};
  cr_expect_eq(sample(&led, SECOND, 2).power_w, 300); // the lead is of the point
}

Test(sampling, a_clock_that_falls_is_seen) {
  Made made = {.fast_seconds = 0.5, .step_joule = 1};
  const Sampled sampled = sample(&made, SECOND, 0);
  cr_expect_eq(sampled.least_sm_clock_mhz, 1200);
  cr_expect_gt(sampled.sm_clock_mhz, 1300);
  cr_expect_lt(sampled.sm_clock_mhz, 1700);
  cr_expect_eq(sampled.throttle, 0x4);
}

Test(sampling, the_lead_does_not_count) {
  Made made = {.fast_seconds = 0.5, .step_joule = 1};
  const Sampled sampled = sample(&made, SECOND, 0.6);
  cr_expect_float_eq(sampled.statistics.median, 0.03, 1e-12);
  cr_expect_float_eq(sampled.statistics.p10, 0.03, 1e-12);
  cr_expect_eq(sampled.sm_clock_mhz, 1200);
  cr_expect_float_eq(sampled.energy_j, 9, 0.5);
  cr_expect_float_eq(sampled.seconds, 1, 0.05);
}
