/* Held-out errors choose the fit, then score it. */
#include "perfmodel/fit_task.h"
#include "base/rng.h"
#include "perfmodel/fit_table.h"
#include <math.h>
#include <string.h>

enum { RANDOM_SPLITS = 5, DECODE_SEGMENTS_MAX = 3 };

/* Between its knots `head` rises in proportion to `linear`, beyond the last by its ratio, on knots
 * of `linear`: both are products of as many tokens on one GPU, which turn from reading weights to
 * multiplying at nearly one number. */
static void bend(FitCurve *self, const FitCurve *linear) {
  const FitCurve straight = *self;
  if (self->n_knots == 0 || self->n_knots + linear->n_knots > FIT_KNOTS_MAX) return;
  self->n_knots = 0;
  for (int k = 0, at = 0; k < straight.n_knots; k++) {
    const bool last = k + 1 == straight.n_knots;
    const double from = fit_curve_eval(linear, straight.x[k]);
    const double run = last ? from : fit_curve_eval(linear, straight.x[k + 1]) - from;
    const double rise = straight.seconds[last ? k : k + 1] - (last ? 0 : straight.seconds[k]);
    self->x[self->n_knots] = straight.x[k];
    self->seconds[self->n_knots++] = straight.seconds[k];
    for (; at < linear->n_knots && (last || linear->x[at] < straight.x[k + 1]); at++) {
      if (linear->x[at] <= straight.x[k] || run <= 0) continue;
      self->x[self->n_knots] = linear->x[at];
      self->seconds[self->n_knots++] =
          straight.seconds[k] + rise / run * (linear->seconds[at] - from);
    }
  }
}

void fit_task_build(const FitTask *self, const FitPoint *points, int n_points, FitModel *ret_model,
                    FitLevels *ret_levels, Arena *arena) {
  FitLevels levels;
  if (self->table &&
      fit_table_build(ret_model, self->term, points, n_points, self->grid == 0, arena))
    return;
  if (self->operators)
    fit_join(ret_model, ret_levels ? ret_levels : &levels, self->operators, self->way, points,
             n_points, arena);
  else
    fit_build(ret_model, points, n_points, &self->plan, arena);
  if (self->linear) bend(&ret_model->curves[PROFILE_HEAD], self->linear);
}

static double known_of(const FitTask *self, const BatchShape *batch) {
  return self->prefill ? fit_eval(self->prefill, PROFILE_PREFILL_ATTENTION, batch) : 0;
}

int fit_task_points(const FitTask *self, const ProfileRow *const *rows, int n, FitPoint *ret_points,
                    Arena *arena) {
  const int n_points = fit_points(rows, n, ret_points, arena);
  for (int i = 0; i < n_points; i++)
    ret_points[i].known = known_of(self, &ret_points[i].batch);
  return n_points;
}

/* The most segments that are tried; 0: the operator has no such term. */
static int segments_most(ProfileOp system, ProfileOp term) {
  if (system != PROFILE_ITERATION && system != term) return 0;
  switch (term) {
  case PROFILE_ITERATION:
    return 0;
  case PROFILE_LINEAR:
    return FIT_SEGMENTS_MAX;
  case PROFILE_DECODE_ATTENTION:
    return 4;
  case PROFILE_HEAD:
    return system == PROFILE_HEAD ? FIT_SEGMENTS_MAX : 0; // else in `linear`, or one slope
  default:
    return system == term ? FIT_SEGMENTS_MAX : 1; // one slope tells long prompts apart
  }
}

/* ---- Held-out errors ---- */

/* Predicts each point by a fit to the other folds; NAN where nothing would be left. */
static void predict_held_out(const FitTask *self, const int *folds, int n_folds,
                             double *ret_seconds) {
  Arena scratch;
  arena_init(&scratch);
  FitPoint *kept = ARENA_ARRAY(&scratch, FitPoint, self->n_points + 1);
  FitModel *model = ARENA_NEW(&scratch, FitModel);
  for (int fold = 0; fold < n_folds; fold++) {
    int n = 0;
    for (int i = 0; i < self->n_points; i++)
      if (folds[i] != fold) kept[n++] = self->points[i];
    if (n > 0) fit_task_build(self, kept, n, model, NULL, &scratch);
    for (int i = 0; i < self->n_points; i++)
      if (folds[i] == fold)
        ret_seconds[i] =
            n > 0 ? self->points[i].known + fit_eval(model, self->op, &self->points[i].batch) : NAN;
  }
  arena_done(&scratch);
}

/* Whole iterations alone are all terms at once, so that each fit of them takes long; where they are
 * many, as an engine logs them, few large folds judge as well as many. */
enum { MANY_POINTS = 40, FOLDS_OF_MANY = 8 };

static int merge_folds(const FitTask *self, int n_folds, int *folds) {
  const bool whole = self->op == PROFILE_ITERATION && !self->operators;
  if (!whole || self->n_points <= MANY_POINTS || n_folds <= FOLDS_OF_MANY) return n_folds;
  for (int i = 0; i < self->n_points; i++)
    folds[i] %= FOLDS_OF_MANY;
  return FOLDS_OF_MANY;
}

/* The points themselves as keys of folds, or how much work they are. */
static int make_folds(const FitTask *self, bool by_work, int *ret_folds, Arena *arena) {
  int64_t *keys = ARENA_ARRAY(arena, int64_t, self->n_points + 1);
  for (int i = 0; i < self->n_points; i++) {
    const BatchShape *batch = &self->points[i].batch;
    ProfileOp op = self->op == PROFILE_ITERATION ? PROFILE_LINEAR : self->op;
    keys[i] = by_work ? fit_x(op, batch) : i;
  }
  const int n_folds = fit_folds(keys, self->n_points, self->seed, ret_folds, arena);
  return merge_folds(self, n_folds, ret_folds);
}

/* ---- How many knots ---- */

/* The points that the number of knots is judged by. */
typedef enum Judges { JUDGES_OTHERS, JUDGES_DECODES, JUDGES_ALL } Judges;

static bool is_judge(const FitTask *self, int point, Judges judges) {
  bool is_decode = self->op == PROFILE_ITERATION && self->points[point].batch.prefill_tokens == 0;
  return judges == JUDGES_ALL || is_decode == (judges == JUDGES_DECODES);
}

/* Relative errors on held-out configurations. Returns how many; those for which nothing would be
 * left to fit to do not count. */
static int errors_with(const FitTask *self, Judges judges, const int *folds, int n_folds,
                       double *ret_errors) {
  int n = 0;
  predict_held_out(self, folds, n_folds, ret_errors);
  for (int i = 0; i < self->n_points; i++)
    if (is_judge(self, i, judges) && !isnan(ret_errors[i]))
      ret_errors[n++] = fabs(ret_errors[i] / self->points[i].seconds - 1);
  return n;
}

/* Whether a fit to all misses by more than twice the noise of the replicates, if that is known. */
static bool is_coarse(const FitTask *self, Judges judges, Arena *arena) {
  double missed = 0, noise = 0;
  FitModel model;
  fit_task_build(self, self->points, self->n_points, &model, NULL, arena);
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *point = &self->points[i];
    if (!is_judge(self, i, judges)) continue;
    missed += fabs(fit_eval(&model, self->op, &point->batch) / point->seconds - 1);
    noise += point->spread;
  }
  return noise > 0 && missed > 2 * noise;
}

static double mean_of(const double *values, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += values[i];
  return sum / n;
}

/* Whether `errors` exceed `best` by more than one standard error of their difference. */
static bool is_worse(const double *errors, const double *best, int n) {
  double mean = mean_of(errors, n) - mean_of(best, n), squares = 0;
  for (int i = 0; i < n; i++) {
    double off = errors[i] - best[i] - mean;
    squares += off * off;
  }
  return mean > sqrt(squares / n / (n > 1 ? n - 1 : 1)) + 1e-9;
}

/* Sets `*segments`, a field of the plan: the least held-out error, or fewer if that is within one
 * standard error and not coarse. The rule is there so that no noise is fitted; what exceeds the
 * noise is worth its knots. */
static void choose_segments(FitTask *self, int *segments, int most, Judges judges, const int *folds,
                            int n_folds, Arena *arena) {
  double *errors[FIT_SEGMENTS_MAX + 1];
  int best = 1, n = 0;
  for (int k = 1; k <= most; k++) {
    errors[k] = ARENA_ARRAY(arena, double, self->n_points);
    *segments = k;
    n = errors_with(self, judges, folds, n_folds, errors[k]);
    if (n == 0) break;
    if (mean_of(errors[k], n) < mean_of(errors[best], n)) best = k;
  }
  *segments = 1;
  while (*segments < best &&
         (is_worse(errors[*segments], errors[best], n) || is_coarse(self, judges, arena)))
    ++*segments;
}

/* Takes a part of the plan where iterations held out are predicted better by more than chance.
 * Whether it did. */
static bool choose_part(FitTask *self, int *part, const int *folds, int n_folds, Arena *arena) {
  double *errors[2];
  int n = 0;
  for (int with = 0; with < 2; with++) {
    errors[with] = ARENA_ARRAY(arena, double, self->n_points);
    *part = with;
    n = errors_with(self, JUDGES_ALL, folds, n_folds, errors[with]);
  }
  *part = n > 0 && is_worse(errors[0], errors[1], n);
  return *part;
}

/* Whether equal x are equal work, so that a curve can go through every point. Products jump at the
 * edges of their tiles: no knots that other points could do without follow that. */
static bool has_one_variable(ProfileOp op) {
  return op == PROFILE_LINEAR || op == PROFILE_HEAD;
}

static void choose_curves(FitTask *self, const int *folds, int n_folds, Arena *arena) {
  const bool whole = self->op == PROFILE_ITERATION;
  for (int op = 0; op < PROFILE_TERMS; op++)
    self->plan.segments[op] = segments_most(self->op, (ProfileOp)op) > 0;
  self->plan.decode_segments = whole;
  for (int op = 0; op < PROFILE_TERMS; op++) {
    int most = segments_most(self->op, (ProfileOp)op);
    const Judges by = whole && op == PROFILE_DECODE_ATTENTION ? JUDGES_DECODES : JUDGES_OTHERS;
    if (most > 1) choose_segments(self, &self->plan.segments[op], most, by, folds, n_folds, arena);
    if (self->op == (ProfileOp)op && has_one_variable(self->op) && is_coarse(self, by, arena))
      self->plan.segments[op] = FIT_DENSE;
  }
  if (whole)
    choose_segments(self, &self->plan.decode_segments, DECODE_SEGMENTS_MAX, JUDGES_DECODES, folds,
                    n_folds, arena);
}

/* Of whole iterations what an engine has beside the simplest terms. Where it has any, `linear` is
 * judged by decodes, too, for it no longer stands for what these take beside. */
static void choose_plan(FitTask *self, Arena *arena) {
  FitPlan *plan = &self->plan;
  int *folds = ARENA_ARRAY(arena, int, self->n_points);
  int n_folds = make_folds(self, false, folds, arena);
  choose_curves(self, folds, n_folds, arena);
  if (self->op != PROFILE_ITERATION) return;
  int *const parts[] = {&plan->segments[PROFILE_HEAD], &plan->prefill_rows, &plan->mixed_rows};
  bool more = false;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    more |= choose_part(self, parts[i], folds, n_folds, arena);
  if (!more) return;
  choose_segments(self, &plan->segments[PROFILE_LINEAR], FIT_SEGMENTS_MAX, JUDGES_ALL, folds,
                  n_folds, arena);
  choose_segments(self, &plan->segments[PROFILE_DECODE_ATTENTION],
                  segments_most(PROFILE_ITERATION, PROFILE_DECODE_ATTENTION), JUDGES_DECODES, folds,
                  n_folds, arena);
}

static void choose_way(FitTask *self, Arena *arena) {
  double *errors[FIT_WAYS];
  int *folds = ARENA_ARRAY(arena, int, self->n_points);
  int n_folds = make_folds(self, false, folds, arena);
  FitWay best = FIT_SUM;
  self->way = FIT_SUM;
  if (n_folds < 2) return;
  for (FitWay way = FIT_SUM; way < fit_join_ways(self->operators->model); way++) {
    self->way = way;
    errors[way] = ARENA_ARRAY(arena, double, self->n_points);
    predict_held_out(self, folds, n_folds, errors[way]);
    for (int i = 0; i < self->n_points; i++)
      errors[way][i] = fabs(errors[way][i] / self->points[i].seconds - 1);
    if (mean_of(errors[way], self->n_points) < mean_of(errors[best], self->n_points)) best = way;
  }
  self->way = FIT_SUM;
  while (self->way < best && is_worse(errors[self->way], errors[best], self->n_points))
    self->way++;
}

/* Whether points that make a table are predicted better by the others as such than by a search. */
static bool follows(FitTask *self, Arena *arena) {
  double *errors[2];
  int *folds = ARENA_ARRAY(arena, int, self->n_points), n = 0;
  const int n_folds = make_folds(self, false, folds, arena);
  for (int table = 0; table < 2; table++) {
    self->table = table;
    errors[table] = ARENA_ARRAY(arena, double, self->n_points);
    n = errors_with(self, JUDGES_ALL, folds, n_folds, errors[table]);
  }
  return n > 0 && mean_of(errors[1], n) < mean_of(errors[0], n);
}

void fit_task_choose(FitTask *self, Arena *arena) {
  FitModel *model = ARENA_NEW(arena, FitModel); // more than a stack may grow by
  if (self->operators) {
    choose_way(self, arena);
    return;
  }
  const bool operators = self->op != PROFILE_ITERATION;
  const bool is = operators && self->grid && fit_is_table(self->points, self->n_points, self->grid);
  const bool can = is || (operators && fit_table_can(self->term, self->points, self->n_points));
  self->table = can && fit_table_build(model, self->term, self->points, self->n_points,
                                       self->grid == 0, arena);
  if (self->table && is) return;
  const bool makes_one = self->table;
  self->table = false;
  choose_plan(self, arena);
  if (makes_one) self->table = follows(self, arena);
}

/* ---- Scores ---- */

static void score_held_out(const FitTask *self, bool by_work, double *seconds, FitErrors *errors,
                           Arena *arena) {
  int *folds = ARENA_ARRAY(arena, int, self->n_points);
  int n_folds = make_folds(self, by_work, folds, arena);
  predict_held_out(self, folds, n_folds, seconds);
  for (int i = 0; i < self->n_points; i++)
    if (!isnan(seconds[i]))
      fit_errors_add(errors, self->op, &self->points[i].batch, self->points[i].seconds, seconds[i]);
}

static void shuffle(const ProfileRow **rows, int n, Rng *rng) {
  for (int i = n - 1; i > 0; i--) {
    int j = (int)rng_below(rng, (uint64_t)i + 1);
    const ProfileRow *row = rows[i];
    rows[i] = rows[j];
    rows[j] = row;
  }
}

/* A fifth of the rows by a fit to the others, as the Splitwise paper scores its model (§V-B). */
static void score_random(const FitTask *self, FitErrors *errors, Arena *arena) {
  Rng rng;
  rng_init(&rng, self->seed, "fit random splits");
  const ProfileRow **rows = ARENA_ARRAY(arena, const ProfileRow *, self->n_rows);
  FitPoint *points = ARENA_ARRAY(arena, FitPoint, self->n_rows);
  FitModel *model = ARENA_NEW(arena, FitModel);
  memcpy(rows, self->rows, (size_t)self->n_rows * sizeof *rows);
  int n_test = self->n_rows / 5;
  for (int split = 0; split < RANDOM_SPLITS; split++) {
    shuffle(rows, self->n_rows, &rng);
    int n_points = fit_task_points(self, rows + n_test, self->n_rows - n_test, points, arena);
    fit_task_build(self, points, n_points, model, NULL, arena);
    for (int i = 0; i < n_test; i++)
      fit_errors_add(errors, self->op, &rows[i]->batch, 1e-6 * rows[i]->median_us,
                     known_of(self, &rows[i]->batch) + fit_eval(model, self->op, &rows[i]->batch));
  }
}

void fit_task_score_held_out(FitTask *self, FitErrors *held_out, Arena *arena) {
  double *seconds = ARENA_ARRAY(arena, double, self->n_points + 1);
  score_held_out(self, false, seconds, held_out, arena);
  for (int i = 0; i < self->n_points; i++)
    self->points[i].held_out = seconds[i];
}

void fit_task_score(const FitTask *self, FitErrors *held_out_size, FitErrors *random,
                    Arena *arena) {
  double *seconds = ARENA_ARRAY(arena, double, self->n_points + 1);
  score_held_out(self, true, seconds, held_out_size, arena);
  score_random(self, random, arena);
}
