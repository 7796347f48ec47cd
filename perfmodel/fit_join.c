/* Ways from operators to iterations; all are linear in what they look for. */
#include "perfmodel/fit_join.h"
#include "perfmodel/fit_solve.h"
#include "perfmodel/fit_table.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Iterations miss their model by some 3%, operators their share of an iteration by 10%: a level
 * that departs by so much from 1 costs as much as one row missed. */
static const double PULL = 0.3;
/* Of a knot that an operator was measured at beside those that iterations leave. */
static const double OPERATOR_WEIGHT = 1000;
/* Of all iterations together, as a multiple of that of all operators. */
static const double ITERATIONS_WEIGHT[FIT_WAYS] = {[FIT_JOINT] = 4, [FIT_LED] = 40};

const char *fit_way_name(FitWay way) {
  static const char *const names[FIT_WAYS] = {[FIT_SUM] = "sum",
                                              [FIT_FILLED] = "filled",
                                              [FIT_LEVELS] = "levels",
                                              [FIT_JOINT] = "joint",
                                              [FIT_LED] = "led"};
  assert(way >= 0 && way < FIT_WAYS);
  return names[way];
}

static bool was_measured(const FitOperators *self, ProfileOp op, int64_t x) {
  int i = 0;
  while (i < self->n_points && (self->points[i].op != op || fit_x(op, &self->points[i].batch) != x))
    i++;
  return i < self->n_points;
}

/* Least squares over what the terms leave; with `operators` of iterations whose products were
 * measured. */
static void find_overhead(FitModel *self, const FitOperators *operators, const FitPoint *iterations,
                          int n) {
  double rest = 0, weights = 1e-300;
  for (int i = 0; i < n; i++) {
    const FitPoint *point = &iterations[i];
    if (operators && !was_measured(operators, PROFILE_LINEAR, fit_x(PROFILE_LINEAR, &point->batch)))
      continue;
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

/* ---- Knots where only iterations have been ---- */

typedef struct Knot {
  int64_t x;
  double seconds, weight; // that of operators is more
} Knot;

static int compare_knots(const void *a, const void *b) {
  const Knot *s = a, *t = b;
  if (s->x != t->x) return s->x < t->x ? -1 : 1;
  return (s->weight < t->weight) - (s->weight > t->weight);
}

/* Each x once: as operators have it, or the mean of iterations. Returns how many. */
static int merge_knots(Knot *knots, int n) {
  int kept = 0;
  qsort(knots, (size_t)n, sizeof *knots, compare_knots);
  for (int i = 0; i < n; i++) {
    Knot *last = kept > 0 ? &knots[kept - 1] : NULL;
    if (!last || last->x != knots[i].x) {
      knots[kept++] = knots[i];
    } else if (last->weight < OPERATOR_WEIGHT) {
      last->seconds += (knots[i].seconds - last->seconds) / (last->weight + 1);
      last->weight += 1;
    }
  }
  return kept;
}

/* The operator's own times stay. */
static void fill_linear(FitModel *self, const FitOperators *operators, const FitPoint *iterations,
                        int n, Arena *arena) {
  FitCurve *linear = &self->curves[PROFILE_LINEAR];
  Knot *knots = ARENA_ARRAY(arena, Knot, n + operators->n_points + linear->n_knots);
  int count = 0;
  for (; count < linear->n_knots; count++)
    knots[count] = (Knot){linear->x[count], linear->seconds[count], OPERATOR_WEIGHT};
  for (int i = 0; i < operators->n_points; i++) {
    const FitPoint *point = &operators->points[i];
    if (point->op == PROFILE_LINEAR)
      knots[count++] =
          (Knot){fit_x(PROFILE_LINEAR, &point->batch), point->seconds, 2 * OPERATOR_WEIGHT};
  }
  for (int i = 0; i < n; i++) {
    const BatchShape *batch = &iterations[i].batch;
    const double others =
        fit_eval(self, PROFILE_ITERATION, batch) - fit_eval(self, PROFILE_LINEAR, batch);
    const int64_t x = fit_x(PROFILE_LINEAR, batch);
    if (x > linear->x[0] && x < linear->x[linear->n_knots - 1])
      knots[count++] = (Knot){x, iterations[i].seconds - others, 1};
  }
  count = merge_knots(knots, count);
  double *seconds = ARENA_ARRAY(arena, double, count), *weight = ARENA_ARRAY(arena, double, count);
  if (count > FIT_KNOTS_MAX) return;
  for (int k = 0; k < count; k++) {
    linear->x[k] = knots[k].x;
    seconds[k] = fmax(0, knots[k].seconds);
    weight[k] = knots[k].weight / fmax(1e-18, seconds[k] * seconds[k]);
  }
  fit_pool(seconds, weight, count, 1);
  memcpy(linear->seconds, seconds, (size_t)count * sizeof *seconds);
  linear->n_knots = count;
}

/* ---- All knots again ---- */

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
  if (way == FIT_SUM || way == FIT_FILLED)
    find_overhead(ret_model, way == FIT_FILLED ? operators : NULL, iterations, n_iterations);
  else
    find_levels(ret_model, ret_levels, iterations, n_iterations, arena);
  if (way == FIT_FILLED) fill_linear(ret_model, operators, iterations, n_iterations, arena);
  if (ITERATIONS_WEIGHT[way] > 0)
    solve_together(ret_model, ret_levels, operators, ITERATIONS_WEIGHT[way], iterations,
                   n_iterations, arena);
}
