/* Runs of decode iterations in closed form. Pinned: both functions against adding the iterations up
 * one by one, with fractions too, wherever the series is cut, and the ticks just before, at and
 * after each boundary. Not pinned: overflow, which the length of a run keeps away. */
#include "base/rng.h"
#include "sim/core/series.h"
#include <criterion/criterion.h>

TestSuite(series);

enum { LONGEST = 60 };

Test(series, the_sum_is_that_of_the_iterations_one_by_one) {
  for (Tick first = 1; first <= 5; first++)
    for (Tick step = 0; step <= 5; step++) {
      Tick sum = 0;
      for (int64_t n = 0; n <= LONGEST; n++) {
        cr_assert_eq(series_sum((Series){.first = first, .step = step}, n), sum);
        sum += first + step * n;
      }
    }
}

Test(series, an_iteration_has_ended_from_its_last_tick_on) {
  for (Tick first = 1; first <= 4; first++)
    for (Tick step = 0; step <= 4; step++) {
      const Series series = {.first = first, .step = step};
      int64_t ended = 0;
      for (Tick elapsed = 0; elapsed < 400; elapsed++) {
        while (series_sum(series, ended + 1) <= elapsed)
          ended++;
        cr_assert_eq(series_ended(series, elapsed), ended, "%lld + %lld i at %lld",
                     (long long)first, (long long)step, (long long)elapsed);
      }
    }
}

Test(series, boundaries_are_exact_at_the_size_of_real_iterations) {
  Rng rng;
  rng_init(&rng, 1, "series");
  for (int i = 0; i < 2000; i++) {
    const Series series = {.first = 1 + (Tick)rng_below(&rng, TICKS_PER_SECOND),
                           .step = (Tick)rng_below(&rng, TICKS_PER_SECOND / 100000)};
    const int64_t n = 1 + (int64_t)rng_below(&rng, 5000);
    const Tick boundary = series_sum(series, n);
    cr_assert_eq(series_ended(series, boundary - 1), n - 1);
    cr_assert_eq(series_ended(series, boundary), n);
    cr_assert_eq(series_ended(series, boundary + 1), series.first == 1 ? n + 1 : n);
  }
}

static Series draw(Rng *rng) {
  const int shift = (int)rng_below(rng, 40);
  return (Series){.first = 1 + (Tick)(rng_u64(rng) >> 24 >> shift),
                  .step = rng_below(rng, 2) ? (Tick)(rng_u64(rng) >> 40 >> shift) : 0,
                  .first_fraction = rng_below(rng, 4) ? (uint32_t)rng_u64(rng) : 0,
                  .step_fraction = rng_below(rng, 4) ? (uint32_t)rng_u64(rng) : 0,
                  .carry = SERIES_CARRY};
}

/* Each iteration ends at the nearest tick of the exact sum, and lasts its ticks without a fraction
 * or one more. */
Test(series, iterations_end_at_the_nearest_tick_wherever_the_series_is_cut) {
  Rng rng;
  rng_init(&rng, 1, "fractions");
  for (int i = 0; i < 2000; i++) {
    const Series whole = draw(&rng);
    Series part = whole;
    FineTick exact = 0;
    Tick sum = 0;
    for (int64_t n = 0; n < LONGEST; n++) {
      const Tick ticks = series_at(whole, n);
      exact += series_fine(whole, n);
      sum += ticks;
      cr_assert_eq(sum, tick_nearest(exact));
      cr_assert_eq(series_sum(whole, n + 1), sum);
      cr_assert_eq(series_sum(part, 1), ticks);
      cr_assert(ticks >= (Tick)(series_fine(whole, n) >> FINE_BITS) &&
                ticks <= series_longest(whole, n + 1));
      cr_assert_eq(series_ended(whole, sum - 1), n);
      cr_assert_eq(series_ended(whole, sum), n + 1);
      part = series_after(part, 1);
    }
    const Series after = series_after(whole, LONGEST);
    cr_assert_eq(series_fine(part, 1), series_fine(after, 1));
    cr_assert_eq(part.carry, after.carry);
  }
}

Test(series, nothing_has_ended_at_the_start) {
  cr_expect_eq(series_ended((Series){.first = 7, .step = 3}, 0), 0);
  cr_expect_eq(series_ended((Series){.first = 7, .step = 3}, 6), 0);
  cr_expect_eq(series_sum((Series){.first = 7, .step = 3}, 0), 0);
}
