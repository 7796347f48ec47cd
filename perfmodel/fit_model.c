/* Curves as columns of a linear system: hats over knots, and the limits of physics. */
#include "perfmodel/fit_model.h"
#include "perfmodel/fit_solve.h"
#include <assert.h>
#include <math.h>

static const ProfileOp TERMS[] = {PROFILE_LINEAR, PROFILE_PREFILL_ATTENTION,
                                  PROFILE_DECODE_ATTENTION, PROFILE_HEAD};
enum { N_TERMS = sizeof TERMS / sizeof *TERMS };

int64_t fit_x(ProfileOp op, const BatchShape *batch) {
  switch (op) {
  case PROFILE_PREFILL_ATTENTION:
    return batch->prefill_area2;
  case PROFILE_DECODE_ATTENTION:
    return batch->context_tokens;
  case PROFILE_HEAD:
    return batch->prefill_tokens == 0 && batch->decode_seqs > 0 ? batch->decode_seqs
                                                                : batch->logit_seqs;
  default:
    return batch->prefill_tokens + batch->decode_seqs;
  }
}

int64_t fit_key(FitTerm term, const BatchShape *batch) {
  switch (term) {
  case FIT_PREFILL_ATTENTION:
    return batch->prefill_tokens;
  case FIT_DECODE_ATTENTION:
  case FIT_MIXED_ATTENTION:
    return batch->decode_seqs;
  default:
    return 1;
  }
}

int64_t fit_row_x(FitTerm term, const BatchShape *batch) {
  const int64_t key = fit_key(term, batch);
  const bool prefill = term == FIT_PREFILL_ATTENTION;
  if (key == 0 || term == FIT_LINEAR || term == FIT_HEAD) return fit_x((ProfileOp)term, batch);
  return mean_span(prefill ? batch->prefill_area2 : batch->context_tokens, key);
}

int64_t fit_row_knot(FitTerm term, int64_t x) {
  return term == FIT_PREFILL_ATTENTION ? x : (x + SPAN_STEPS / 2) / SPAN_STEPS * SPAN_STEPS;
}

bool fit_has_term(ProfileOp measured, ProfileOp op, const BatchShape *batch) {
  if (measured != PROFILE_ITERATION) return measured == op;
  if (op == PROFILE_PREFILL_ATTENTION) return batch->prefill_tokens > 0;
  if (op == PROFILE_DECODE_ATTENTION) return batch->decode_seqs > 0;
  return true;
}

/* ---- One curve ---- */

/* Where x falls: seconds(x) = (1 − share)·seconds[i] + share·seconds[i + 1]; the last line goes
 * on, left of the first knot its value holds. */
typedef struct Hat {
  int knot;
  double share;
} Hat;

static Hat curve_find(const FitCurve *self, int64_t x) {
  int i = 0;
  if (self->n_knots < 2 || x <= self->x[0]) return (Hat){0, 0};
  while (i + 2 < self->n_knots && x >= self->x[i + 1])
    i++;
  return (Hat){i, (double)(x - self->x[i]) / (double)(self->x[i + 1] - self->x[i])};
}

double fit_curve_eval(const FitCurve *self, int64_t x) {
  if (self->n_knots == 0) return 0;
  Hat hat = curve_find(self, x);
  double here = self->seconds[hat.knot];
  return hat.share == 0 ? here : here + hat.share * (self->seconds[hat.knot + 1] - here);
}

static int curve_columns(const FitCurve *self) {
  return self->n_knots - (self->n_knots > 0 && self->from_zero);
}

/* Adds factor·seconds(x) to a row of the system in which the curve's first column is `columns`. */
static void curve_fill(const FitCurve *self, int64_t x, double factor, double *columns) {
  if (self->n_knots == 0) return;
  Hat hat = curve_find(self, x);
  int first = hat.knot - self->from_zero;
  if (first >= 0) columns[first] += factor * (1 - hat.share);
  if (hat.share != 0) columns[first + 1] += factor * hat.share;
}

/* ---- The system ---- */

enum { N_TABLES = 3 };

static const FitTable *table_at(const FitModel *self, int t) {
  const FitTable *const tables[N_TABLES] = {&self->decode, &self->prefill, &self->mixed};
  return tables[t];
}

typedef struct Layout {
  int curve_first[PROFILE_TERMS], row_first[N_TABLES][FIT_ROWS_MAX];
  int n_columns; // the overhead's is the last where there is one
} Layout;

static Layout layout_of(const FitModel *self) {
  Layout layout = {.n_columns = 0};
  for (int t = 0; t < N_TERMS; t++) {
    layout.curve_first[TERMS[t]] = layout.n_columns;
    layout.n_columns += curve_columns(&self->curves[TERMS[t]]);
  }
  for (int t = 0; t < N_TABLES; t++) {
    const FitTable *table = table_at(self, t);
    for (int r = 0; r < table->n_rows; r++) {
      layout.row_first[t][r] = layout.n_columns;
      layout.n_columns += curve_columns(&table->rows[r].curve);
    }
  }
  layout.n_columns += self->has_overhead;
  return layout;
}

/* The row at or below a key, and how far that is on the way to the next: as a RowMix. */
static Hat rows_find(const FitTable *self, int64_t key) {
  int i = 0;
  if (self->n_rows == 1 || key <= self->rows[0].key) return (Hat){0, 0};
  while (i + 2 < self->n_rows && key > self->rows[i + 1].key)
    i++;
  return (Hat){i, (double)(key - self->rows[i].key) /
                      (double)(self->rows[i + 1].key - self->rows[i].key)};
}

static double table_eval(const FitTable *self, int64_t key, int64_t x) {
  Hat hat = rows_find(self, key);
  double lower = fit_curve_eval(&self->rows[hat.knot].curve, x);
  if (hat.share == 0) return lower;
  return lower + hat.share * (fit_curve_eval(&self->rows[hat.knot + 1].curve, x) - lower);
}

/* The table that a batch's term is looked up in, as table_at numbers them; −1: a curve. */
static int find_table(const FitModel *self, ProfileOp op, const BatchShape *batch,
                      FitTerm *ret_term) {
  const bool prefill = batch->prefill_tokens > 0;
  *ret_term = (FitTerm)op;
  if (op == PROFILE_PREFILL_ATTENTION && prefill && self->prefill.n_rows > 0) return 1;
  if (op != PROFILE_DECODE_ATTENTION) return -1;
  if (!prefill || self->mixed.n_rows == 0) return self->decode.n_rows > 0 ? 0 : -1;
  *ret_term = FIT_MIXED_ATTENTION;
  return 2;
}

static void term_fill(const FitModel *self, const Layout *layout, ProfileOp op,
                      const BatchShape *batch, double factor, double *columns) {
  FitTerm term;
  const int t = find_table(self, op, batch, &term);
  if (t < 0) {
    curve_fill(&self->curves[op], fit_x(op, batch), factor, columns + layout->curve_first[op]);
    return;
  }
  const FitTable *table = table_at(self, t);
  const int64_t x = fit_row_x(term, batch);
  Hat hat = rows_find(table, fit_key(term, batch));
  for (int side = 0; side < (hat.share == 0 ? 1 : 2); side++) {
    int row = hat.knot + side;
    double part = side ? hat.share : 1 - hat.share;
    curve_fill(&table->rows[row].curve, x, factor * part, columns + layout->row_first[t][row]);
  }
}

static double term_eval(const FitModel *self, ProfileOp op, const BatchShape *batch) {
  FitTerm term;
  const int t = find_table(self, op, batch, &term);
  if (t < 0) return fit_curve_eval(&self->curves[op], fit_x(op, batch));
  return table_eval(table_at(self, t), fit_key(term, batch), fit_row_x(term, batch));
}

double fit_eval(const FitModel *self, ProfileOp op, const BatchShape *batch) {
  double seconds = op == PROFILE_ITERATION ? self->overhead : 0;
  for (int t = 0; t < N_TERMS; t++)
    if (fit_has_term(op, TERMS[t], batch)) seconds += term_eval(self, TERMS[t], batch);
  return seconds;
}

double fit_point_eval(const FitModel *self, const FitPoint *point) {
  const bool both = point->op == PROFILE_DECODE_ATTENTION && point->batch.prefill_tokens > 0;
  return fit_eval(self, point->op, &point->batch) +
         (both ? fit_eval(self, PROFILE_PREFILL_ATTENTION, &point->batch) : 0);
}

/* ---- Limits ---- */

typedef struct Limits {
  double *rows;
  int count, n_columns;
} Limits;

static double *limits_next(Limits *self) {
  return &self->rows[self->count++ * self->n_columns];
}

static void curve_limits(const FitCurve *self, int first, Limits *limits) {
  for (int c = 0; c < curve_columns(self); c++) {
    double *limit = limits_next(limits);
    limit[first + c] = 1;
    if (c > 0) limit[first + c - 1] = -1;
  }
}

/* A curve and its first column. */
typedef struct Side {
  const FitCurve *curve;
  int first;
} Side;

/* Knots of both sides, ascending without repeats, and one x behind them. */
static int merge_knots(Side a, Side b, int64_t *ret_x) {
  int n = 0, i = 0, j = 0;
  while (i < a.curve->n_knots || j < b.curve->n_knots) {
    bool take_a = j == b.curve->n_knots || (i < a.curve->n_knots && a.curve->x[i] <= b.curve->x[j]);
    int64_t x = take_a ? a.curve->x[i++] : b.curve->x[j++];
    if (n == 0 || x > ret_x[n - 1]) ret_x[n++] = x;
  }
  ret_x[n] = 2 * ret_x[n - 1] + 1;
  return n + 1;
}

static void add_difference(Side above, Side below, int64_t x, double sign, double *limit) {
  curve_fill(above.curve, x, sign, limit + above.first);
  curve_fill(below.curve, x, -sign, limit + below.first);
}

/* `above` is nowhere below `below`, nor flatter behind their knots. Of the last pair it is nowhere
 * flatter: rows beyond go on by the difference of the two, and must not fall either. */
static void pair_limits(Side above, Side below, bool is_last, Limits *limits) {
  int64_t x[2 * FIT_KNOTS_MAX + 1];
  int n = merge_knots(above, below, x);
  for (int i = 0; i < n; i++) {
    if (i + 1 < n) add_difference(above, below, x[i], 1, limits_next(limits));
    if (i == 0 || (!is_last && i + 1 < n)) continue;
    double *limit = limits_next(limits);
    add_difference(above, below, x[i], 1, limit);
    add_difference(above, below, x[i - 1], -1, limit);
  }
}

/* Rows of decodes rise with their number. Of prefill any may be slower than the next, for kernels
 * of short queries are others, but for the last two: rows beyond go on by their difference. */
static void table_limits(const FitTable *self, const int *row_first, bool may_fall,
                         Limits *limits) {
  for (int r = 0; r < self->n_rows; r++) {
    Side row = {&self->rows[r].curve, row_first[r]};
    curve_limits(row.curve, row.first, limits);
    if (r == 0 || (may_fall && r + 1 < self->n_rows)) continue;
    Side before = {&self->rows[r - 1].curve, row_first[r - 1]};
    pair_limits(row, before, r + 1 == self->n_rows, limits);
  }
}

static Limits limits_of(const FitModel *self, const Layout *layout, Arena *arena) {
  int most = layout->n_columns; // one for each column, and those of pairs
  for (int t = 0; t < N_TABLES; t++) {
    const FitTable *table = table_at(self, t);
    for (int r = 1; r < table->n_rows; r++)
      most += 2 * (table->rows[r].curve.n_knots + table->rows[r - 1].curve.n_knots);
  }
  size_t room = (size_t)most * (size_t)layout->n_columns;
  Limits limits = {ARENA_ARRAY(arena, double, room), 0, layout->n_columns};
  for (int t = 0; t < N_TERMS; t++)
    curve_limits(&self->curves[TERMS[t]], layout->curve_first[TERMS[t]], &limits);
  for (int t = 0; t < N_TABLES; t++) {
    const FitTable *table = table_at(self, t);
    table_limits(table, layout->row_first[t], table == &self->prefill, &limits);
  }
  if (self->has_overhead) limits_next(&limits)[layout->n_columns - 1] = 1;
  assert(limits.count <= most);
  return limits;
}

/* ---- Solving ---- */

/* The row of a point, times the square root of its weight over its seconds: relative errors. */
static double point_fill(const FitModel *self, const Layout *layout, const FitPoint *point,
                         double *columns) {
  double weight = point->weight > 0 ? sqrt(point->weight) : 1, factor = weight / point->seconds;
  for (int t = 0; t < N_TERMS; t++)
    if (fit_has_term(point->op, TERMS[t], &point->batch))
      term_fill(self, layout, TERMS[t], &point->batch, factor, columns);
  if (self->has_overhead && point->op == PROFILE_ITERATION) columns[layout->n_columns - 1] = factor;
  return weight;
}

static void curve_set(FitCurve *self, const double *columns) {
  for (int c = 0; c < curve_columns(self); c++)
    self->seconds[c + self->from_zero] = columns[c] < 0 ? 0 : columns[c]; // −1e-20: rounding
}

double fit_model_solve(FitModel *self, const FitPoint *points, int n_points, Arena *arena) {
  Layout layout = layout_of(self);
  int p = layout.n_columns;
  double *rows = ARENA_ARRAY(arena, double, (size_t)n_points *(size_t)p);
  double *targets = ARENA_ARRAY(arena, double, n_points), *x = ARENA_ARRAY(arena, double, p);
  for (int i = 0; i < n_points; i++)
    targets[i] = point_fill(self, &layout, &points[i], &rows[i * p]);
  Limits limits = limits_of(self, &layout, arena);
  const FitSystem system = {n_points, p, limits.count, rows, targets, limits.rows};
  double squares = fit_solve(&system, x, NULL);
  for (int t = 0; t < N_TERMS; t++)
    curve_set(&self->curves[TERMS[t]], &x[layout.curve_first[TERMS[t]]]);
  FitTable *const tables[N_TABLES] = {&self->decode, &self->prefill, &self->mixed};
  for (int t = 0; t < N_TABLES; t++)
    for (int r = 0; r < tables[t]->n_rows; r++)
      curve_set(&tables[t]->rows[r].curve, &x[layout.row_first[t][r]]);
  if (self->has_overhead) self->overhead = fmax(0, x[p - 1]);
  return squares;
}
