/* Errors of a validation. Pinned: every figure of a few iterations worked out by hand, parts,
 * percentiles, and that repeats are compared batch by batch whatever their order. Whole validations
 * are tests/cli/validate.sh's. */
#include "experiments/validate/errors.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(validate, .init = setup, .fini = teardown);

#define PREFILL                                                                                    \
  { 100, 10000, 0, 0, 1 }
#define DECODE                                                                                     \
  { 0, 0, 2, 200, 2 }
#define LONGER                                                                                     \
  { 0, 0, 2, 202, 2 }
#define MIXED                                                                                      \
  { 50, 2500, 2, 200, 3 }

/* A report in which every statistic of a latency is `seconds`. */
static void set_latencies(ValidateRun *run, double ttft, double tbt, double e2e) {
  static const char *const names[] = {"ttft_s", "tbt_s", "tpot_s", "e2e_s"};
  const double seconds[] = {ttft, tbt, NAN, e2e};
  run->report.n_latencies = COUNT(names);
  for (int i = 0; i < run->report.n_latencies; i++) {
    run->report.latencies[i].name = names[i];
    for (int k = 0; k < REPORT_STATISTICS; k++)
      run->report.latencies[i].values[k] = seconds[i];
  }
}

static void set_iterations(ValidateRun *run, const ValidateIteration *iterations, size_t n) {
  run->iterations = ARENA_ARRAY(&arena, ValidateIteration, n);
  memcpy(run->iterations, iterations, n * sizeof *iterations);
  run->n_iterations = n;
}

static Validation make_validation(int64_t n_measured) {
  Validation validation = {.measured = ARENA_ARRAY(&arena, ValidateRun, n_measured),
                           .n_measured = n_measured};
  set_latencies(&validation.predicted, 1.1, 0.02, 3);
  for (int64_t r = 0; r < n_measured; r++)
    set_latencies(&validation.measured[r], 1, 0.025, 3);
  return validation;
}

/* Errors of +10%, −20%, +50% and 0. */
static const ValidateIteration four[] = {{PREFILL, 0.010, 0.011, false, 0.01},
                                         {DECODE, 0.005, 0.004, true, 0.02},
                                         {LONGER, 0.002, 0.003, false, 0.03},
                                         {MIXED, 0.020, 0.020, false, 0.04}};

Test(validate, errors_are_of_the_prediction_relative_to_what_was_measured) {
  Validation validation = make_validation(1);
  set_iterations(&validation.measured[0], four, COUNT(four));
  validate_errors(&validation, &arena);
  const ValidateErrors *all = &validation.errors[VALIDATE_ALL];
  cr_assert_eq(all->n, 4);
  cr_expect_float_eq(all->seconds, 0.037, 1e-12);
  cr_expect_float_eq(all->mape, 0.2, 1e-12);
  cr_expect_float_eq(all->median, 0.15, 1e-12);
  cr_expect_float_eq(validation.replay, 0.025, 1e-12);
  cr_expect_float_eq(all->p95, 0.2 + 0.85 * 0.3, 1e-12); // 0, 0.1, 0.2, 0.5: at 2.85
  cr_expect_float_eq(all->bias, 0.1, 1e-12);
  cr_expect_float_eq(all->total, 0.001 / 0.037, 1e-12);
  cr_expect_float_eq(all->worst, 0.5, 1e-12);
  cr_expect_eq(all->worst_batch.context_tokens, 202);
  cr_expect_float_eq(all->extrapolated, 0.25, 1e-12);
  cr_expect(isnan(validation.repeat));
}

Test(validate, parts_are_by_what_is_in_an_iteration) {
  Validation validation = make_validation(1);
  set_iterations(&validation.measured[0], four, COUNT(four) - 1);
  validate_errors(&validation, &arena);
  cr_expect_eq(validation.errors[VALIDATE_PREFILL].n, 1);
  cr_expect_float_eq(validation.errors[VALIDATE_PREFILL].bias, 0.1, 1e-12);
  cr_expect_eq(validation.errors[VALIDATE_DECODE].n, 2);
  cr_expect_float_eq(validation.errors[VALIDATE_DECODE].mape, 0.35, 1e-12);
  cr_expect_eq(validation.errors[VALIDATE_MIXED].n, 0);
  cr_expect(isnan(validation.errors[VALIDATE_MIXED].mape) &&
            isnan(validation.errors[VALIDATE_MIXED].worst));
}

Test(validate, percentiles_compare_whole_runs) {
  Validation validation = make_validation(3);
  for (int64_t r = 0; r < 3; r++)
    set_iterations(&validation.measured[r], four, COUNT(four));
  set_latencies(&validation.measured[1], 1.02, 0.025, 3.3);
  set_latencies(&validation.measured[2], 0.96, 0.025, 3.3);
  validate_errors(&validation, &arena);
  static const struct {
    const char *name;
    double error, repeat;
  } want[] = {{"ttft_s", 0.1, 0.03}, {"tbt_s", -0.2, 0}, {"e2e_s", 0, 0.1}};
  for (int i = 0; i < VALIDATE_LATENCIES * VALIDATE_STATISTICS; i++) {
    const ValidateLatency *latency = &validation.latencies[i];
    cr_expect_str_eq(latency->name, want[i / VALIDATE_STATISTICS].name);
    cr_expect_float_eq(latency->error, want[i / VALIDATE_STATISTICS].error, 1e-12);
    cr_expect_float_eq(latency->repeat, want[i / VALIDATE_STATISTICS].repeat, 1e-12);
  }
  cr_expect_str_eq(validation.latencies[0].statistic, "p50");
  cr_expect_str_eq(validation.latencies[2].statistic, "p99");
}

Test(validate, repeats_are_compared_batch_by_batch) {
  Validation validation = make_validation(2);
  const ValidateIteration again[] = {{MIXED, 0.022, 0, false, 0},   // +10%
                                     {LONGER, 0.002, 0, false, 0},  // 0
                                     {PREFILL, 0.008, 0, false, 0}, // −20%
                                     {{0, 0, 9, 900, 9}, 1, 0, false, 0}};
  set_iterations(&validation.measured[0], four, COUNT(four));
  set_iterations(&validation.measured[1], again, COUNT(again));
  validate_errors(&validation, &arena);
  cr_expect_float_eq(validation.repeat, 0.1, 1e-12);
}
