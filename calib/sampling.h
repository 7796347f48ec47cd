/* Takes samples of the point that a backend has prepared, as many as the limits ask for, each of
 * enough repeats to be long against the clock that times it. */
#ifndef CALIB_SAMPLING_H
#define CALIB_SAMPLING_H
#include "calib/backend.h"
#include "calib/statistics.h"
#include <signal.h>

typedef struct Sampler {
  const Backend *backend;
  void *state;
  SampleLimits limits;
  double region_seconds;                    // of one sample, at least
  double lead_seconds;                      // run before any sample counts
  const volatile sig_atomic_t *interrupted; // NULL, or not 0 when it shall stop
} Sampler;

/* `stop` is SAMPLE_MORE when it was interrupted. The machine is read when it is warm and then every
 * 25 ms of samples, so that its idle clocks are in no figure. Power is the mean of the readings
 * that are of nothing but this point. Energy is that between the first reading and the last, what
 * it takes while samples are queued included, where the counter has moved by ten of the least steps
 * that were seen of it, and so is right to a tenth; else it is power times the median. */
typedef struct Sampled {
  SampleStatistics statistics; // s; n 0: none
  SampleStop stop;
  CalibTelemetry after;                    // the last reading
  double sm_clock_mhz, least_sm_clock_mhz; // of all readings, the first the mean; NAN: unknown
  double power_w, energy_j;                // of one run; NAN: unknown
  uint64_t throttle;                       // of the readings of power; without any, of all
  double seconds;                          // measured in all
} Sampled;

CalibStatus sampling_take(const Sampler *self, Sampled *ret_sampled, char *error);
#endif
