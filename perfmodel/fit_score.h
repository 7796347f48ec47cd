/* Points from rows, folds, and errors: the bookkeeping of a fit. */
#ifndef PERFMODEL_FIT_SCORE_H
#define PERFMODEL_FIT_SCORE_H
#include "perfmodel/fit.h"

/* Rows to points, ascending by operator and batch. `ret_points` has room for n. */
int fit_points(const ProfileRow *const *rows, int n, FitPoint *ret_points, Arena *arena);

/* Errors of predictions as they come in, by part. */
typedef struct FitErrors {
  struct FitErrorList {
    double *items;
    size_t n, capacity;
    double worst;
    BatchShape worst_batch;
  } parts[FIT_PARTS];
  Arena *arena;
} FitErrors;

void fit_errors_add(FitErrors *self, ProfileOp op, const BatchShape *batch, double measured,
                    double predicted);
FitScore fit_errors_score(const FitErrors *self, FitPart part);

/* A fold for each point: points of equal `key` share one. At most FIT_FOLDS_MAX, drawn from `seed`
 * where there are more keys. Returns how many. */
enum { FIT_FOLDS_MAX = 32 };
int fit_folds(const int64_t *keys, int n, uint64_t seed, int *ret_folds, Arena *arena);
#endif
