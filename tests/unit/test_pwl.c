/* Curves: pinned are the values at knots (exact), between them (the nearest tick of the line
 * between knots that are not rounded, and scipy's of released tables, to the last bit), both ends,
 * the clamp at zero and large arguments. Not pinned: how segments are stored. */
#include "perfmodel/pwl.h"
#include <criterion/criterion.h>
#include <math.h>

static const PwlKnot KNOTS[] = {{128, 0.05818}, {256, 0.05165}, {512, 0.05386}, {32768, 2.93633}};
enum { N_KNOTS = sizeof KNOTS / sizeof *KNOTS };

static double line(const PwlKnot *a, const PwlKnot *b, int64_t x) {
  return a->seconds + (b->seconds - a->seconds) / (double)(b->x - a->x) * (double)(x - a->x);
}

Test(pwl, knots_are_met_exactly) {
  Arena arena;
  arena_init(&arena);
  for (int extend = 0; extend < 2; extend++) {
    Pwl curve;
    pwl_init(&curve, KNOTS, N_KNOTS, extend, &arena);
    for (int i = 0; i < N_KNOTS; i++)
      cr_assert_eq(pwl_eval(&curve, KNOTS[i].x), tick_from_seconds(KNOTS[i].seconds));
    cr_assert_eq(curve.low, 128);
    cr_assert_eq(curve.high, 32768);
  }
  arena_done(&arena);
}

Test(pwl, every_value_is_the_nearest_tick_of_the_line) {
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, KNOTS, N_KNOTS, false, &arena);
  double bias = 0;
  for (int64_t x = KNOTS[0].x; x <= 100000; x++) {
    int i = 0;
    while (i + 2 < N_KNOTS && x >= KNOTS[i + 1].x)
      i++;
    const double ticks = line(&KNOTS[i], &KNOTS[i + 1], x) * (double)TICKS_PER_SECOND;
    const double error = (double)pwl_eval(&curve, x) - ticks;
    cr_assert(fabs(error) < 0.51, "%g at %lld", error, (long long)x);
    bias += error / 100000;
  }
  cr_assert(fabs(bias) < 0.01, "%g ticks on average", bias);
  arena_done(&arena);
}

Test(pwl, released_tables_are_evaluated_as_scipy_does) {
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, KNOTS, N_KNOTS, true, &arena);
  for (int64_t x = 0; x <= 100000; x++) {
    int i = 0;
    while (i + 2 < N_KNOTS && x > KNOTS[i + 1].x)
      i++;
    const double seconds = line(&KNOTS[i], &KNOTS[i + 1], x);
    cr_assert_eq(pwl_seconds(&curve, x), seconds, "at %lld", (long long)x);
    cr_assert_eq(pwl_eval(&curve, x), tick_from_seconds(seconds));
  }
  arena_done(&arena);
}

/* Two thirds of the way from 10.4 to 12.2 ticks are 11.6; from 10 to 12 they would be 11.3. */
Test(pwl, knots_are_not_rounded_to_ticks_first) {
  const PwlKnot knots[] = {{0, 10.4e-12}, {3, 12.2e-12}, {6, 15.2e-12}};
  const Tick ticks[] = {10, 11, 12, 12, 13, 14, 15};
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, knots, 3, false, &arena);
  for (int64_t x = 0; x < 7; x++)
    cr_assert_eq(pwl_eval(&curve, x), ticks[x], "at %lld", (long long)x);
  arena_done(&arena);
}

Test(pwl, left_of_the_first_knot_the_value_holds_or_the_line_goes_on) {
  const PwlKnot knots[] = {{100, 0.001}, {200, 0.003}};
  const struct {
    bool extend;
    int64_t x;
    Tick ticks;
  } cases[] = {{false, 0, 1000000000},
               {false, 99, 1000000000},
               {true, 99, 980000000},
               {true, 50, 0},
               {true, 0, 0} /* −1 ms, clamped */};
  Arena arena;
  arena_init(&arena);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Pwl curve;
    pwl_init(&curve, knots, 2, cases[i].extend, &arena);
    cr_assert_eq(pwl_eval(&curve, cases[i].x), cases[i].ticks, "case %zu", i);
  }
  arena_done(&arena);
}

Test(pwl, a_rising_curve_never_falls) {
  const PwlKnot knots[] = {{1, 0.010000000001}, {3, 0.010000000002}, {10, 0.010000000003}};
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, knots, 3, false, &arena);
  for (int64_t x = 0; x < 1000; x++)
    cr_assert_leq(pwl_eval(&curve, x), pwl_eval(&curve, x + 1));
  arena_done(&arena);
}

Test(pwl, between_knots_the_line_is_rounded_to_the_nearest) {
  const PwlKnot rising[] = {{0, 2e-12}, {3, 3e-12}}, falling[] = {{0, 3e-12}, {3, 2e-12}};
  const Tick up[] = {2, 2, 3, 3, 3, 4, 4}, down[] = {3, 3, 2, 2, 2, 1, 1};
  Arena arena;
  arena_init(&arena);
  Pwl rise, fall;
  pwl_init(&rise, rising, 2, false, &arena);
  pwl_init(&fall, falling, 2, false, &arena);
  for (int64_t x = 0; x < 7; x++) {
    cr_assert_eq(pwl_eval(&rise, x), up[x]);
    cr_assert_eq(pwl_eval(&fall, x), down[x]);
  }
  arena_done(&arena);
}

Test(pwl, a_steep_line_stops_at_the_limit_instead_of_overflowing) {
  const PwlKnot knots[] = {{1, 0}, {2, 1000}};
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, knots, 2, true, &arena);
  cr_assert_eq(pwl_eval(&curve, INT64_MAX), PWL_TICKS_MAX);
  cr_assert_eq(pwl_eval(&curve, 0), 0);
  arena_done(&arena);
}

Test(pwl, slopes_below_a_tick_per_unit_keep_their_value_far_out) {
  // A third of a tick per unit, up to 1500 times the knots' range.
  const PwlKnot knots[] = {{0, 0}, {1999999998, 0.000666666666}};
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, knots, 2, false, &arena);
  const int64_t at[] = {3, 299999, 1999999998, 2999999997000};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    cr_assert_eq(pwl_eval(&curve, at[i]), (at[i] + 1) / 3, "at %lld", (long long)at[i]);
  arena_done(&arena);
}

Test(pwl, one_knot_is_a_constant_and_none_is_zero) {
  const PwlKnot knot = {64, 0.5};
  const Pwl empty = {0};
  Arena arena;
  arena_init(&arena);
  Pwl curve;
  pwl_init(&curve, &knot, 1, true, &arena);
  const int64_t at[] = {0, 63, 64, 65, 1000000};
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    cr_assert_eq(pwl_eval(&curve, at[i]), TICKS_PER_SECOND / 2);
    cr_assert_eq(pwl_eval(&empty, at[i]), 0);
  }
  arena_done(&arena);
}
