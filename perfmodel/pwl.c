/* Lines: evaluation, or as scipy does it, and construction from knots. */
#include "perfmodel/pwl.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define FINE_MAX fine_from_ticks(PWL_TICKS_MAX)

static FineTick clamp(FineTick fine) {
  return fine < 0 ? 0 : fine > FINE_MAX ? FINE_MAX : fine;
}

static PwlSegment segment_between(int64_t start, FineTick base, int64_t end, FineTick end_base) {
  const int64_t run = end - start;
  assert(run > 0 && run <= PWL_RUN_MAX);
  return (PwlSegment){base, fine_ticks(end_base - base) / (double)run, start, run};
}

static FineTick segment_eval(const PwlSegment *segment, int64_t x) {
  const double most = (double)PWL_TICKS_MAX;
  const double rise = segment->slope * (double)(x - segment->start);
  return segment->base + fine_from_real(rise < -most ? -most : rise > most ? most : rise);
}

double pwl_seconds(const Pwl *self, int64_t x) {
  assert(self->knots);
  int32_t i = 1;
  while (i + 1 < self->n_segments && self->knots[i].x < x)
    i++;
  const PwlKnot *low = &self->knots[i - 1], *high = low + 1;
  double seconds = low->seconds;
  if (self->n_segments > 1)
    seconds = (high->seconds - low->seconds) / (double)(high->x - low->x) * (double)(x - low->x) +
              low->seconds;
  return fmax(0, fmin(seconds, 2 * tick_seconds(PWL_TICKS_MAX)));
}

/* The last of the segments that starts at or before x, else the first; halved without a branch. */
static const PwlSegment *segment_at(const Pwl *self, int64_t x) {
  const PwlSegment *first = self->segments;
  for (int32_t n = self->n_segments, half; n > 1; n -= half) {
    half = n / 2;
    first += x >= first[half].start ? half : 0;
  }
  return first;
}

FineTick pwl_fine(const Pwl *self, int64_t x) {
  assert(x >= 0);
  if (self->n_segments == 0) return 0;
  if (self->knots) return clamp(fine_from_seconds(pwl_seconds(self, x)));
  return clamp(segment_eval(segment_at(self, x), x));
}

static void init_interp1d(Pwl *self, const PwlKnot *knots, int n, Arena *arena) {
  PwlKnot *copy = ARENA_ARRAY(arena, PwlKnot, n);
  memcpy(copy, knots, (size_t)n * sizeof *knots);
  *self = (Pwl){.knots = copy, .n_segments = n, .low = knots[0].x, .high = knots[n - 1].x};
}

static PwlSegment segment_flat(int64_t start, const PwlKnot *knot) {
  const FineTick base = fine_from_seconds(knot->seconds);
  return segment_between(start, base, start + 1, base);
}

void pwl_init(Pwl *self, const PwlKnot *knots, int n, bool interp1d, Arena *arena) {
  assert(n >= 1 && knots[0].x >= 0);
  if (interp1d) {
    init_interp1d(self, knots, n, arena);
    return;
  }
  PwlSegment *segments = ARENA_ARRAY(arena, PwlSegment, n + 1);
  int32_t count = 0;
  if (knots[0].x > 0) segments[count++] = segment_flat(0, &knots[0]);
  for (int i = 0; i + 1 < n; i++)
    segments[count++] = segment_between(knots[i].x, fine_from_seconds(knots[i].seconds),
                                        knots[i + 1].x, fine_from_seconds(knots[i + 1].seconds));
  if (n == 1) segments[count++] = segment_flat(knots[0].x, &knots[0]);
  *self = (Pwl){segments, NULL, count, knots[0].x, knots[n - 1].x};
}

void pwl_add_line(Pwl *self, Tick ticks, Arena *arena) {
  assert(!self->knots && ticks >= 0);
  if (ticks == 0) return;
  const int64_t first = self->n_segments > 0 ? self->segments[0].start : 1;
  const int32_t before = first > 0;
  PwlSegment *segments = ARENA_ARRAY(arena, PwlSegment, before + self->n_segments);
  segments[0] = (PwlSegment){pwl_fine(self, 0), (double)ticks, 0, first};
  for (int32_t i = 0; i < self->n_segments; i++) {
    PwlSegment *segment = &segments[before + i];
    *segment = self->segments[i];
    segment->base += fine_from_ticks(ticks) * segment->start;
    segment->slope += (double)ticks;
  }
  if (self->n_segments == 0) self->high = INT64_MAX / 4;
  self->segments = segments;
  self->n_segments += before;
}

void pwl_raise(Pwl *self, Tick ticks, Arena *arena) {
  assert(!self->knots && self->n_segments > 0);
  PwlSegment *segments = ARENA_ARRAY(arena, PwlSegment, self->n_segments);
  for (int32_t i = 0; i < self->n_segments; i++) {
    segments[i] = self->segments[i];
    segments[i].base += fine_from_ticks(ticks);
  }
  self->segments = segments;
}
