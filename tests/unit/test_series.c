/* Runs of decode iterations in closed form. Pinned: both functions against adding the iterations up
 * one by one, and the ticks just before, at and after each boundary. Not pinned: overflow, which
 * the length of a run keeps away. */
#include "sim/base/rng.h"
#include "sim/series.h"
#include <criterion/criterion.h>

TestSuite(series);

enum { LONGEST = 60 };

Test(series, the_sum_is_that_of_the_iterations_one_by_one) {
  for (Tick first = 1; first <= 5; first++)
    for (Tick step = 0; step <= 5; step++) {
      Tick sum = 0;
      for (int64_t n = 0; n <= LONGEST; n++) {
        cr_assert_eq(series_sum((Series){first, step}, n), sum);
        sum += first + step * n;
      }
    }
}

Test(series, an_iteration_has_ended_from_its_last_tick_on) {
  for (Tick first = 1; first <= 4; first++)
    for (Tick step = 0; step <= 4; step++) {
      const Series series = {first, step};
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

Test(series, nothing_has_ended_at_the_start) {
  cr_expect_eq(series_ended((Series){.first = 7, .step = 3}, 0), 0);
  cr_expect_eq(series_ended((Series){.first = 7, .step = 3}, 6), 0);
  cr_expect_eq(series_sum((Series){.first = 7, .step = 3}, 0), 0);
}
