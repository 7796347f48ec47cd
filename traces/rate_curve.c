/* See rate_curve.h. */
#include "traces/rate_curve.h"

void rate_curve_constant(RateCurve *self, double rate, Arena *arena) {
  Tick *at = ARENA_NEW(arena, Tick);
  double *rates = ARENA_NEW(arena, double);
  *at = 0;
  *rates = rate;
  *self = (RateCurve){.at = at, .rates = rates, .n_points = 1};
}

void rate_curve_steps(RateCurve *self, const double *values, int n, Tick step, bool linear,
                      bool repeats, Arena *arena) {
  Tick *at = ARENA_ARRAY(arena, Tick, n + 2);
  double *rates = ARENA_ARRAY(arena, double, n + 2);
  const double edge = (values[0] + values[n - 1]) / 2;
  int k = 0;
  if (linear) rates[k++] = repeats ? edge : values[0];
  at[0] = 0;
  for (int i = 0; i < n; i++) {
    at[k] = i * step + (linear ? step / 2 : 0);
    rates[k++] = values[i];
  }
  at[k] = n * step;
  rates[k++] = linear && repeats ? edge : values[n - 1];
  *self = (RateCurve){
      .at = at, .rates = rates, .n_points = k, .linear = linear, .period = repeats ? n * step : 0};
}

void rate_curve_scale(RateCurve *self, double factor, Arena *arena) {
  double *rates = ARENA_ARRAY(arena, double, self->n_points);
  for (int i = 0; i < self->n_points; i++)
    rates[i] = self->rates[i] * factor;
  self->rates = rates;
}

/* From the first point up to `end`, at most one period. */
static double integral_to(const RateCurve *self, Tick end) {
  const int last = self->n_points - 1;
  double sum = 0;
  for (int i = 0; i < last && self->at[i] < end; i++) {
    const Tick length = self->at[i + 1] - self->at[i];
    const Tick taken = end < self->at[i + 1] ? end - self->at[i] : length;
    const double rise = self->linear ? self->rates[i + 1] - self->rates[i] : 0;
    const double share = (double)taken / (double)length;
    sum += tick_seconds(taken) * (self->rates[i] + rise * share / 2);
  }
  if (self->period == 0 && end > self->at[last])
    sum += tick_seconds(end - self->at[last]) * self->rates[last];
  return sum;
}

/* Of all time before `end`, from the beginning of the curve. */
static double integral(const RateCurve *self, Tick end) {
  if (self->period == 0) return integral_to(self, end);
  const double whole = (double)(end / self->period);
  return whole * integral_to(self, self->period) + integral_to(self, end % self->period);
}

double rate_curve_expected(const RateCurve *self, Tick span) {
  Tick end = TICK_MAX;
  if (__builtin_add_overflow(self->start, span, &end)) end = TICK_MAX;
  return integral(self, end) - integral(self, self->start);
}

double rate_curve_mean(const RateCurve *self) {
  const Tick length = self->at[self->n_points - 1];
  return length > 0 ? integral_to(self, length) / tick_seconds(length) : self->rates[0];
}

double rate_curve_peak(const RateCurve *self) {
  double peak = 0;
  for (int i = 0; i < self->n_points; i++)
    if (self->rates[i] > peak) peak = self->rates[i];
  return peak;
}
