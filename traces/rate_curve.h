/* A rate over time: points, between which it is held or goes in a straight line.
 *
 * It repeats after `period`, or its last rate holds from the last point on. A run begins at `start`
 * of it. Its integral is exact up to rounding, so that arrivals are drawn through its inverse
 * (traces/arrivals.h). */
#ifndef TRACES_RATE_CURVE_H
#define TRACES_RATE_CURVE_H
#include "base/arena.h"
#include "base/units.h"
#include <stdbool.h>

typedef struct RateCurve {
  const Tick *at;      // [n_points], the first 0, ascending
  const double *rates; // [n_points] per second, not negative
  int n_points;
  bool linear; // between points; else each is held up to the next
  Tick period; // where the last point is; 0: its rate is held for ever
  Tick start;  // before `period`
} RateCurve;

/* One rate for ever. */
void rate_curve_constant(RateCurve *self, double rate, Arena *arena);
/* `n` values of `step` each, one behind the other. Held, or from the middle of each to the middle
 * of the next; what repeats goes on from the last to the first. */
void rate_curve_steps(RateCurve *self, const double *values, int n, Tick step, bool linear,
                      bool repeats, Arena *arena);
void rate_curve_scale(RateCurve *self, double factor, Arena *arena);

/* Requests expected in the first `span` of a run. */
double rate_curve_expected(const RateCurve *self, Tick span);
/* Of all points, over the time from the first to the last: per second. */
double rate_curve_mean(const RateCurve *self);
double rate_curve_peak(const RateCurve *self);
#endif
