/* What `tandem calibrate` works on, and what it prints. */
#ifndef EXPERIMENTS_COMMANDS_CALIBRATE_H
#define EXPERIMENTS_COMMANDS_CALIBRATE_H
#include "calib/backend_load.h"
#include "calib/harness.h"

/* One shard of one model: a group of the profile. */
typedef struct CalibrateGroup {
  CalibModel model;
  Plan plan;
  bool rejected; // the device cannot hold it
} CalibrateGroup;

typedef struct Calibrate {
  Arena *arena;
  OpenBackend open;         // without a table: a device that is planned for
  Hardware machine;         // with that GPU
  const Hardware *hardware; // it, or NULL when none is known
  CalibrateGroup *groups;
  size_t n_groups, capacity;
  bool only[CALIB_N_OPS]; // of --only
} Calibrate;

/* Points by operator and a guess at the time, of groups whose points were waived already. */
void calibrate_print_plan(const Calibrate *self, const SampleLimits *limits, double budget);
/* What was measured, what was not and why, drift, the best rates, power. */
void calibrate_print_summary(const Calibrate *self, const HarnessReport *report,
                             const char *output_path);

/* A line on stderr, when that is a terminal. */
typedef struct CalibrateProgress {
  const CalibrateGroup *group;
  double shown_s;
  bool shown;
} CalibrateProgress;

/* Fits HarnessOptions.progress. */
void calibrate_show(void *progress, size_t done, size_t left, double seconds_left);
/* Takes the line off again. */
void calibrate_hide(CalibrateProgress *self);
#endif
