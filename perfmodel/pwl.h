/* Piecewise-linear curves: time over a count (tokens, sequences, token pairs).
 *
 * A curve is a list of segments in ascending order; segment i covers x from its start to the next
 * one's. Knots are not rounded to ticks, only to 2^-32 of one (FineTick), and slopes are doubles:
 * what is rounded is the true line, to the nearest tick as long as that is no more than a few
 * minutes (2^-12 ticks of error per second). Every knot is met. Right of the last knot the last
 * line goes on; left of the first knot the value holds, a floor on time.
 *
 * The curves of released tables are as scipy's interp1d has them instead: the line through the knot
 * at or above x and the one below, in doubles; the first line goes on to the left. */
#ifndef PERFMODEL_PWL_H
#define PERFMODEL_PWL_H
#include "base/arena.h"
#include "base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct PwlKnot {
  int64_t x;
  double seconds;
} PwlKnot;

typedef struct PwlSegment {
  FineTick base;      // at `start`
  double slope;       // ticks per x
  int64_t start, run; // x at the start; to the knot where it ends
} PwlSegment;

typedef struct Pwl {
  const PwlSegment *segments;
  const PwlKnot *knots; // of interp1d, in place of segments; NULL otherwise
  int32_t n_segments;   // or knots; 0: the curve is zero everywhere
  int64_t low, high;    // the measured range of x; what lies outside is an extrapolation
} Pwl;

#define PWL_RUN_MAX   INT64_C(2000000000)
#define PWL_TICKS_MAX (TICK_MAX / 8) // 13 days, so that the terms of an iteration can be added

/* Time at x >= 0, clamped to 0 … PWL_TICKS_MAX: fine, and its nearest tick. */
FineTick pwl_fine(const Pwl *self, int64_t x);
static inline Tick pwl_eval(const Pwl *self, int64_t x) {
  return tick_nearest(pwl_fine(self, x));
}
/* The same in seconds, of a curve of interp1d; the clamp is at twice as much. */
double pwl_seconds(const Pwl *self, int64_t x);
/* From `n` >= 1 knots, x >= 0 and ascending by at most PWL_RUN_MAX; the measured range becomes
 * that of the knots. With `interp1d` the curve is scipy's. */
void pwl_init(Pwl *self, const PwlKnot *knots, int n, bool interp1d, Arena *arena);
/* Adds `ticks` >= 0 per x to a curve that is not of interp1d, left of its first knot too. The
 * measured range stays; an empty curve, which has none, is then measured everywhere. */
void pwl_add_line(Pwl *self, Tick ticks, Arena *arena);
/* Adds `ticks` to all of a curve with segments that is not of interp1d. */
void pwl_raise(Pwl *self, Tick ticks, Arena *arena);
#endif
