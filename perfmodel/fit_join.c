/* Ways from operators to iterations; all are linear in what they look for. */
#include "perfmodel/fit_join.h"
#include "perfmodel/fit_solve.h"
#include <assert.h>
#include <math.h>
#include <string.h>

/* Iterations miss their model by some 3%, operators their share of an iteration by 10%: a level
 * that departs by so much from 1 costs as much as one row missed. */
static const double PULL = 0.3;
/* Of all iterations together, as a multiple of that of all operators. */
static const double ITERATIONS_WEIGHT[FIT_WAYS] = {[FIT_JOINT] = 4, [FIT_LED] = 40};

const char *fit_way_name(FitWay way) {
  static const char *const names[FIT_WAYS] = {
      [FIT_SUM] = "sum", [FIT_LEVELS] = "levels", [FIT_JOINT] = "joint", [FIT_LED] = "led"};
  assert(way >= 0 && way < FIT_WAYS);
  return names[way];
}

/* Least squares over what the terms leave. */
static void find_overhead(FitModel *self, const FitPoint *iterations, int n) {
  double rest = 0, weights = 0;
  for (int i = 0; i < n; i++) {
    const FitPoint *point = &iterations[i];
    double weight = 1 / (point->seconds * point->seconds);
    rest += weight * (point->seconds - fit_eval(self, PROFILE_ITERATION, &point->batch));
    weights += weight;
  }
  self->overhead = fmax(0, rest / weights);
}

static void curve_scale(FitCurve *self, double factor) {
  for (int k = 0; k < self->n_knots; k++)
    self->seconds[k] *= factor;
}

static void table_scale(FitTable *self, double factor) {
  for (int r = 0; r < self->n_rows; r++)
    curve_scale(&self->rows[r].curve, factor);
}

/* One column for each term, the first for the overhead; after the iterations a row for each term
 * that pulls its level to 1. */
static void find_levels(FitModel *self, FitLevels *levels, const FitPoint *iterations, int n,
                        Arena *arena) {
  enum { COLUMNS = PROFILE_TERMS };
  double *rows = ARENA_ARRAY(arena, double, (n + COLUMNS) * COLUMNS);
  double *targets = ARENA_ARRAY(arena, double, n + COLUMNS);
  double limits[COLUMNS * COLUMNS] = {0}, x[COLUMNS];
  for (int i = 0; i < n; i++) {
    const FitPoint *point = &iterations[i];
    double *row = &rows[i * COLUMNS];
    row[0] = 1 / point->seconds;
    for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++)
      if (fit_has_term(PROFILE_ITERATION, (ProfileOp)op, &point->batch))
        row[op] = fit_eval(self, (ProfileOp)op, &point->batch) / point->seconds;
    targets[i] = 1;
  }
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++)
    rows[(n + op) * COLUMNS + op] = targets[n + op] = PULL;
  for (int c = 0; c < COLUMNS; c++)
    limits[c * COLUMNS + c] = 1;
  const FitSystem system = {n + COLUMNS, COLUMNS, COLUMNS, rows, targets, limits};
  fit_solve(&system, x, NULL);
  self->overhead = fmax(0, x[0]);
  for (int op = PROFILE_LINEAR; op < PROFILE_TERMS; op++) {
    levels->of[op] = fmax(0, x[op]);
    curve_scale(&self->curves[op], levels->of[op]);
  }
  table_scale(&self->decode, levels->of[PROFILE_DECODE_ATTENTION]);
  table_scale(&self->mixed, levels->of[PROFILE_DECODE_ATTENTION]);
  table_scale(&self->prefill, levels->of[PROFILE_PREFILL_ATTENTION]);
}

/* Errors of operators count by what they are of the iteration that such a batch makes: only sums of
 * terms are ever predicted. */
static double share_of_iteration(const FitModel *self, const FitPoint *point) {
  return point->seconds / fmax(point->seconds, fit_eval(self, PROFILE_ITERATION, &point->batch));
}

static void solve_together(FitModel *self, const FitLevels *levels, const FitOperators *operators,
                           double weight, const FitPoint *iterations, int n, Arena *arena) {
  const int n_operators = operators->n_points;
  FitPoint *points = ARENA_ARRAY(arena, FitPoint, n_operators + n);
  memcpy(points, operators->points, (size_t)n_operators * sizeof *points);
  memcpy(points + n_operators, iterations, (size_t)n * sizeof *points);
  for (int i = 0; i < n_operators; i++) {
    const double share = share_of_iteration(self, &points[i]);
    points[i].seconds *= levels->of[points[i].op];
    points[i].weight = share * share;
  }
  for (int i = 0; i < n; i++)
    points[n_operators + i].weight = fmax(1, weight * n_operators / n);
  self->has_overhead = true;
  fit_model_solve(self, points, n_operators + n, arena);
  self->has_overhead = false;
}

FitWay fit_join_ways(const FitModel *operators) {
  return operators->prefill.n_rows > 0 || operators->mixed.n_rows > 0 ? FIT_JOINT : FIT_WAYS;
}

void fit_join(FitModel *ret_model, FitLevels *ret_levels, const FitOperators *operators, FitWay way,
              const FitPoint *iterations, int n_iterations, Arena *arena) {
  *ret_model = *operators->model;
  for (int op = 0; op < PROFILE_TERMS; op++)
    ret_levels->of[op] = 1;
  if (way == FIT_SUM)
    find_overhead(ret_model, iterations, n_iterations);
  else
    find_levels(ret_model, ret_levels, iterations, n_iterations, arena);
  if (ITERATIONS_WEIGHT[way] > 0)
    solve_together(ret_model, ret_levels, operators, ITERATIONS_WEIGHT[way], iterations,
                   n_iterations, arena);
}
