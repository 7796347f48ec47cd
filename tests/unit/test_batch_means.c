/* Where a run's start ends and how sure its mean is: by hand, by the definition, and against a
 * process whose mean has a known error. */
#include "base/batch_means.h"
#include "base/rng.h"
#include "experiments/base/student.h"
#include <criterion/criterion.h>
#include <math.h>

TestSuite(batch_means);

#define NEAR(value, want, most)                                                                    \
  cr_expect(fabs((value) - (want)) <= (most), "%.9g is not %.9g", (double)(value), (double)(want))

Test(batch_means, quantiles_of_t_are_those_of_the_library) {
  for (int degrees = 1; degrees <= 500; degrees++)
    NEAR(student_t95(degrees), student_quantile(degrees), 1e-3);
}

Test(batch_means, of_eight_batches_by_hand) {
  const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
  const double rising[] = {1, 2, 3, 4, 5, 6, 7, 8}, swinging[] = {1, 3, 1, 3, 1, 3, 1, 3};
  /* Distances ±0.5 … ±3.5: squares 42, products of neighbours 26.25, so the correlation is 0.625,
   * more than chance: 42 · 8/7 / 64 · 1.625 / 0.375 = 3.25. */
  NEAR(batch_means_half_width(rising, ones, 8), 2.365 * sqrt(3.25), 1e-12);
  /* Distances ±1, one neighbour's the other way: that narrows nothing. */
  NEAR(batch_means_half_width(swinging, ones, 8), 2.365 * sqrt(1.0 / 7), 1e-12);
  cr_expect(isnan(batch_means_half_width(rising, ones, 7)), "too few batches say nothing");
  const double none[8] = {0};
  cr_expect(isnan(batch_means_half_width(none, none, 8)), "nor do empty ones");
}

Test(batch_means, batches_of_unequal_size_with_one_ratio_are_sure) {
  const double weights[] = {1, 3, 2, 5, 1, 1, 4, 2};
  double sums[8];
  for (int i = 0; i < 8; i++)
    sums[i] = 2 * weights[i];
  cr_expect_eq(batch_means_half_width(sums, weights, 8), 0);
}

/* x' = 0.9 x + normal: the variance of a mean of N is 100 / N for large N (Law, 4.4). Batches of 50
 * still have a correlation, which the range has to make up for. */
Test(batch_means, hold_the_mean_of_an_autoregressive_process) {
  enum { SEEDS = 400, BATCHES = 40, SIZE = 50 };
  const double wanted = 1.96 * sqrt(100.0 / (BATCHES * SIZE));
  int held = 0;
  double widths = 0;
  for (int seed = 0; seed < SEEDS; seed++) {
    Rng rng;
    rng_init(&rng, (uint64_t)seed, "autoregressive");
    double x = rng_normal(&rng) * sqrt(1 / (1 - 0.81)), sums[BATCHES], sizes[BATCHES], sum = 0;
    for (int b = 0; b < BATCHES; b++) {
      sums[b] = 0;
      sizes[b] = SIZE;
      for (int i = 0; i < SIZE; i++, x = 0.9 * x + rng_normal(&rng))
        sums[b] += x;
      sum += sums[b];
    }
    const double half_width = batch_means_half_width(sums, sizes, BATCHES);
    held += fabs(sum / (BATCHES * SIZE)) <= half_width;
    widths += half_width / SEEDS;
  }
  cr_expect(0.90 * SEEDS <= held && held <= 0.98 * SEEDS, "%d of %d", held, SEEDS);
  cr_expect(0.9 <= widths / wanted && widths / wanted <= 1.2, "%g of %g", widths, wanted);
}

/* --- the start */

/* The sum of squares of the rest over its square, anew for each cut. */
static size_t mser_by_definition(const double *means, size_t n) {
  size_t best = n / 2;
  double least = INFINITY;
  for (size_t cut = n / 2 + 1; cut-- > 0;) {
    const double count = (double)(n - cut);
    double mean = 0, squares = 0;
    for (size_t i = cut; i < n; i++)
      mean += means[i] / count;
    for (size_t i = cut; i < n; i++)
      squares += (means[i] - mean) * (means[i] - mean);
    if (squares / (count * count) > least) continue;
    least = squares / (count * count);
    best = cut;
  }
  return best;
}

Test(batch_means, the_start_is_what_differs_from_the_rest) {
  const double starts[20] = {10, 8, 6, 4, 2};
  double line[20];
  for (int i = 0; i < 20; i++)
    line[i] = i;
  const double equal[20] = {0};
  cr_expect_eq(mser(starts, 20), 5);
  cr_expect_eq(mser(equal, 20), 0);
  cr_expect_eq(mser(line, 20), 10, "a start without an end is half of all");
  cr_expect_eq(mser(equal, 0), 0);
  cr_expect_eq(mser(line, 1), 0);
}

Test(batch_means, the_start_is_that_of_the_definition) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Rng rng;
    rng_init(&rng, seed, "start");
    double means[60];
    const size_t n = 2 + rng_below(&rng, 59), start = rng_below(&rng, n);
    for (size_t i = 0; i < n; i++)
      means[i] = 1e6 + rng_normal(&rng) + (i < start ? 5.0 * (double)(start - i) : 0);
    cr_expect_eq(mser(means, n), mser_by_definition(means, n), "seed %d", (int)seed);
  }
}
