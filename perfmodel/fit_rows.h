/* Which rows of a profile a fit is made from, and the all-reduces that some of them lack.
 *
 * Only terms are fitted to, measured cold, alone and in bursts. Where an operator was measured both
 * in graphs and eagerly, one mode is taken. A shard of several GPUs that was measured on one has no
 * all-reduces in `linear` and in its iterations; the fact `all_reduce: none` says so, and they are
 * added here, before anything is fitted: from the profile's own rows of `all_reduce` (ascending by
 * bytes, lines between them), else by times that are given. */
#ifndef PERFMODEL_FIT_ROWS_H
#define PERFMODEL_FIT_ROWS_H
#include "perfmodel/fit_model.h"

typedef struct FitLeftOut {
  int64_t early_stops; // decodes of unknown context
  int64_t other_mode, hot_or_busy;
  int64_t sustained;  // FitSustained
  int64_t details;    // operators finer than a term
  int64_t incomplete; // operators of a group that lacks others: its iterations say it all
} FitLeftOut;

/* An iteration after seconds of nothing else, at the limit of power or heat: its time over that of
 * bursts of the same. */
typedef struct FitSustained {
  BatchShape batch;
  double ratio;
} FitSustained;

/* What an iteration all-reduces: `calls` tensors of `bytes_per_token`. */
typedef struct FitAllReduce {
  int64_t calls; // 0: the model is not known
  int64_t bytes_per_token;
  const char *source; // of the times, a phrase; NULL: there are none
  int n_sizes;        // lines between them; the last goes on
  const int64_t *bytes;
  const double *seconds;
} FitAllReduce;

typedef struct FitRows {
  const Profile *profile;
  const ProfileGroup *group;
  const char *mode; // graph or eager, where there are both
  FitAllReduce all_reduce;
  const char *all_reduce_source; // a phrase; NULL: nothing is lacking
  bool lacks_all_reduce;         // and nothing says how long they take
  FitLeftOut left_out;
  /* private: the curve of one call */
  int n_sizes;
  const int64_t *bytes;
  const double *seconds;
  Arena *arena;
} FitRows;

void fit_rows_init(FitRows *self, const Profile *profile, const ProfileGroup *group,
                   const char *mode, const FitAllReduce *all_reduce, Arena *arena);
/* The rows of a term, those of `linear` and iterations with their all-reduces, into `ret_rows` of
 * room for the group's. Counts what it leaves out. Returns how many. */
int fit_rows_of(FitRows *self, FitTerm term, const ProfileRow **ret_rows);
/* Whether the group has iterations, but not all operators that their batches need, as a run that
 * was cut short leaves them. Its operators then count as left out: iterations alone are fitted. */
bool fit_rows_drop_incomplete(FitRows *self);
/* The sustained iterations of the group that have bursts, into `ret_sustained` of room for the
 * group's rows. Returns how many. */
int fit_rows_sustained(const FitRows *self, FitSustained *ret_sustained);
#endif
