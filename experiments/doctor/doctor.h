/* Whether a device and its backend are fit to measure on: what the device says of itself, the
 * result of every operator, the speed of the four that all others are judged by, and whether a
 * clock that times them is one: twice the work takes twice the time, twice the same the same.
 *
 * A check is one row, and one that fails says what to do. Shares are of the peaks of
 * perfmodel/machines/. The bands are those that these kernels hold on a GPU in order; a processor
 * has no peaks that are known, so of it only the clock is judged. Figures that spread so far that
 * nothing follows from them are `noisy`: no verdict on the device, but one on the moment. */
#ifndef EXPERIMENTS_DOCTOR_DOCTOR_H
#define EXPERIMENTS_DOCTOR_DOCTOR_H
#include "calib/backend.h"
#include "experiments/base/writer.h"
#include "perfmodel/hardware.h"
#include <signal.h>

typedef enum DoctorVerdict {
  DOCTOR_OK,
  DOCTOR_NOTED,  // stands in no band
  DOCTOR_NOISY,  // out of its band, but so may the truth not be
  DOCTOR_MISSED, // out of its band, or wrong, or not measured at all
} DoctorVerdict;

typedef struct DoctorCheck {
  const char *part, *name; // "device", "clock"
  DoctorVerdict verdict;
  const char *found;  // in words
  double value;       // NAN: there is none
  double low, high;   // the band that it belongs into; NAN: no limit
  bool is_ratio;      // of times; else it is a share
  const char *advice; // what to do; NULL: nothing
} DoctorCheck;

/* All checks, in their order. */
typedef struct Doctor {
  Arena *arena;
  DoctorCheck *checks;
  size_t n, capacity;
} Doctor;

/* Where the checks are made. */
typedef struct DoctorJob {
  const Backend *backend;
  void *state; // open
  const CalibDevice *device;
  const Hardware *hardware;        // its peaks; NULL: not known
  const CalibModel *model;         // of the points that are timed
  const CalibModel *const *others; // NULL-terminated: verified before, for what it does not have
  double seconds;                  // to spend
  double (*clock)(void *context);  // seconds, going forward
  void *clock_context;
  double began;                             // of the clock
  const volatile sig_atomic_t *interrupted; // NULL, or not 0 when it shall stop
} DoctorJob;

void doctor_init(Doctor *self, Arena *arena);
/* Whether more than this share of the time is spent: references leave the rest to what is timed. */
bool doctor_is_late(const DoctorJob *job, double share);
/* Says that the backend failed at `name`, or, when it shall stop, that. Returns −1. */
int doctor_failed(const DoctorJob *job, const char *name, const char *error, Diag *diag);
/* Appends a check with a copy of `found`; other texts live as long as the arena. The verdict is
 * that of the band. */
DoctorCheck *doctor_add(Doctor *self, const char *part, const char *name, DoctorVerdict verdict,
                        const char *found, const char *advice);
/* The worst of all verdicts. */
DoctorVerdict doctor_verdict(const Doctor *self);

/* What of a GPU's software is on this host, below the folder `root`, "" but for tests. Returns
 * whether there is a GPU at all. */
bool doctor_host(Doctor *self, const char *root);
/* What the device says of itself. `hardware` may be NULL. */
void doctor_device(Doctor *self, const CalibDevice *device, const Hardware *hardware);
/* The part of it that says who else is on it, and how it is set up. Nothing of a processor. */
void doctor_company(Doctor *self, const CalibDevice *device);
/* Every operator of all models against its reference, until two fifths of the time are spent.
 * Loads `model` last. −1 with entries when the backend fails, which a wrong result does not. */
int doctor_correct(Doctor *self, const DoctorJob *job, Diag *diag);
/* Where the device has prefill attention by wgmma too: whether it is right, how fast it is beside
 * the backend's own, and which is to be chosen. Loads models of its own. −1 likewise. */
int doctor_kernels(Doctor *self, const DoctorJob *job, Diag *diag);
/* Speed, twice the work, repeats, and the clock meanwhile. `model` is loaded. −1 likewise. */
int doctor_bands(Doctor *self, const DoctorJob *job, Diag *diag);

void doctor_print(const Doctor *self, OutputFormat format);
#endif
