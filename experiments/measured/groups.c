/* Points that are told of together. */
#include "base/sort.h"
#include "experiments/measured/set.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t sign(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_pools(const MeasuredPool *a, const MeasuredPool *b) {
  const int64_t pairs[][2] = {{a->tensor, b->tensor},
                              {a->pipeline, b->pipeline},
                              {a->attention, b->attention},
                              {a->expert, b->expert}};
  return compare_pairs(pairs, 4);
}

/* What tells groups apart; 0: the same one. */
static int compare_keys(const MeasuredPoint *a, const MeasuredPoint *b, bool detail) {
  const char *const texts[][2] = {{a->engine, b->engine},
                                  {a->gpu, b->gpu},
                                  {a->model, b->model},
                                  {a->precision, b->precision},
                                  {measured_mode(a), measured_mode(b)},
                                  {detail ? a->version : "", detail ? b->version : ""}};
  if (a->set != b->set) return (int)sign(measured_set_index(a->set), measured_set_index(b->set));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const int order = strcmp(texts[i][0], texts[i][1]);
    if (order != 0) return order;
  }
  for (int i = 0; detail && i < MEASURED_POOLS; i++) {
    const int order = compare_pools(&a->pools[i], &b->pools[i]);
    if (order != 0) return order;
  }
  return 0;
}

bool measured_same_group(const MeasuredPoint *a, const MeasuredPoint *b) {
  return compare_keys(a, b, false) == 0;
}

static int compare_points(const MeasuredPoint *a, const MeasuredPoint *b, bool detail) {
  const int order = compare_keys(a, b, detail);
  return order != 0 ? order : (a > b) - (a < b);
}

static int compare_coarse(const void *a, const void *b) {
  return compare_points(*(const MeasuredPoint *const *)a, *(const MeasuredPoint *const *)b, false);
}

static int compare_detailed(const void *a, const void *b) {
  return compare_points(*(const MeasuredPoint *const *)a, *(const MeasuredPoint *const *)b, true);
}

static void add_error(MeasuredErrors *errors, const MeasuredPoint *point, MeasuredFigure figure,
                      Arena *arena) {
  const double error = measured_error(point, figure);
  if (isnan(error)) return;
  ARENA_RESERVE(arena, errors->sizes, errors->capacity, (size_t)errors->n + 1);
  errors->sizes[errors->n++] = fabs(error);
  errors->measured += point->measured[figure];
  errors->predicted += point->predicted[figure];
  errors->mape += fabs(error); // sums, until all are in
  errors->bias += error;
  if (!errors->worst || fabs(error) > fabs(measured_error(errors->worst, figure)))
    errors->worst = point;
}

void measured_group_add(MeasuredGroup *group, const MeasuredPoint *point, Arena *arena) {
  if (!group->first) group->first = point;
  group->points++;
  if (point->why) {
    group->missing++;
    return;
  }
  group->fitted += point->fitted && !point->fitted_ttft;
  for (int f = 0; f < MEASURED_FIGURES; f++)
    if (measured_is_held_out(point, (MeasuredFigure)f))
      add_error(&group->errors[f], point, (MeasuredFigure)f, arena);
}

static int compare_reals(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

double measured_median(MeasuredErrors *errors) {
  if (errors->n == 0) return NAN;
  qsort(errors->sizes, (size_t)errors->n, sizeof *errors->sizes, compare_reals);
  return (errors->sizes[(errors->n - 1) / 2] + errors->sizes[errors->n / 2]) / 2;
}

static void end_requests(MeasuredErrors *errors) {
  errors->mape = measured_median(errors);
  errors->bias = errors->predicted / errors->measured - 1;
}

void measured_group_end(MeasuredGroup *group) {
  for (int f = 0; f < MEASURED_FIGURES; f++) {
    MeasuredErrors *errors = &group->errors[f];
    if (errors->n > 0 && group->first->log) {
      end_requests(errors);
      continue;
    }
    errors->mape = errors->n > 0 ? errors->mape / errors->n : NAN;
    errors->bias = errors->n > 0 ? errors->bias / errors->n : NAN;
  }
}

MeasuredGroup *measured_groups(const Measured *self, bool detail, Arena *arena) {
  const MeasuredPoint **points = ARENA_ARRAY(arena, const MeasuredPoint *, self->n_points);
  MeasuredGroup *groups = ARENA_ARRAY(arena, MeasuredGroup, self->n_points + 1);
  for (size_t i = 0; i < self->n_points; i++)
    points[i] = &self->points[i];
  qsort(points, self->n_points, sizeof *points, detail ? compare_detailed : compare_coarse);
  size_t n = 0;
  for (size_t i = 0; i < self->n_points; i++) {
    if (i > 0 && compare_keys(points[i - 1], points[i], detail) != 0) n++;
    measured_group_add(&groups[n], points[i], arena);
  }
  for (size_t i = 0; groups[i].first; i++)
    measured_group_end(&groups[i]);
  return groups;
}

MeasuredFigure measured_main_figure(const MeasuredGroup *group) {
  return group->errors[MEASURED_TPOT].n > 0 ? MEASURED_TPOT : MEASURED_THROUGHPUT;
}

/* ---- Reasons ---- */

static int compare_counts(const void *a, const void *b) {
  const MeasuredCount *left = a, *right = b;
  return left->n != right->n ? right->n - left->n : strcmp(left->text, right->text);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *text_of(const MeasuredPoint *point, MeasuredSaid said) {
  if (said == MEASURED_WHY || point->why) return said == MEASURED_WHY ? point->why : NULL;
  return said == MEASURED_ODD       ? point->odd
         : said == MEASURED_ASSUMED ? point->assumed
         : said == MEASURED_SOLVED  ? point->solved
                                    : point->fitted;
}

MeasuredCount *measured_counts(const Measured *self, MeasuredSaid said, Arena *arena) {
  const char **texts = ARENA_ARRAY(arena, const char *, self->n_points);
  MeasuredCount *counts = ARENA_ARRAY(arena, MeasuredCount, self->n_points + 1);
  size_t n = 0, n_counts = 0;
  for (size_t i = 0; i < self->n_points; i++) {
    const char *text = text_of(&self->points[i], said);
    if (text) texts[n++] = text;
  }
  qsort(texts, n, sizeof *texts, compare_texts);
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || strcmp(texts[i - 1], texts[i]) != 0) counts[n_counts++].text = texts[i];
    counts[n_counts - 1].n++;
  }
  qsort(counts, n_counts, sizeof *counts, compare_counts);
  return counts;
}
