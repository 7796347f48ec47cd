/* Repeats first, then samples. */
#include "calib/sampling.h"
#include <math.h>

enum { MAX_REPEATS = 10000 };

/* One sample of `repeats` runs. A time that is none is CALIB_ENVIRONMENT. */
static CalibStatus sampling_take_one(const Sampler *self, int32_t repeats, double *ret_seconds,
                                     char *error) {
  const CalibStatus status = self->backend->measure(self->state, repeats, ret_seconds, error);
  if (status || (isfinite(*ret_seconds) && *ret_seconds > 0)) return status;
  return calib_failed(CALIB_ENVIRONMENT, error, "backend '%s' reports a run of %g s",
                      self->backend->name, *ret_seconds);
}

/* Repeats that make a sample long enough; one that was is the first of the samples. */
static CalibStatus find_repeats(const Sampler *self, int32_t *ret_repeats, Samples *samples,
                                double *ret_measured, char *error) {
  enum { TRIES = 4 };
  int32_t repeats = 1;
  for (int i = 0; i < TRIES; i++) {
    double seconds = 0;
    const CalibStatus status = sampling_take_one(self, repeats, &seconds, error);
    if (status) return status;
    *ret_repeats = repeats;
    if (seconds * repeats >= 0.9 * self->region_seconds || repeats == MAX_REPEATS) {
      samples_add(samples, seconds);
      *ret_measured += seconds * repeats;
      break;
    }
    repeats = (int32_t)fmin(MAX_REPEATS, ceil(self->region_seconds / seconds));
  }
  return CALIB_OK;
}

static bool is_interrupted(const Sampler *self) {
  return self->interrupted && *self->interrupted;
}

/* ---- The machine meanwhile ---- */

static const double READING_SECONDS = 0.025;
enum { ENERGY_STEPS = 10 };

/* Readings of one point. Power, and the reasons to throttle that go with it, are the point's from
 * when it has run for as long as power is a mean over. */
typedef struct Watch {
  int n_readings, n_clocks, n_powers;
  double clock_sum, least_clock, power_sum;
  uint64_t throttle, settled_throttle;
  double ran;                 // s, before this reading
  double energy, energy_step; // since the first reading; the least that it moved by. NAN: unknown
  CalibTelemetry last;
  double due;   // seconds of samples until the next reading
  int64_t runs; // since the first reading
} Watch;

static void read_machine(Watch *self, const Sampler *sampler) {
  const double energy_before = self->last.energy_j;
  sampler->backend->telemetry(sampler->state, &self->last);
  const double clock = self->last.sm_clock_mhz, moved = self->last.energy_j - energy_before;
  self->throttle |= self->last.throttle;
  if (isfinite(self->last.power_w) && !(self->ran < self->last.power_window_s)) {
    self->power_sum += self->last.power_w;
    self->settled_throttle |= self->last.throttle;
    self->n_powers++;
  }
  self->due = READING_SECONDS;
  if (isfinite(clock)) {
    self->least_clock = self->n_clocks > 0 ? fmin(self->least_clock, clock) : clock;
    self->clock_sum += clock;
    self->n_clocks++;
  }
  if (self->n_readings++ == 0) return;
  self->energy += moved; // NAN stays
  if (moved > 0) self->energy_step = fmin(self->energy_step, moved);
}

static void count_runs(Watch *self, const Sampler *sampler, int32_t runs, double seconds) {
  self->runs += runs;
  self->ran += seconds;
  self->due -= seconds;
  if (self->due <= 0) read_machine(self, sampler);
}

static void end_watch(const Watch *self, Sampled *ret_sampled) {
  const bool is_known = self->runs > 0 && self->energy >= ENERGY_STEPS * self->energy_step;
  ret_sampled->after = self->last;
  ret_sampled->power_w = self->n_powers > 0 ? self->power_sum / self->n_powers : NAN;
  ret_sampled->throttle = self->n_powers > 0 ? self->settled_throttle : self->throttle;
  ret_sampled->sm_clock_mhz = self->n_clocks > 0 ? self->clock_sum / self->n_clocks : NAN;
  ret_sampled->least_sm_clock_mhz = self->n_clocks > 0 ? self->least_clock : NAN;
  ret_sampled->energy_j = is_known ? self->energy / (double)self->runs : NAN;
}

/* ---- Both ---- */

/* The samples before those that count. */
static CalibStatus run_ahead(const Sampler *self, int32_t repeats, char *error) {
  CalibStatus status = CALIB_OK;
  for (double left = self->lead_seconds; left > 0 && !status && !is_interrupted(self);) {
    double seconds = 0;
    status = sampling_take_one(self, repeats, &seconds, error);
    left -= seconds * repeats;
  }
  return status;
}

CalibStatus sampling_take(const Sampler *self, Sampled *ret_sampled, char *error) {
  Watch watch = {.energy_step = INFINITY};
  Samples samples = {.n = 0};
  int32_t repeats = 1;
  *ret_sampled = (Sampled){.stop = SAMPLE_MORE};
  CalibStatus status = find_repeats(self, &repeats, &samples, &ret_sampled->seconds, error);
  if (!status && self->lead_seconds > 0) {
    status = run_ahead(self, repeats, error);
    samples.n = 0;
    ret_sampled->seconds = 0;
  }
  watch.ran = ret_sampled->seconds + self->lead_seconds;
  read_machine(&watch, self);
  while (!status && !is_interrupted(self)) {
    ret_sampled->stop = samples_stop(&samples, &self->limits, ret_sampled->seconds);
    if (ret_sampled->stop != SAMPLE_MORE) break;
    double seconds = 0;
    status = sampling_take_one(self, repeats, &seconds, error);
    if (status) break;
    samples_add(&samples, seconds);
    ret_sampled->seconds += seconds * repeats;
    count_runs(&watch, self, repeats, seconds * repeats);
  }
  if (watch.due < READING_SECONDS) read_machine(&watch, self);
  end_watch(&watch, ret_sampled);
  if (!status && samples.n > 0) ret_sampled->statistics = samples_statistics(&samples);
  if (samples.n > 0 && isnan(ret_sampled->energy_j))
    ret_sampled->energy_j = ret_sampled->power_w * ret_sampled->statistics.median;
  return status;
}
