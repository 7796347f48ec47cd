/* A fit from end to end: which rows serve which terms, how many knots, the scores. */
#include "perfmodel/fit.h"
#include "perfmodel/fit_compose.h"
#include "perfmodel/fit_table.h"
#include "perfmodel/fit_task.h"
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Scores ---- */

static void score_train(const FitResult *self, FitErrors *errors) {
  for (int i = 0; i < self->n_points; i++) {
    const FitPoint *point = &self->points[i];
    fit_errors_add(errors, point->op, &point->batch, point->seconds,
                   fit_point_eval(&self->model, point));
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

static int grid_of(const Profile *profile, FitTerm term) {
  const char *grid = profile_fact(profile, "grid");
  const bool is_curve = term == FIT_LINEAR || term == FIT_HEAD;
  if (!grid) return 0;
  return is_curve && strcmp(grid, fit_grid_few) == 0 ? FIT_GRID_FEW : FIT_GRID_POINTS;
}

static FitTask task_of(FitResult *self, FitRows *rows, FitTerm term, Arena *arena) {
  const bool mixed = term == FIT_MIXED_ATTENTION;
  FitTask task = {.op = mixed ? PROFILE_DECODE_ATTENTION : (ProfileOp)term,
                  .term = term,
                  .prefill = mixed ? &self->model : NULL,
                  .grid = grid_of(rows->profile, term),
                  .rows = ARENA_ARRAY(arena, const ProfileRow *, self->group.n_rows),
                  .points = ARENA_ARRAY(arena, FitPoint, self->group.n_rows),
                  .seed = self->options.seed};
  if (term == FIT_HEAD && task.grid == 0 && fit_join_ways(&self->model) == FIT_JOINT)
    task.linear = &self->model.curves[PROFILE_LINEAR]; // elsewhere iterations find all knots again
  task.n_rows = fit_rows_of(rows, term, task.rows);
  task.n_points = fit_task_points(&task, task.rows, task.n_rows, task.points, arena);
  return task;
}

typedef struct Errors {
  FitErrors train, random, held_out, held_out_size;
} Errors;

static void score(const FitResult *self, FitTask *task, Errors *errors, Arena *arena) {
  fit_task_score_held_out(task, &errors->held_out, arena);
  if (!self->options.held_out_alone)
    fit_task_score(task, &errors->held_out_size, &errors->random, arena);
}

/* Fits the terms of a task into the model. */
static void fit_terms(FitResult *self, FitTask *task, Errors *errors, Arena *arena) {
  FitModel fitted;
  fit_task_choose(task, arena);
  self->tables |= task->table;
  fit_task_build(task, task->points, task->n_points, &fitted, NULL, arena);
  for (int op = 0; op < PROFILE_TERMS; op++)
    if (fitted.curves[op].n_knots > 0) self->model.curves[op] = fitted.curves[op];
  if (fitted.decode.n_rows > 0) self->model.decode = fitted.decode;
  if (fitted.prefill.n_rows > 0) self->model.prefill = fitted.prefill;
  if (fitted.mixed.n_rows > 0) self->model.mixed = fitted.mixed;
  score(self, task, errors, arena);
}

/* Joins iterations, if any were measured, to the model of the operators. */
static void fit_iterations(FitResult *self, FitTask *task, Errors *errors, Arena *arena) {
  const FitModel operators = self->model;
  const FitOperators beside = {&operators, self->points, self->n_points};
  if (task->n_points == 0 || self->options.ideal) return;
  self->joined = true;
  task->operators = &beside;
  fit_task_choose(task, arena);
  fit_task_build(task, task->points, task->n_points, &self->model, &self->levels, arena);
  score(self, task, errors, arena);
  self->way = task->way;
  task->operators = NULL;
}

static void keep_points(FitResult *self, const FitTask *task) {
  memcpy(self->points + self->n_points, task->points,
         (size_t)task->n_points * sizeof *self->points);
  self->n_points += task->n_points;
}

static int check_points(const FitResult *self, const Profile *profile, const FitTask *task,
                        Diag *diag) {
  if (task->n_points >= 2) return 0;
  const ProfileGroup *group = &self->group;
  return diag_error(diag, place_of_file(profile->path),
                    "'%s' of '%s' on '%s' with tensor_parallel_size %d has %d usable "
                    "configuration%s; a fit needs two",
                    profile_op_name(task->op), group->model, group->gpu,
                    (int)group->tensor_parallel_size, task->n_points,
                    task->n_points == 1 ? "" : "s");
}

/* The operators, each apart. Sets `whole` where there are none. */
static int fit_operators(FitResult *self, FitRows *rows, Errors *errors, Arena *arena, Diag *diag) {
  self->whole = true;
  if (fit_rows_drop_incomplete(rows)) return 0;
  static const FitTerm terms[] = {FIT_LINEAR, FIT_PREFILL_ATTENTION, FIT_DECODE_ATTENTION, FIT_HEAD,
                                  FIT_MIXED_ATTENTION}; // after those that are known to it
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
    FitTask task = task_of(self, rows, terms[i], arena);
    if (task.n_rows == 0) continue;
    self->whole = false;
    if (check_points(self, rows->profile, &task, diag)) return -1;
    fit_terms(self, &task, errors, arena);
    keep_points(self, &task);
  }
  if (self->whole || self->model.curves[PROFILE_LINEAR].n_knots > 0) return 0;
  return diag_error(
      diag, place_of_file(rows->profile->path),
      "'%s' on '%s' with tensor_parallel_size %d has operators but no row of 'linear'",
      self->group.model, self->group.gpu, (int)self->group.tensor_parallel_size);
}

/* Iterations that were not measured as such, by what operators held out make of them. */
static void score_composed(FitResult *self, const Profile *profile, FitErrors *held_out) {
  const char *factor = profile_fact(profile, "mixed_attention_factor");
  fit_compose_score(self->points, self->n_points, factor ? strtod(factor, NULL) : 1,
                    self->options.seed, held_out);
  for (FitPart part = FIT_PREFILL; part <= FIT_ALL_ITERATIONS; part++)
    self->parts[part].configurations = (int64_t)held_out->parts[part].n;
}

static void keep_rows(FitResult *self, const FitRows *rows) {
  self->left_out = rows->left_out;
  self->n_sustained = fit_rows_sustained(rows, self->sustained);
  self->all_reduce = rows->all_reduce_source;
  self->lacks_all_reduce = rows->lacks_all_reduce;
}

int fit_group(FitResult *self, const Profile *profile, const ProfileGroup *group,
              const FitOptions *options, Arena *arena, Diag *diag) {
  gsl_set_error_handler_off(); // a matrix without full rank gives what the solver checks
  *self = (FitResult){.group = *group, .options = *options};
  self->points = ARENA_ARRAY(arena, FitPoint, group->n_rows);
  self->sustained = ARENA_ARRAY(arena, FitSustained, group->n_rows);
  Errors errors = {{.arena = arena}, {.arena = arena}, {.arena = arena}, {.arena = arena}};
  FitRows rows;
  fit_rows_init(&rows, profile, group, options->mode ? options->mode : "graph",
                &options->all_reduce, arena);
  if (fit_operators(self, &rows, &errors, arena, diag)) return -1;
  FitTask iterations = task_of(self, &rows, (FitTerm)PROFILE_ITERATION, arena);
  if (!self->whole) {
    fit_iterations(self, &iterations, &errors, arena);
  } else {
    if (check_points(self, profile, &iterations, diag)) return -1;
    fit_terms(self, &iterations, &errors, arena);
  }
  keep_points(self, &iterations);
  keep_rows(self, &rows);
  count_parts(self);
  if (iterations.n_points == 0) score_composed(self, profile, &errors.held_out);
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
