/* Repeats first, then samples. */
#include "calib/sampling.h"
#include <math.h>
#include <stdio.h>

enum { MAX_REPEATS = 10000 };

CalibStatus sampling_take_one(const Sampler *self, int32_t repeats, double *ret_seconds,
                              char *error) {
  const CalibStatus status = self->backend->measure(self->state, repeats, ret_seconds, error);
  if (status || (isfinite(*ret_seconds) && *ret_seconds > 0)) return status;
  snprintf(error, CALIB_ERROR_SIZE, "backend '%s' says that a run took %g s", self->backend->name,
           *ret_seconds);
  return CALIB_ENVIRONMENT;
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

CalibStatus sampling_take(const Sampler *self, Sampled *ret_sampled, char *error) {
  Samples samples = {.n = 0};
  int32_t repeats = 1;
  *ret_sampled = (Sampled){.stop = SAMPLE_MORE};
  self->backend->telemetry(self->state, &ret_sampled->before);
  CalibStatus status = find_repeats(self, &repeats, &samples, &ret_sampled->seconds, error);
  while (!status && !is_interrupted(self)) {
    ret_sampled->stop = samples_stop(&samples, &self->limits, ret_sampled->seconds);
    if (ret_sampled->stop != SAMPLE_MORE) break;
    double seconds = 0;
    status = sampling_take_one(self, repeats, &seconds, error);
    if (status) break;
    samples_add(&samples, seconds);
    ret_sampled->seconds += seconds * repeats;
  }
  self->backend->telemetry(self->state, &ret_sampled->after);
  if (!status && samples.n > 0) ret_sampled->statistics = samples_statistics(&samples);
  return status;
}
