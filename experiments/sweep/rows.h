/* What the database says about sweeps: which runs are the points of which. */
#ifndef EXPERIMENTS_SWEEP_ROWS_H
#define EXPERIMENTS_SWEEP_ROWS_H
#include "experiments/results/results.h"
#include "experiments/sweep/axes.h"

/* The row of a sweep, or of the part of it that this database is to hold. */
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
#endif
