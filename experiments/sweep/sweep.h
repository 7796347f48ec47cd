/* The points of a sweep, simulated by several threads and stored as they end by one. */
#ifndef EXPERIMENTS_SWEEP_SWEEP_H
#define EXPERIMENTS_SWEEP_SWEEP_H
#include "experiments/base/progress.h"
#include "experiments/campaign/campaign.h"
#include "experiments/sweep/axes.h"

/* What the database says about a sweep, or about the part of it that it is to hold: which runs are
 * its points. */
typedef struct SweepRow {
  const Sweep *sweep;
  const char *name;        // path as given
  const char *text;        // canonical, all of the file
  const char *epoch;       // of the rules that its points use
  int64_t shard, n_shards; // 1 of 1: not split
  int64_t id;              // set by results_add_sweep
} SweepRow;

/* Finds or adds the sweep, in a transaction of its own. */
int results_add_sweep(Results *self, SweepRow *row, Arena *arena, Diag *diag);
/* Makes the run that the next results_add_run or results_add_failure adds `point`, in place of one
 * that failed. In the transaction of that run, which it begins. */
int results_add_point(Results *self, const SweepRow *row, int64_t point, Diag *diag);
/* Makes a run that is there, found by its configuration, `point`; in a transaction of its own. 1,
 * 0 when there is no such run, or -1. */
int results_link_point(Results *self, const SweepRow *row, int64_t point, uint64_t config_digest,
                       Arena *arena, Diag *diag);

typedef struct SweepRun {
  TrialBase base; // without its `sweep:` block
  Sweep sweep;
  SweepRow row;
  DigestSet finished; // what is there
  Tally tally;
  const char *first_reason; // of the first point that failed, NULL: none did
} SweepRun;

/* Reads the file, binds its axes, and makes sure that they name keys and that there is a point that
 * can be bound at all. Of self->row, shard and n_shards are the caller's. Lives in `arena`;
 * sweep_run_done releases the rest, also after a failure. */
int sweep_run_init(SweepRun *self, const char *path, const ConfigChanges *changes, Arena *arena,
                   Diag *diag);
void sweep_run_done(SweepRun *self);
/* Simulates and stores the points of the row's shard that are not in `finished`. Points that
 * fail are stored with their reason; -1 when the database does, or when the user interrupts it:
 * points that have ended are stored then too. */
int sweep_run(SweepRun *self, Results *results, int jobs, Arena *arena, Diag *diag);
/* What is known of the times of all points of the sweep that are there, of its other shards too.
 * `point` is the one with the largest share extrapolated, -1: none has any. */
typedef struct SweepTimes {
  TimesKnown times;
  int64_t point;
} SweepTimes;
int sweep_times(Results *results, int64_t sweep, SweepTimes *ret_times, Diag *diag);

/* Only counts: tally.found are there, tally.failed cannot be bound, the rest would be simulated.
 * How many those are, and the first of them in ret_first[most]. */
int64_t sweep_run_plan(SweepRun *self, int64_t *ret_first, int64_t most);
#endif
