/* Drawing arrivals: the present piece of the rate, and gaps of unit rate that are spent on it. */
#include "traces/arrivals.h"
#include <math.h>

enum { SECONDS_MAX = 9000000, DRIFT_STEPS = 16 };
static const Tick AT_MAX = SECONDS_MAX * TICKS_PER_SECOND;

/* ---- Gaps ---- */

void gap_draw_init(GapDraw *self, ArrivalProcess kind, double mean, double cv, uint64_t seed) {
  *self = (GapDraw){.kind = kind, .scale = mean};
  rng_init(&self->rng, seed, "arrivals");
  if (kind != ARRIVAL_GAMMA) return;
  self->shape = 1 / (cv * cv);
  self->scale *= cv * cv;
}

double gap_draw_next(GapDraw *self) {
  const bool first = !self->begun;
  self->begun = true;
  switch (self->kind) {
  case ARRIVAL_GAMMA:
    return rng_gamma(&self->rng, self->shape) * self->scale;
  case ARRIVAL_FIXED:
    return first ? 0 : self->scale;
  default:
    return rng_exponential(&self->rng) * self->scale;
  }
}

/* ---- The parts of the rate ---- */

static Tick later(Tick at, double seconds) {
  Tick end = TICK_MAX;
  if (seconds >= SECONDS_MAX || __builtin_add_overflow(at, tick_from_seconds(seconds), &end))
    return TICK_MAX;
  return end > at ? end : at + 1;
}

/* The part of the curve that begins at `at` of the run, at point `point`. */
static void enter_part(ArrivalDraw *self, int point, Tick at) {
  const RateCurve *curve = &self->pattern->curve;
  if (curve->period > 0 && point == curve->n_points - 1) point = 0;
  self->point = point;
  self->curve_begin = at;
  const bool is_last = point == curve->n_points - 1;
  if (is_last ||
      __builtin_add_overflow(at, curve->at[point + 1] - curve->at[point], &self->curve_end))
    self->curve_end = TICK_MAX;
}

static void enter_curve(ArrivalDraw *self) {
  const RateCurve *curve = &self->pattern->curve;
  int point = 0;
  while (point + 1 < curve->n_points && curve->at[point + 1] <= curve->start)
    point++;
  enter_part(self, point, curve->at[point] - curve->start);
}

static void stay(ArrivalDraw *self, Tick at) {
  const RateState *state = &self->pattern->states[self->state];
  self->state_end = later(at, rng_exponential(&self->states) * tick_seconds(state->mean_time));
}

/* The state of a run that has always been going: by their shares of time. */
static void enter_states(ArrivalDraw *self) {
  const ArrivalPattern *pattern = self->pattern;
  double sum = 0;
  for (int i = 0; i < pattern->n_states; i++)
    sum += tick_seconds(pattern->states[i].mean_time);
  double left = rng_uniform(&self->states) * sum;
  while (self->state + 1 < pattern->n_states) {
    left -= tick_seconds(pattern->states[self->state].mean_time);
    if (left < 0) break;
    self->state++;
  }
  stay(self, 0);
}

static void change_state(ArrivalDraw *self, Tick at) {
  const int others = self->pattern->n_states - 1;
  const int to = others == 1 ? 0 : (int)rng_below(&self->states, (uint64_t)others);
  self->state = to + (to >= self->state);
  stay(self, at);
}

/* Lognormal of mean 1: exp(σ z − σ²/2) with σ² = log(1 + cv²). */
static void set_factor(ArrivalDraw *self, Tick at) {
  const double cv = self->pattern->drift_cv, variance = portable_log(1 + cv * cv);
  self->factor = portable_exp(sqrt(variance) * self->normal - variance / 2);
  self->drift_end = later(at, tick_seconds(self->pattern->drift_time) / DRIFT_STEPS);
}

static void enter_drift(ArrivalDraw *self) {
  self->keep = portable_exp(-1.0 / DRIFT_STEPS);
  self->spread = sqrt(1 - self->keep * self->keep);
  self->normal = rng_normal(&self->drift);
  set_factor(self, 0);
}

static void change_drift(ArrivalDraw *self, Tick at) {
  self->normal = self->keep * self->normal + self->spread * rng_normal(&self->drift);
  set_factor(self, at);
}

/* ---- Pieces ---- */

static void set_piece(ArrivalDraw *self, Tick at) {
  const ArrivalPattern *pattern = self->pattern;
  const RateCurve *curve = &pattern->curve;
  double factor = self->factor, rate = curve->rates[self->point], slope = 0;
  if (pattern->n_states > 0) factor *= pattern->states[self->state].rate;
  if (curve->linear && self->curve_end < TICK_MAX) {
    slope = (curve->rates[self->point + 1] - rate) /
            tick_seconds(curve->at[self->point + 1] - curve->at[self->point]);
    rate = fmax(0, rate + slope * tick_seconds(at - self->curve_begin));
  }
  Tick end = self->curve_end;
  if (self->state_end < end) end = self->state_end;
  if (self->drift_end < end) end = self->drift_end;
  const double length = end == TICK_MAX ? INFINITY : tick_seconds(end - at);
  self->piece = (RatePiece){at, end, length, rate * factor, slope * factor};
  self->offset = 0;
}

static void next_piece(ArrivalDraw *self) {
  const Tick at = self->piece.end;
  if (at == self->curve_end) enter_part(self, self->point + 1, at);
  if (at == self->state_end) change_state(self, at);
  if (at == self->drift_end) change_drift(self, at);
  set_piece(self, at);
}

void arrival_draw_init(ArrivalDraw *self, const ArrivalPattern *pattern, uint64_t seed) {
  *self =
      (ArrivalDraw){.pattern = pattern, .factor = 1, .state_end = TICK_MAX, .drift_end = TICK_MAX};
  gap_draw_init(&self->gaps, pattern->gaps, 1, pattern->cv, seed);
  rng_init(&self->states, seed, "arrival_states");
  rng_init(&self->drift, seed, "arrival_drift");
  enter_curve(self);
  if (pattern->n_states > 0) enter_states(self);
  if (pattern->drift_cv > 0) enter_drift(self);
  set_piece(self, 0);
}

/* ---- Arrivals ---- */

/* Seconds from the newest arrival until `gap` is spent, of a piece that has as much. */
static double time_of(const RatePiece *piece, double rate, double gap) {
  if (gap <= 0) return 0;
  if (piece->slope == 0) return gap / rate;
  return 2 * gap / (rate + sqrt(fmax(0, rate * rate + 2 * piece->slope * gap)));
}

int arrival_draw_next(ArrivalDraw *self, Tick *ret_at) {
  double gap = gap_draw_next(&self->gaps);
  for (;;) {
    const RatePiece *piece = &self->piece;
    const double rate = piece->rate + piece->slope * self->offset;
    const double left = piece->length - self->offset;
    if (piece->end == TICK_MAX && rate <= 0) return 0;
    const double mean = piece->slope == 0 ? rate : rate + piece->slope * left / 2;
    const double mass = left * mean;
    if (gap < mass) {
      self->offset += time_of(piece, rate, gap);
      break;
    }
    if (piece->end > AT_MAX) return -1;
    gap = mass > 0 ? gap - mass : gap;
    next_piece(self);
  }
  if (self->offset > SECONDS_MAX ||
      __builtin_add_overflow(self->piece.begin, tick_from_seconds(self->offset), ret_at))
    return -1;
  if (*ret_at > self->piece.end) *ret_at = self->piece.end;
  return *ret_at <= AT_MAX ? 1 : -1;
}
