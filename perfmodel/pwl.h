/* Piecewise-linear curves in integers: ticks over a count (tokens, sequences, token pairs).
 *
 * A curve is a list of segments in ascending order; segment i covers x from its start to the next
 * one's. It stores its rise over its run rather than a slope, because the slope of attention is a
 * fraction of a tick per token pair: every knot is met exactly, the curve is continuous, and
 * between knots it is the true line rounded down to a tick. Right of the last knot the last line
 * goes on; left of the first knot the value holds (a floor on time) or the first line goes on. */
#ifndef PERFMODEL_PWL_H
#define PERFMODEL_PWL_H
#include "sim/base/arena.h"
#include "sim/base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct PwlKnot {
  int64_t x;
  double seconds;
} PwlKnot;

typedef struct PwlSegment {
  int64_t start, run;    // x at the start; length in x of the line below
  Tick base;             // at `start`
  Tick slope, remainder; // the line rises by slope·run + remainder; 0 <= remainder < run
} PwlSegment;

typedef struct Pwl {
  const PwlSegment *segments;
  int32_t n_segments; // 0: the curve is zero everywhere
  int64_t low, high;  // the measured range of x; what lies outside is an extrapolation
} Pwl;

#define PWL_RUN_MAX   INT64_C(2000000000) // so that remainder·run fits
#define PWL_TICKS_MAX (TICK_MAX / 8)      // 13 days, so that the terms of an iteration can be added

/* Ticks at x >= 0, clamped to 0 … PWL_TICKS_MAX. */
Tick pwl_eval(const Pwl *self, int64_t x);
/* From `n` >= 1 knots, x >= 0 and ascending by at most PWL_RUN_MAX; the measured range becomes
 * that of the knots. With `extend_left` the first line goes on below knots[0]; otherwise the value
 * there holds. */
void pwl_init(Pwl *self, const PwlKnot *knots, int n, bool extend_left, Arena *arena);
#endif
