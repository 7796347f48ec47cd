/* Pinned: the bucket layout, the stated error of quantiles against sorted values, that a series
 * gives the counters of its terms added one by one. Not pinned: the last bits of sums,
 * which depend on the order of addition. */
#include "base/histogram.h"
#include "base/rng.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(histogram, buckets_cover_all_values_without_gaps) {
  int64_t next = 0;
  for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
    int64_t start = histogram_bucket_start(i), width = histogram_bucket_width(i);
    cr_assert_eq(start, next, "bucket %d", i);
    cr_assert_eq(histogram_bucket(start), i);
    cr_assert_eq(histogram_bucket(start + (width - 1)), i);
    cr_assert(start < 256 ? width == 1 : width <= start / 256);
    if (i + 1 < HISTOGRAM_BUCKETS)
      next = start + width;
    else
      cr_assert_eq(start + (width - 1), INT64_MAX);
  }
}

Test(histogram, an_empty_one_answers_zero) {
  Arena arena;
  arena_init(&arena);
  Histogram empty;
  histogram_init(&empty, &arena);
  histogram_add(&empty, 5, 0);
  histogram_add_series(&empty, 5, 3, 0, 2);
  histogram_add_series(&empty, 5, 3, 4, 0);
  cr_assert_eq(empty.total, 0);
  cr_assert_eq(histogram_quantile(&empty, 0.5), 0);
  cr_assert_eq(histogram_mean(&empty), 0);
  cr_assert_eq(histogram_stddev(&empty), 0);
  arena_done(&arena);
}

Test(histogram, the_first_and_the_last_are_exact_however_wide_their_buckets) {
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  const int64_t start = (int64_t)1 << 40, width = histogram_bucket_width(histogram_bucket(start));
  histogram_add(&histogram, start + width - 1, 1);
  histogram_add(&histogram, start, 1);
  histogram_add(&histogram, 4 * start - 1, 1);
  cr_expect_eq(histogram_quantile(&histogram, 0), (double)start);
  cr_expect_eq(histogram_quantile(&histogram, 1), (double)(4 * start - 1));
  arena_done(&arena);
}

Test(histogram, small_values_have_exact_quantiles_by_the_linear_rule) {
  static const struct {
    double q, value;
  } CASES[] = {{0, 1}, {0.25, 1.75}, {0.5, 2.5}, {0.75, 4.75}, {0.9, 7.9}, {1, 10}};
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  histogram_add(&histogram, 10, 1);
  for (int64_t v = 1; v <= 3; v++)
    histogram_add(&histogram, v, 1);
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
    cr_assert(fabs(histogram_quantile(&histogram, CASES[i].q) - CASES[i].value) < 1e-12, "q = %g",
              CASES[i].q);
  cr_assert_eq(histogram_mean(&histogram), 4);
  cr_assert(fabs(histogram_stddev(&histogram) - sqrt(12.5)) < 1e-12);
  arena_done(&arena);
}

static int compare_values(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

Test(histogram, quantiles_are_within_the_stated_error) {
  enum { COUNT = 5000 };
  static int64_t values[COUNT];
  Arena arena;
  arena_init(&arena);
  Rng rng;
  rng_init(&rng, 1, "quantiles");
  for (int scale = 2; scale < 60; scale += 3) {
    Histogram histogram;
    histogram_init(&histogram, &arena);
    double sum = 0;
    for (int i = 0; i < COUNT; i++) {
      values[i] = (int64_t)(rng_exponential(&rng) * (double)(INT64_C(1) << scale) / 16);
      sum += (double)values[i];
      histogram_add(&histogram, values[i], 1);
    }
    qsort(values, COUNT, sizeof *values, compare_values);
    cr_assert_eq(histogram.min, values[0]);
    cr_assert_eq(histogram.max, values[COUNT - 1]);
    cr_assert(fabs(histogram_mean(&histogram) - sum / COUNT) <= 1e-12 * sum);
    for (double q = 0; q <= 1; q += 0.001) {
      double position = q * (COUNT - 1);
      int rank = (int)position;
      double lower = (double)values[rank];
      double upper = (double)values[rank + 1 < COUNT ? rank + 1 : rank];
      double exact = lower + (position - rank) * (upper - lower);
      cr_assert(fabs(histogram_quantile(&histogram, q) - exact) <= exact / 256 + 1e-9,
                "q = %g of scale %d", q, scale);
    }
  }
  arena_done(&arena);
}

static void check_same(const Histogram *one, const Histogram *other, const char *what) {
  cr_assert(histogram_same_counts(one, other), "%s", what);
  cr_assert(fabs(one->sum - other->sum) <= 1e-10 * other->sum, "%s", what);
  cr_assert(fabs(one->sum_squares - other->sum_squares) <= 1e-10 * other->sum_squares, "%s", what);
}

/* Adds the series both ways to emptied histograms. */
static void try_series(Histogram *series, Histogram *single, FineTick first, FineTick step,
                       uint64_t count, uint64_t weight) {
  Histogram *both[] = {series, single};
  for (int i = 0; i < 2; i++) {
    const Histogram used = *both[i];
    histogram_init(both[i], used.arena);
    both[i]->counts = used.counts;
    both[i]->n_counts = used.n_counts;
    if (used.counts) memset(used.counts, 0, used.n_counts * sizeof *used.counts);
  }
  histogram_add_series(series, first, step, count, weight);
  for (uint64_t i = 0; i < count; i++)
    histogram_add(single, tick_nearest(first + (FineTick)i * step), weight);
  char what[128];
  snprintf(what, sizeof what, "%lld + i * %lld, %llu terms, weight %llu",
           (long long)(first >> FINE_BITS), (long long)(step >> FINE_BITS),
           (unsigned long long)count, (unsigned long long)weight);
  check_same(series, single, what);
}

Test(histogram, a_series_counts_as_its_terms_one_by_one) {
  Arena arena;
  arena_init(&arena);
  Histogram series, single;
  histogram_init(&series, &arena);
  histogram_init(&single, &arena);
  Rng rng;
  rng_init(&rng, 1, "series");
  for (int i = 0; i < 6000; i++) {
    int64_t low = (int64_t)rng_below(&rng, UINT64_C(1) << rng_below(&rng, 60));
    int64_t step = (int64_t)rng_below(&rng, UINT64_C(1) << rng_below(&rng, 45));
    uint64_t count = rng_below(&rng, 600), weight = rng_below(&rng, 4);
    const uint32_t more = i % 2 ? (uint32_t)rng_u64(&rng) : 0;
    if (more) low += INT64_C(1) << 40; // so that sums of what is rounded differ by little
    try_series(&series, &single, fine_from_ticks(low) + more, fine_from_ticks(step) + more, count,
               weight);
  }
  static const struct {
    int64_t first, step;
    uint64_t count;
  } EDGES[] = {
      {0, 0, 9},         {0, 1, 70000},          {255, 1, 2},       {511, 1, 3},
      {INT64_MAX, 0, 3}, {INT64_MAX - 10, 5, 3}, {0, INT64_MAX, 2}, {1, INT64_MAX - 1, 2},
  };
  for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++)
    try_series(&series, &single, fine_from_ticks(EDGES[i].first), fine_from_ticks(EDGES[i].step),
               EDGES[i].count, 3);
  arena_done(&arena);
}

Test(histogram, a_series_of_billions_takes_no_longer_than_its_buckets) {
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  uint64_t count = UINT64_C(1) << 60;
  histogram_add_series(&histogram, 0, fine_from_ticks(2), count, 1);
  cr_assert_eq(histogram.total, count);
  cr_assert_eq(histogram_count(&histogram, histogram_bucket(INT64_C(1) << 60)), count >> 9);
  cr_assert_eq(histogram_count(&histogram, 3), 0);
  cr_assert(fabs(histogram_mean(&histogram) / (double)(count - 1) - 1) < 1e-12);
  cr_assert(fabs(histogram_stddev(&histogram) / ((double)count / sqrt(3)) - 1) < 1e-9);
  arena_done(&arena);
}

/* Counts of values at or above one, from below: what shares a bucket with smaller ones is left out.
 */
Test(histogram, counts_from_a_value_are_never_too_many) {
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  cr_assert_eq(histogram_count_from(&histogram, 0), 0);
  Rng rng;
  rng_init(&rng, 3, "count_from");
  enum { N = 500 };
  int64_t values[N];
  for (int i = 0; i < N; i++) {
    values[i] = (int64_t)rng_below(&rng, 100000);
    histogram_add(&histogram, values[i], 1);
  }
  for (int round = 0; round < 500; round++) {
    const double from = 110000 * rng_uniform(&rng) - 1000;
    uint64_t exact = 0, surely = 0;
    for (int i = 0; i < N; i++) {
      exact += (double)values[i] >= from;
      surely += (double)values[i] >= from * (1 + 1.0 / 128) + 1;
    }
    const uint64_t count = histogram_count_from(&histogram, from);
    cr_assert(surely <= count && count <= exact, "from %g: %d of %d", from, (int)count, (int)exact);
  }
  cr_assert_eq(histogram_count_from(&histogram, 0), N);
  arena_done(&arena);
}

Test(histogram, a_quantile_is_the_value_at_its_rank) {
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  for (int64_t value = 10; value < 15; value++)
    histogram_add(&histogram, value, 1);
  cr_assert_eq(histogram_at_rank(&histogram, 0), 10);
  cr_assert_eq(histogram_at_rank(&histogram, 2.5), 12.5);
  cr_assert_eq(histogram_at_rank(&histogram, 4), 14);
  cr_assert_eq(histogram_quantile(&histogram, 0.625), 12.5);
  arena_done(&arena);
}

/* Pools by the ten thousand have one each, of iterations of a few thousand tokens. */
Test(histogram, takes_memory_up_to_the_octave_of_its_largest_value) {
  Arena arena;
  arena_init(&arena);
  Histogram histogram;
  histogram_init(&histogram, &arena);
  cr_expect_eq(arena.bytes, 0u);
  cr_expect_eq(histogram_count(&histogram, HISTOGRAM_BUCKETS - 1), 0u);
  histogram_add(&histogram, 8191, 1);
  histogram_add(&histogram, 7, 1);
  cr_expect_leq(arena.bytes, 6u * 2048 + 64);
  cr_expect_eq(histogram_count(&histogram, histogram_bucket(8191)), 1u);
  cr_expect_eq(histogram_count(&histogram, histogram_bucket(INT64_MAX)), 0u);
  histogram_add(&histogram, INT64_MAX, 1);
  cr_expect_eq(histogram_count(&histogram, histogram_bucket(8191)), 1u);
  cr_expect_eq(histogram_count(&histogram, HISTOGRAM_BUCKETS - 1), 1u);
  arena_done(&arena);
}
