/* Piecewise-linear curves in integers: ticks over a count (tokens, sequences, token pairs).
 *
 * A curve is a list of segments in ascending order; segment i covers x from start to the next one's
 * start and is base + slope·(x − start). Left of the first knot the model holds its value (a floor
 * on time) or extends the first line; right of the last the last slope goes on. */
#ifndef PERFMODEL_PWL_H
#define PERFMODEL_PWL_H
#include "sim/base/arena.h"
#include "sim/base/units.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct PwlSegment {
  int64_t start;
  Tick base, slope; // at `start`; per unit of x
} PwlSegment;

typedef struct Pwl {
  const PwlSegment *segments;
  int32_t n_segments; // 0: the curve is zero everywhere
  int64_t low, high;  // the measured range of x
} Pwl;

/* Ticks at x; never negative (clamped at 0). */
Tick pwl_eval(const Pwl *self, int64_t x);
/* From `n` knots (x ascending, y in seconds). Knot values are rounded to ticks, slopes to ticks per
 * unit, so that each knot is met exactly and between knots the error is below half a tick per unit
 * of x. `extend_left` goes on with the first line below x[0]; otherwise the value of x[0] holds
 * there. */
void pwl_init(Pwl *self, const double *x, const double *seconds, int n, bool extend_left,
              Arena *arena);
#endif
