/* Integer lines: evaluation by whole runs and remainders, and construction from knots. */
#include "perfmodel/pwl.h"
#include <assert.h>
#include <math.h>

__extension__ typedef __int128 Wide; // the last line goes on to any x

static PwlSegment segment_between(int64_t start, Tick base, int64_t end, Tick end_base) {
  int64_t run = end - start;
  assert(run > 0 && run <= PWL_RUN_MAX);
  Tick rise = end_base - base;
  Tick slope = rise / run;
  if (slope * run > rise) slope--; // towards minus infinity, so that the remainder is not negative
  return (PwlSegment){start, run, base, slope, rise - slope * run};
}

/* remainder·d / run is split into whole runs and the rest, so that no wide division is needed. */
static Wide segment_eval(const PwlSegment *segment, int64_t x) {
  int64_t d = x - segment->start;
  return segment->base + (Wide)segment->slope * d + (Wide)segment->remainder * (d / segment->run) +
         segment->remainder * (d % segment->run) / segment->run;
}

Tick pwl_eval(const Pwl *self, int64_t x) {
  assert(x >= 0);
  if (self->n_segments == 0) return 0;
  const PwlSegment *segment = self->segments;
  const PwlSegment *last = segment + self->n_segments - 1;
  while (segment < last && x >= segment[1].start)
    segment++;
  Wide ticks = segment_eval(segment, x);
  return ticks < 0 ? 0 : ticks > PWL_TICKS_MAX ? PWL_TICKS_MAX : (Tick)ticks;
}

/* The segment from 0 to the first knot. What lies beyond a Tick at 0 is as good as its limit. */
static PwlSegment segment_left(const PwlKnot *knots, int n, bool extend_left) {
  double at_zero = knots[0].seconds;
  if (extend_left && n > 1) {
    double slope = (knots[1].seconds - knots[0].seconds) / (double)(knots[1].x - knots[0].x);
    at_zero -= slope * (double)knots[0].x;
  }
  at_zero = fmax(-9e6, fmin(9e6, at_zero));
  return segment_between(0, tick_from_seconds(at_zero), knots[0].x,
                         tick_from_seconds(knots[0].seconds));
}

void pwl_init(Pwl *self, const PwlKnot *knots, int n, bool extend_left, Arena *arena) {
  assert(n >= 1 && knots[0].x >= 0);
  PwlSegment *segments = ARENA_ARRAY(arena, PwlSegment, n + 1);
  int32_t count = 0;
  if (knots[0].x > 0) segments[count++] = segment_left(knots, n, extend_left);
  for (int i = 0; i + 1 < n; i++)
    segments[count++] = segment_between(knots[i].x, tick_from_seconds(knots[i].seconds),
                                        knots[i + 1].x, tick_from_seconds(knots[i + 1].seconds));
  if (n == 1)
    segments[count++] = (PwlSegment){knots[0].x, 1, tick_from_seconds(knots[0].seconds), 0, 0};
  *self = (Pwl){segments, count, knots[0].x, knots[n - 1].x};
}
