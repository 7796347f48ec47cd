/* A fit from end to end: which rows serve which terms, how many knots, the scores. */
#include "perfmodel/fit.h"
#include "perfmodel/fit_score.h"
#include "sim/base/rng.h"
#include <gsl/gsl_errno.h>
#include <math.h>
#include <string.h>

enum { RANDOM_SPLITS = 5, PREFILL_SEGMENTS_MAX = 5, DECODE_SEGMENTS_MAX = 3 };

/* Terms that are fitted together, and what they are fitted to. */
typedef struct System {
  ProfileOp op; // PROFILE_ITERATION: all terms that whole iterations tell apart
  const ProfileRow **rows;
  int n_rows;
  FitPoint *points;
  int n_points;
  FitPlan plan;
  uint64_t seed;
} System;

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
    return system == PROFILE_HEAD ? FIT_SEGMENTS_MAX : 0; // else in `linear`
  default:
    return system == term ? FIT_SEGMENTS_MAX : 1; // one slope tells long prompts apart
  }
}

/* ---- Held-out errors ---- */

/* Predicts each point by a fit to the other folds; NAN where nothing would be left. */
static void predict_held_out(const System *self, const FitPlan *plan, const int *folds, int n_folds,
                             double *ret_seconds) {
  Arena scratch;
  arena_init(&scratch);
  FitPoint *kept = ARENA_ARRAY(&scratch, FitPoint, self->n_points + 1);
  FitModel *model = ARENA_NEW(&scratch, FitModel);
  for (int fold = 0; fold < n_folds; fold++) {
    int n = 0;
    for (int i = 0; i < self->n_points; i++)
      if (folds[i] != fold) kept[n++] = self->points[i];
    if (n > 0) fit_build(model, kept, n, plan, &scratch);
    for (int i = 0; i < self->n_points; i++)
      if (folds[i] == fold)
        ret_seconds[i] = n > 0 ? fit_eval(model, self->op, &self->points[i].batch) : NAN;
  }
  arena_done(&scratch);
}

/* The points themselves as keys of folds, or how much work they are. */
static int make_folds(const System *self, bool by_work, int *ret_folds, Arena *arena) {
  int64_t *keys = ARENA_ARRAY(arena, int64_t, self->n_points + 1);
  for (int i = 0; i < self->n_points; i++) {
    const BatchShape *batch = &self->points[i].batch;
    ProfileOp op = self->op == PROFILE_ITERATION ? PROFILE_LINEAR : self->op;
    keys[i] = by_work ? fit_x(op, batch) : i;
  }
  return fit_folds(keys, self->n_points, self->seed, ret_folds, arena);
}

/* ---- How many knots ---- */

/* Whether a point is one of those that the number of knots is judged by: decodes only, or the
 * others. */
static bool is_judge(const System *self, int point, bool decodes) {
  bool is_decode = self->op == PROFILE_ITERATION && self->points[point].batch.prefill_tokens == 0;
  return is_decode == decodes;
}

/* Relative errors on held-out configurations. Returns how many; those for which nothing would be
 * left to fit to do not count. */
static int errors_with(const System *self, bool decodes, const int *folds, int n_folds,
                       double *ret_errors) {
  int n = 0;
  predict_held_out(self, &self->plan, folds, n_folds, ret_errors);
  for (int i = 0; i < self->n_points; i++)
    if (is_judge(self, i, decodes) && !isnan(ret_errors[i]))
      ret_errors[n++] = fabs(ret_errors[i] / self->points[i].seconds - 1);
  return n;
}

/* Whether a fit to all misses by more than twice the noise of the replicates, if that is known. */
static bool is_coarse(const System *self, bool decodes, Arena *arena) {
  double missed = 0, noise = 0;
  FitModel model;
  fit_build(&model, self->points, self->n_points, &self->plan, arena);
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *point = &self->points[i];
    if (!is_judge(self, i, decodes)) continue;
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
static void choose_segments(System *self, int *segments, int most, bool decodes, const int *folds,
                            int n_folds, Arena *arena) {
  double *errors[FIT_SEGMENTS_MAX + 1];
  int best = 1, n = 0;
  for (int k = 1; k <= most; k++) {
    errors[k] = ARENA_ARRAY(arena, double, self->n_points);
    *segments = k;
    n = errors_with(self, decodes, folds, n_folds, errors[k]);
    if (n == 0) break;
    if (mean_of(errors[k], n) < mean_of(errors[best], n)) best = k;
  }
  *segments = 1;
  while (*segments < best &&
         (is_worse(errors[*segments], errors[best], n) || is_coarse(self, decodes, arena)))
    ++*segments;
}

static void choose_plan(System *self, Arena *arena) {
  int *folds = ARENA_ARRAY(arena, int, self->n_points);
  int n_folds = make_folds(self, false, folds, arena);
  bool whole = self->op == PROFILE_ITERATION;
  for (int op = 0; op < PROFILE_OPS; op++)
    self->plan.segments[op] = segments_most(self->op, (ProfileOp)op) > 0;
  self->plan.decode_segments = whole;
  for (int op = 0; op < PROFILE_OPS; op++) {
    int most = segments_most(self->op, (ProfileOp)op);
    bool decodes = whole && op == PROFILE_DECODE_ATTENTION;
    if (most > 1)
      choose_segments(self, &self->plan.segments[op], most, decodes, folds, n_folds, arena);
  }
  if (whole)
    choose_segments(self, &self->plan.decode_segments, DECODE_SEGMENTS_MAX, true, folds, n_folds,
                    arena);
}

/* ---- Scores ---- */

static void score_held_out(const System *self, bool by_work, FitErrors *errors, Arena *arena) {
  int *folds = ARENA_ARRAY(arena, int, self->n_points);
  double *seconds = ARENA_ARRAY(arena, double, self->n_points);
  int n_folds = make_folds(self, by_work, folds, arena);
  predict_held_out(self, &self->plan, folds, n_folds, seconds);
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
static void score_random(const System *self, FitErrors *errors, Arena *arena) {
  Rng rng;
  rng_init(&rng, self->seed, "fit random splits");
  const ProfileRow **rows = ARENA_ARRAY(arena, const ProfileRow *, self->n_rows);
  FitPoint *points = ARENA_ARRAY(arena, FitPoint, self->n_rows);
  FitModel *model = ARENA_NEW(arena, FitModel);
  memcpy(rows, self->rows, (size_t)self->n_rows * sizeof *rows);
  int n_test = self->n_rows / 5;
  for (int split = 0; split < RANDOM_SPLITS; split++) {
    shuffle(rows, self->n_rows, &rng);
    int n_points = fit_points(rows + n_test, self->n_rows - n_test, points, arena);
    fit_build(model, points, n_points, &self->plan, arena);
    for (int i = 0; i < n_test; i++)
      fit_errors_add(errors, self->op, &rows[i]->batch, 1e-6 * rows[i]->median_us,
                     fit_eval(model, self->op, &rows[i]->batch));
  }
}

static void score_train(const FitResult *self, FitErrors *errors) {
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *point = &self->points[i];
    fit_errors_add(errors, point->op, &point->batch, point->seconds,
                   fit_eval(&self->model, point->op, &point->batch));
  }
}

/* Rows, configurations and noise of each part. */
static void count_parts(FitResult *self) {
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *point = &self->points[i];
    FitPart parts[] = {fit_part(point->op, &point->batch), FIT_ALL_ITERATIONS};
    for (int k = 0; k < (point->op == PROFILE_ITERATION ? 2 : 1); k++) {
      FitPartScores *scores = &self->parts[parts[k]];
      scores->rows += point->rows;
      scores->configurations++;
      scores->noise += (point->spread * (double)point->rows - scores->noise * (double)point->rows) /
                       (double)scores->rows;
    }
  }
}

/* ---- From a profile ---- */

/* Where generation stopped early the context of the decodes is unknown; their prompts are sound. */
static bool is_used(const ProfileRow *row) {
  return row->batch.decode_seqs == 0 || strcmp(row->stop, "early_stop") != 0;
}

static System system_of(FitResult *self, const Profile *profile, ProfileOp op, Arena *arena) {
  System system = {.op = op,
                   .rows = ARENA_ARRAY(arena, const ProfileRow *, self->group.n_rows),
                   .points = ARENA_ARRAY(arena, FitPoint, self->group.n_rows),
                   .seed = self->options.seed};
  for (size_t i = 0; i < profile->n_rows; i++) {
    const ProfileRow *row = &profile->rows[i];
    if (row->op != op || !profile_in_group(row, &self->group)) continue;
    if (is_used(row))
      system.rows[system.n_rows++] = row;
    else
      self->unused++;
  }
  system.n_points = fit_points(system.rows, system.n_rows, system.points, arena);
  return system;
}

typedef struct Errors {
  FitErrors train, random, held_out, held_out_size;
} Errors;

/* Fits the terms of a system into the model. */
static void fit_system(FitResult *self, System *system, Errors *errors, Arena *arena) {
  choose_plan(system, arena);
  FitModel fitted;
  fit_build(&fitted, system->points, system->n_points, &system->plan, arena);
  for (int op = 0; op < PROFILE_OPS; op++)
    if (fitted.curves[op].n_knots > 0) self->model.curves[op] = fitted.curves[op];
  if (fitted.n_rows > 0) {
    memcpy(self->model.rows, fitted.rows, sizeof fitted.rows);
    self->model.n_rows = fitted.n_rows;
  }
  score_held_out(system, false, &errors->held_out, arena);
  score_held_out(system, true, &errors->held_out_size, arena);
  score_random(system, &errors->random, arena);
}

enum { PRESET_SEQS = 1024 };

/* Over what the terms leave of whole iterations, least squares again; a preset's where none was
 * measured. */
static void fit_overhead(FitResult *self, const System *iterations) {
  double rest = 0, weights = 0;
  FitCurve *head = &self->model.curves[PROFILE_HEAD];
  if (self->options.ideal) return;
  for (int i = 0; i < iterations->n_points; i++) {
    const FitPoint *point = &iterations->points[i];
    double weight = 1 / (point->seconds * point->seconds);
    rest += weight * (point->seconds - fit_eval(&self->model, PROFILE_ITERATION, &point->batch));
    weights += weight;
  }
  if (iterations->n_points > 0) {
    self->model.overhead = fmax(0, rest / weights);
    return;
  }
  self->model.overhead = self->options.overhead;
  if (head->n_knots == 0 && self->options.per_sequence > 0) // a line that holds for any batch
    *head = (FitCurve){
        .n_knots = 2, .from_zero = true, .x = {0, PRESET_SEQS}, .low = 1, .high = PRESET_SEQS};
  for (int k = 0; k < head->n_knots; k++)
    head->seconds[k] += self->options.per_sequence * (double)head->x[k];
}

static void keep_points(FitResult *self, const System *system) {
  memcpy(self->points + self->n_points, system->points,
         (size_t)system->n_points * sizeof *self->points);
  self->n_points += system->n_points;
}

static int check_points(const FitResult *self, const Profile *profile, const System *system,
                        Diag *diag) {
  if (system->n_points >= 2) return 0;
  const ProfileGroup *group = &self->group;
  return diag_error(diag, place_of_file(profile->path),
                    "'%s' of %s on %s with tensor_parallel_size %d has %d usable configuration%s; "
                    "a fit needs two",
                    profile_op_name(system->op), group->model, group->gpu,
                    (int)group->tensor_parallel_size, system->n_points,
                    system->n_points == 1 ? "" : "s");
}

/* The operators' systems, each apart. Sets `whole` where there are none. */
static int fit_operators(FitResult *self, const Profile *profile, Errors *errors, Arena *arena,
                         Diag *diag) {
  self->whole = true;
  for (int op = PROFILE_ITERATION + 1; op < PROFILE_OPS; op++) {
    System system = system_of(self, profile, (ProfileOp)op, arena);
    if (system.n_rows == 0) continue;
    self->whole = false;
    if (check_points(self, profile, &system, diag)) return -1;
    fit_system(self, &system, errors, arena);
    keep_points(self, &system);
  }
  if (self->whole || self->model.curves[PROFILE_LINEAR].n_knots > 0) return 0;
  return diag_error(diag, place_of_file(profile->path),
                    "%s on %s with tensor_parallel_size %d has operators but no row of 'linear'",
                    self->group.model, self->group.gpu, (int)self->group.tensor_parallel_size);
}

int fit_group(FitResult *self, const Profile *profile, const ProfileGroup *group,
              const FitOptions *options, Arena *arena, Diag *diag) {
  gsl_set_error_handler_off(); // a matrix without full rank gives what the solver checks
  *self = (FitResult){.group = *group, .options = *options};
  self->points = ARENA_ARRAY(arena, FitPoint, group->n_rows);
  Errors errors = {{.arena = arena}, {.arena = arena}, {.arena = arena}, {.arena = arena}};
  if (fit_operators(self, profile, &errors, arena, diag)) return -1;
  System iterations = system_of(self, profile, PROFILE_ITERATION, arena);
  if (!self->whole) {
    fit_overhead(self, &iterations);
  } else {
    if (check_points(self, profile, &iterations, diag)) return -1;
    fit_system(self, &iterations, &errors, arena);
  }
  keep_points(self, &iterations);
  count_parts(self);
  score_train(self, &errors.train);
  for (int part = 0; part < FIT_PARTS; part++) {
    FitPartScores *scores = &self->parts[part];
    scores->train = fit_errors_score(&errors.train, (FitPart)part);
    scores->random = fit_errors_score(&errors.random, (FitPart)part);
    scores->held_out = fit_errors_score(&errors.held_out, (FitPart)part);
    scores->held_out_size = fit_errors_score(&errors.held_out_size, (FitPart)part);
  }
  return 0;
}
