/* See fit_score.h. */
#include "perfmodel/fit_score.h"
#include "base/rng.h"
#include "base/sort.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

const char *fit_part_name(FitPart part) {
  static const char *const names[] = {[FIT_PREFILL] = "prefill",
                                      [FIT_DECODE] = "decode",
                                      [FIT_MIXED] = "mixed",
                                      [FIT_ALL_ITERATIONS] = "iterations"};
  if (part == FIT_MIXED_OPERATORS) return "mixed_attention";
  return part < FIT_OPERATORS ? names[part] : profile_op_name((ProfileOp)(part - FIT_OPERATORS));
}

FitPart fit_part(ProfileOp op, const BatchShape *batch) {
  if (op == PROFILE_DECODE_ATTENTION && batch->prefill_tokens > 0) return FIT_MIXED_OPERATORS;
  if (op != PROFILE_ITERATION) return (FitPart)(FIT_OPERATORS + (int)op);
  if (batch->decode_seqs == 0) return FIT_PREFILL;
  return batch->prefill_tokens == 0 ? FIT_DECODE : FIT_MIXED;
}

/* ---- Points ---- */

static int compare_rows(const void *a, const void *b) {
  const ProfileRow *r = *(const ProfileRow *const *)a, *s = *(const ProfileRow *const *)b;
  return r->op != s->op ? (r->op < s->op ? -1 : 1) : batch_compare(&r->batch, &s->batch);
}

static FitPoint point_of(const ProfileRow *const *rows, int n, double *times) {
  for (int i = 0; i < n; i++)
    times[i] = 1e-6 * rows[i]->median_us;
  gsl_sort(times, 1, (size_t)n);
  FitPoint point = {.op = rows[0]->op,
                    .batch = rows[0]->batch,
                    .seconds = gsl_stats_median_from_sorted_data(times, 1, (size_t)n),
                    .rows = n};
  for (int i = 0; i < n; i++)
    point.spread += fabs(times[i] / point.seconds - 1) / n;
  if (n == 1 && rows[0]->mad_us > 0) point.spread = rows[0]->mad_us / rows[0]->median_us;
  return point;
}

int fit_points(const ProfileRow *const *rows, int n, FitPoint *ret_points, Arena *arena) {
  const ProfileRow **sorted = ARENA_ARRAY(arena, const ProfileRow *, n + 1);
  double *times = ARENA_ARRAY(arena, double, n + 1);
  for (int i = 0; i < n; i++)
    sorted[i] = rows[i];
  qsort(sorted, (size_t)n, sizeof *sorted, compare_rows);
  int count = 0;
  for (int first = 0, i = 1; i <= n; i++) {
    if (i < n && compare_rows(&sorted[first], &sorted[i]) == 0) continue;
    ret_points[count++] = point_of(&sorted[first], i - first, times);
    first = i;
  }
  return count;
}

/* ---- Errors ---- */

static void add_to(FitErrors *self, FitPart part, const BatchShape *batch, double error) {
  struct FitErrorList *list = &self->parts[part];
  ARENA_RESERVE(self->arena, list->items, list->capacity, list->n + 1);
  if (list->n == 0 || error > list->worst) {
    list->worst = error;
    list->worst_batch = *batch;
  }
  list->items[list->n++] = error;
}

void fit_errors_add(FitErrors *self, ProfileOp op, const BatchShape *batch, double measured,
                    double predicted) {
  double error = fabs(predicted / measured - 1);
  add_to(self, fit_part(op, batch), batch, error);
  if (op == PROFILE_ITERATION) add_to(self, FIT_ALL_ITERATIONS, batch, error);
}

FitScore fit_errors_score(const FitErrors *self, FitPart part) {
  const struct FitErrorList *list = &self->parts[part];
  if (list->n == 0) return (FitScore){.mape = NAN, .p95 = NAN, .worst = NAN};
  gsl_sort(list->items, 1, list->n);
  return (FitScore){.mape = gsl_stats_mean(list->items, 1, list->n),
                    .p95 = gsl_stats_quantile_from_sorted_data(list->items, 1, list->n, 0.95),
                    .worst = list->worst,
                    .worst_batch = list->worst_batch};
}

/* ---- Folds ---- */

int fit_folds(const int64_t *keys, int n, uint64_t seed, int *ret_folds, Arena *arena) {
  int64_t *distinct = ARENA_ARRAY(arena, int64_t, n + 1);
  int *fold_of = ARENA_ARRAY(arena, int, n + 1);
  for (int i = 0; i < n; i++)
    distinct[i] = keys[i];
  const int count = (int)sort_distinct(distinct, (size_t)n);
  Rng rng;
  rng_init(&rng, seed, "fit folds");
  for (int k = 0; k < count; k++) { // an inside-out shuffle
    int j = (int)rng_below(&rng, (uint64_t)k + 1);
    fold_of[k] = fold_of[j];
    fold_of[j] = k;
  }
  int folds = count < FIT_FOLDS_MAX ? count : FIT_FOLDS_MAX;
  for (int i = 0; i < n; i++) {
    const int64_t *found =
        bsearch(&keys[i], distinct, (size_t)count, sizeof *distinct, compare_ints);
    ret_folds[i] = fold_of[found - distinct] % folds;
  }
  return folds;
}
