/* Order statistics of samples. Pinned: ranks of the interval against published tables, all numbers
 * of a known sample, and each way to stop. */
#include "calib/statistics.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(statistics);

static Samples samples_of(const double *values, int n) {
  Samples samples = {.n = 0};
  for (int i = 0; i < n; i++)
    samples_add(&samples, values[i]);
  return samples;
}

/* n samples around 1, their distance from it at most `spread`. */
static Samples spread_samples(int n, double spread) {
  Samples samples = {.n = 0};
  for (int i = 0; i < n; i++)
    samples_add(&samples, 1 + spread * (2.0 * ((i * 7) % n) / (n - 1) - 1));
  return samples;
}

Test(statistics, the_interval_has_the_ranks_of_tables) {
  /* distribution-free 95% intervals of a median, ranks from 1: n, low, high (Hollander & Wolfe) */
  static const int table[][3] = {{6, 1, 6},    {8, 1, 8},    {9, 2, 8},    {10, 2, 9},
                                 {15, 4, 12},  {20, 6, 15},  {25, 8, 18},  {30, 10, 21},
                                 {50, 18, 33}, {70, 27, 44}, {100, 40, 61}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    int low, high;
    samples_interval(table[i][0], &low, &high);
    cr_expect(low + 1 == table[i][1] && high + 1 == table[i][2], "n = %d: %d, %d", table[i][0],
              low + 1, high + 1);
  }
  for (int n = 1; n <= SAMPLES_MOST; n++) {
    int low, high;
    samples_interval(n, &low, &high);
    cr_expect(low >= 0 && low <= high && high == n - 1 - low, "n = %d", n);
  }
}

Test(statistics, a_known_sample) {
  static const double values[] = {9, 1, 4, 2, 8, 3, 5, 7, 6, 100, 5};
  const Samples samples = samples_of(values, 11);
  const SampleStatistics got = samples_statistics(&samples);
  cr_expect_eq(got.n, 11);
  cr_expect_eq(got.median, 5);
  cr_expect_eq(got.mad, 2); // of 0 0 1 1 2 2 3 3 4 4 95
  cr_expect_eq(got.p10, 2);
  cr_expect_eq(got.p90, 9);
  cr_expect_eq(got.outliers, 1);
  cr_expect(got.low == 2 && got.high == 9, "%g %g", got.low, got.high);
}

Test(statistics, few_samples_and_even_ones) {
  static const double two[] = {4, 1};
  const Samples pair = samples_of(two, 2), one = samples_of(two, 1);
  cr_expect_eq(samples_statistics(&pair).median, 2.5);
  cr_expect_eq(samples_statistics(&pair).mad, 1.5);
  cr_expect(samples_statistics(&one).median == 4 && samples_statistics(&one).mad == 0);
  cr_expect(samples_statistics(&one).low == 4 && samples_statistics(&one).high == 4);
}

Test(statistics, each_way_to_stop) {
  const SampleLimits limits = sample_limits_default;
  static const struct {
    int n;
    double spread, seconds;
    SampleStop stop;
  } cases[] = {
      {6, 0, 99, SAMPLE_MORE},        // seven always
      {7, 0.5, 0.5, SAMPLE_TIME},     //
      {9, 0.001, 0.1, SAMPLE_MORE},   // ten for an interval
      {10, 0.001, 0.04, SAMPLE_MORE}, // and 50 ms
      {10, 0.001, 0.05, SAMPLE_INTERVAL},
      {50, 0.1, 0.2, SAMPLE_MORE},       // a third of 10% is too wide
      {50, 0.1, 0.4, SAMPLE_TIME},       //
      {100, 0.5, 0.2, SAMPLE_COUNT},     //
      {100, 0.02, 0.2, SAMPLE_INTERVAL}, // before the count
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Samples samples = spread_samples(cases[i].n, cases[i].spread);
    cr_expect_eq(samples_stop(&samples, &limits, cases[i].seconds), cases[i].stop, "case %zu", i);
  }
}

Test(statistics, small_budgets_shrink_limits_to_a_quarter) {
  const SampleLimits half = sample_limits_shrink(&sample_limits_default, 0.5);
  const SampleLimits least = sample_limits_shrink(&sample_limits_default, 0.001);
  cr_expect(half.min_samples == SAMPLES_LEAST && half.max_samples == 50 && half.max_seconds == 0.2);
  cr_expect(least.min_samples == SAMPLES_LEAST && least.max_seconds == 0.1);
  cr_expect_eq(sample_limits_shrink(&sample_limits_default, 7).max_seconds, 0.4);
}
