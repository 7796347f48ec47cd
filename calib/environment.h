/* Provenance of a profile: where, with what and how it was measured, as facts of its head.
 *
 * Nothing names the machine or its user; the GPU's uuid is kept as a hash, which tells two GPUs
 * apart and no more. */
#ifndef CALIB_ENVIRONMENT_H
#define CALIB_ENVIRONMENT_H
#include "calib/harness.h"

/* What the user asked for. */
typedef struct EnvironmentRun {
  const char *version, *commit, *backend;
  const char *models, *degrees; // "a, b"
  CalibDtype dtype;
  CalibOptions options;
  uint64_t plan; // digest of all plans
  double budget_seconds;
} EnvironmentRun;

/* Sets all facts that are known before measuring. */
void environment_begin(Profile *profile, const EnvironmentRun *run, const CalibDevice *device,
                       const CalibTelemetry *idle);
/* Sets those that only the end knows: how far it came, power, throttling, drift, verification. */
void environment_end(Profile *profile, const HarnessReport *report);
/* Whether `found`, facts of a file, allow a run with those of `wanted` to go on: device, libraries,
 * models, plan and seed must be the same. An entry at the file names each difference. */
int environment_check(const Profile *found, const Profile *wanted, Diag *diag);
/* "done", "budget", …: the fact `finished`. */
const char *environment_end_name(HarnessEnd end);
/* Reasons to throttle in words, "none" without any. */
const char *environment_throttle(uint64_t reasons, Arena *arena);
#endif
