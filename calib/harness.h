/* Measures the points of a plan on a backend that has the model loaded, and records them.
 *
 * A point: the operator verified, when it is the first of its kind (verify.h); prepare; enough
 * repeats that one sample takes region_seconds; samples until the limits say stop; what the machine
 * says of its clocks and power meanwhile. Anchors are measured first and again every
 * anchor_seconds. When one has moved by more than `drift`, and the intervals of its median do not
 * meet, the points since are flagged, PLAN_DRIFT in the column `stop`, and so are both readings of
 * the anchor. A row whose clock fell (perfmodel/profile_clock.h) is flagged PLAN_CLOCK. When the
 * plan is through, flagged points are measured again, pass by pass, until there are five readings
 * of each: one that is not flagged takes the place of all before it; of others `fit` takes the
 * median.
 *
 * A point that does not fit in memory waives all that do more work of its kind. A wrong result, and
 * an operator that cannot be run for its verification, waive all points of the operator; a point
 * that is rejected waives itself. Any other failure of the backend ends the run: what was measured
 * is in the file. */
#ifndef CALIB_HARNESS_H
#define CALIB_HARNESS_H
#include "calib/plan.h"
#include "calib/recorder.h"
#include <signal.h>

typedef struct HarnessOptions {
  SampleLimits limits;
  double region_seconds; // 0.002
  double anchor_seconds; // 30
  int anchor_points;     // anchors come back after so many points in any case
  double drift;          // 0.02
  bool verify;           // operators, and sizes that will be timed, against their references; true
  double seconds;        // to spend on this plan; INFINITY: all it takes
  const volatile sig_atomic_t *interrupted; // NULL, or not 0 when the user wants it to stop
  double (*clock)(void *context);           // seconds, going forward
  void *clock_context;
  void (*progress)(void *context, size_t done, size_t left, double seconds_left); // may be NULL
  void *progress_context;
} HarnessOptions;

/* All but budget, clock and interruption. */
HarnessOptions harness_options_default(void);

/* One shard of a model, loaded into a backend. */
typedef struct HarnessJob {
  const Backend *backend;
  void *state;
  const CalibModel *model;
  const CalibDevice *device;
  const Hardware *hardware; // of that GPU, NULL: not known
  Plan *plan;
  Recorder *recorder;
  Arena *arena;
} HarnessJob;

typedef enum HarnessEnd {
  HARNESS_DONE,
  HARNESS_BUDGET,
  HARNESS_INTERRUPTED,
  HARNESS_FAILED, // entries say why
} HarnessEnd;

/* Adds up over jobs. */
typedef struct HarnessReport {
  HarnessEnd end;    // the worst of any
  int64_t points;    // measured, anchors' returns not counted
  int64_t left;      // neither measured nor waived
  int64_t no_memory; // points that did not fit, or do more work than one that did not
  int64_t samples, outliers;
  int64_t anchors;    // readings
  int64_t drifts;     // blocks of points between two readings that differed too much
  int64_t slowed;     // readings whose clock fell
  int64_t remeasured; // readings of points that had drifted, or whose clock had fallen
  int64_t flagged;    // points that the device was steady for at no reading
  double worst_drift; // share; the greatest change of an anchor from reading to reading
  double best_flops, best_memory, best_link; // per second, of any point
  double least_power, most_power;            // W; 0: not known
  int64_t throttled;                         // points with a reason to throttle
  uint64_t throttle;                         // all reasons, NVML's bits
  int64_t verified, unverified;    // sizes that were held to the reference; for want of time not
  double verify_seconds;           // that this took
  double worst_error[CALIB_N_OPS]; // against the reference; 0: not verified
  const char *wrong[CALIB_N_OPS];  // NULL, or how a result was wrong
} HarnessReport;

/* Adds to `report`, which the caller has zeroed before the first job. −1 with entries when the
 * backend or the file failed; the end in the report then says HARNESS_FAILED. */
int harness_run(const HarnessJob *job, const HarnessOptions *options, HarnessReport *report,
                Diag *diag);
#endif
