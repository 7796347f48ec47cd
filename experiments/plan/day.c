/* Traffic of a day or a week: the peak that a cluster has to hold, and what its valleys leave. */
#include "experiments/plan/plan.h"
#include <math.h>

int plan_profile(RateProfile *ret, const char *profile, Arena *arena, Diag *diag) {
  const Node name = {.kind = NODE_SCALAR, .text = profile, .at = place_of_file("--day")};
  *ret = (RateProfile){0};
  return profile_bind(ret, &name, config_data_root(), ".", arena, diag);
}

static double peak_of(const RateProfile *day) {
  double most = 0;
  for (int i = 0; i < day->n; i++)
    most = fmax(most, day->values[i]);
  return most;
}

int plan_peak(const char *profile, double *ret_factor, Arena *arena, Diag *diag) {
  RateProfile day;
  if (plan_profile(&day, profile, arena, diag)) return -1;
  double sum = 0;
  for (int i = 0; i < day.n; i++)
    sum += day.values[i];
  *ret_factor = peak_of(&day) / (sum / day.n);
  return 0;
}

/* ---- Valleys ---- */

void valleys_make(Valleys *self, const RateProfile *day, double instances, double least,
                  Arena *arena) {
  const double peak = peak_of(day);
  *self = (Valleys){.before = ARENA_ARRAY(arena, double, (size_t)day->n + 1),
                    .n = day->n,
                    .step_s = tick_seconds(day->step)};
  for (int i = 0; i < day->n; i++) {
    const double need = fmax(ceil(instances * day->values[i] / peak - 1e-9), least);
    self->before[i + 1] = self->before[i] + fmax(instances - need, 0) * self->step_s;
  }
}

/* From the beginning of the first day to a time. */
static double free_until(const Valleys *self, double s) {
  const double steps = s / self->step_s, days = floor(steps / self->n);
  const double within = fmin(steps - days * self->n, self->n), whole = fmin(floor(within), self->n);
  const int i = (int)whole;
  const double part = i < self->n ? (within - whole) * (self->before[i + 1] - self->before[i]) : 0;
  return days * self->before[self->n] + self->before[i] + part;
}

double valleys_free(const Valleys *self, double from_s, double lasts_s) {
  return free_until(self, from_s + lasts_s) - free_until(self, from_s);
}

int valleys_best(const Valleys *self, double lasts_s) {
  int best = 0;
  double most = -1;
  for (int i = 0; i < self->n; i++) {
    const double free = valleys_free(self, i * self->step_s, lasts_s);
    if (free <= most * (1 + 1e-12)) continue;
    most = free;
    best = i;
  }
  return best;
}

double valleys_lowest(const RateProfile *day, double from_s, double lasts_s) {
  const double step_s = tick_seconds(day->step), last = (from_s + lasts_s) / step_s;
  double lowest = INFINITY;
  for (double i = floor(from_s / step_s); i < last && i < from_s / step_s + day->n; i++)
    lowest = fmin(lowest, day->values[(int)fmod(i, day->n)]);
  return lowest;
}
