/* Decode iterations as an arithmetic series: the i-th of them lasts first + step·i ticks
 * (sim/DESIGN.md, Iterations and runs).
 *
 * Both have a fraction, so that the times of a performance model are not rounded one by one: each
 * iteration ends at the nearest tick of the exact sum since the run began. What that leaves over
 * is carried from part to part of a run, in `carry`, so that it does not matter where a run is cut
 * into parts. An iteration thus lasts whole ticks: those of first + step·i without their fraction,
 * or one more. */
#ifndef SIM_CORE_SERIES_H
#define SIM_CORE_SERIES_H
#include "base/units.h"
#include <assert.h>
#include <math.h>

typedef struct Series {
  Tick first, step;                       // step >= 0
  uint32_t first_fraction, step_fraction; // in FineTicks
  uint32_t carry; // FineTicks of the iterations before that are in no tick yet
} Series;

/* The carry of a run that begins: half a tick, so that sums are rounded to the nearest. */
#define SERIES_CARRY (UINT32_C(1) << (FINE_BITS - 1))

static inline Series series_of(FineTick first, FineTick step, uint32_t carry) {
  return (Series){(Tick)(first >> FINE_BITS), (Tick)(step >> FINE_BITS), (uint32_t)first,
                  (uint32_t)step, carry};
}

/* Fractions that the first `n` iterations add up to, the carry with them. */
static inline FineTick series_fractions(const Series *self, int64_t n) {
  return self->carry + (FineTick)self->first_fraction * n +
         (FineTick)self->step_fraction * (n * (n - 1) / 2);
}

/* Ticks that the first `n` iterations take together. */
static inline Tick series_sum(Series self, int64_t n) {
  return self.first * n + self.step * (n * (n - 1) / 2) +
         (Tick)(series_fractions(&self, n) >> FINE_BITS);
}

/* Ticks of iteration `i`. */
static inline Tick series_at(Series self, int64_t i) {
  return series_sum(self, i + 1) - series_sum(self, i);
}

/* Iteration `i` before it is rounded. */
static inline FineTick series_fine(Series self, int64_t i) {
  return fine_from_ticks(self.first + self.step * i) + self.first_fraction +
         (FineTick)self.step_fraction * i;
}

/* No iteration of the first `n` >= 1 takes more, none fewer than `first`. */
static inline Tick series_longest(Series self, int64_t n) {
  const FineTick last = series_fine(self, n - 1);
  return (Tick)(last >> FINE_BITS) + ((uint32_t)last > 0);
}

/* What each takes more than the one before, before it is rounded. */
static inline FineTick series_step(Series self) {
  return fine_from_ticks(self.step) + self.step_fraction;
}

/* The iterations after the first `n`. */
static inline Series series_after(Series self, int64_t n) {
  return series_of(series_fine(self, n), series_step(self), (uint32_t)series_fractions(&self, n));
}

/* Whether all iterations are alike, to the tick. */
static inline bool series_is_even(Series self) {
  return self.step == 0 && self.first_fraction == 0 && self.step_fraction == 0;
}

static inline bool series_equal(Series a, Series b) {
  return a.first == b.first && a.step == b.step && a.first_fraction == b.first_fraction &&
         a.step_fraction == b.step_fraction && a.carry == b.carry;
}

/* About how many iterations `elapsed` ticks are: Σ first + step·i, solved for their number. */
static inline double series_estimate(Series self, Tick elapsed) {
  const double first = fine_ticks(series_fine(self, 0)), step = fine_ticks(series_step(self));
  const double linear = first - step / 2;
  const double root = sqrt(linear * linear + 2 * step * (double)elapsed);
  return 2 * (double)elapsed / (linear + root);
}

/* How many iterations have ended `elapsed` >= 0 ticks after the series began: the largest n with
 * series_sum(n) <= elapsed. The estimate is right or one off; what it says is not relied on. */
static inline int64_t series_ended(Series self, Tick elapsed) {
  assert(self.first > 0 && elapsed >= 0);
  int64_t low = 0, high = elapsed / self.first; // durations never shrink below `first`
  if (series_is_even(self)) return high;
  const double estimate = series_estimate(self, elapsed);
  int64_t n = estimate < (double)high ? (int64_t)estimate : high;
  for (int tries = 0; low < high; tries++) {
    if (n <= low) n = low + 1;
    if (series_sum(self, n) <= elapsed)
      low = n;
    else
      high = n - 1;
    n = tries == 0 ? n + (low == n ? 1 : -1) : low + (high - low + 1) / 2;
  }
  return low;
}
#endif
