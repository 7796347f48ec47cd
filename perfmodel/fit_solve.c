/* The solver behind fit_solve.h. All matrices are views into a scratch arena. */
#include "perfmodel/fit_solve.h"
#include "base/arena.h"
#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A limit counts as broken beyond this share of the length of its terms: rounding. */
static const double SLACK = 1e-12;

typedef struct Matrix {
  int rows, columns;
  double *at; // row by row
} Matrix;

static Matrix matrix_new(int rows, int columns, Arena *arena) {
  return (Matrix){rows, columns, ARENA_ARRAY(arena, double, rows *columns)};
}

static gsl_matrix_view matrix_view(const Matrix *self, int rows) {
  return gsl_matrix_view_array_with_tda(self->at, (size_t)rows, (size_t)self->columns,
                                        (size_t)self->columns);
}

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

static double column_length(const Matrix *self, int column) {
  double sum = 0;
  for (int i = 0; i < self->rows; i++)
    sum += self->at[i * self->columns + column] * self->at[i * self->columns + column];
  return sqrt(sum);
}

/* ---- Non-negative least squares: |matrix·u − target|, u >= 0 ---- */

typedef struct ActiveSet {
  const Matrix *matrix;
  const double *target;
  double *u, *trial, *residual;
  double *part, *tau; // the passive columns and their reflections, of every solution in turn
  int *passive;       // columns that may be positive
  int n_passive;
} ActiveSet;

/* The free solution over the passive columns, into `trial`. */
static void passive_solve(ActiveSet *self) {
  const Matrix *all = self->matrix;
  const Matrix part = {all->rows, self->n_passive, self->part};
  for (int i = 0; i < all->rows; i++)
    for (int k = 0; k < self->n_passive; k++)
      part.at[i * self->n_passive + k] = all->at[i * all->columns + self->passive[k]];
  gsl_matrix_view a = matrix_view(&part, all->rows);
  gsl_vector_view tau = gsl_vector_view_array(self->tau, (size_t)self->n_passive);
  gsl_vector_const_view b = gsl_vector_const_view_array(self->target, (size_t)all->rows);
  gsl_vector_view x = gsl_vector_view_array(self->trial, (size_t)self->n_passive);
  gsl_vector_view rest = gsl_vector_view_array(self->residual, (size_t)all->rows);
  gsl_linalg_QR_decomp(&a.matrix, &tau.vector);
  gsl_linalg_QR_lssolve(&a.matrix, &tau.vector, &b.vector, &x.vector, &rest.vector);
}

/* Moves `u` towards the trial until the first passive column reaches 0, and drops those there.
 * False once the trial itself was reached. */
static bool step_towards_trial(ActiveSet *self) {
  double step = 1;
  for (int k = 0; k < self->n_passive; k++) {
    double from = self->u[self->passive[k]], to = self->trial[k];
    if (to <= 0 && from / (from - to) < step) step = from > 0 ? from / (from - to) : 0;
  }
  int kept = 0;
  for (int k = 0; k < self->n_passive; k++) {
    int column = self->passive[k];
    double *u = &self->u[column];
    *u += step * (self->trial[k] - *u);
    if (self->trial[k] <= 0 && *u <= 1e-14) {
      *u = 0;
      continue;
    }
    self->passive[kept++] = column;
  }
  bool dropped = kept < self->n_passive;
  self->n_passive = kept;
  return dropped;
}

/* The column at 0 whose growth lowers the residual fastest; −1: none, which is optimality. */
static int next_column(ActiveSet *self) {
  const Matrix *all = self->matrix;
  for (int i = 0; i < all->rows; i++)
    self->residual[i] = self->target[i] - dot(&all->at[i * all->columns], self->u, all->columns);
  double best = 1e-11;
  int found = -1;
  for (int j = 0; j < all->columns; j++) {
    double gain = 0;
    for (int i = 0; i < all->rows; i++)
      gain += all->at[i * all->columns + j] * self->residual[i];
    if (self->u[j] == 0 && gain > best) {
      best = gain;
      found = j;
    }
  }
  return found;
}

static void nonnegative_solve(const Matrix *matrix, const double *target, double *ret_u,
                              Arena *arena) {
  int most = matrix->rows < matrix->columns ? matrix->rows : matrix->columns;
  ActiveSet set = {.matrix = matrix,
                   .target = target,
                   .u = ret_u,
                   .trial = ARENA_ARRAY(arena, double, matrix->columns + 1),
                   .residual = ARENA_ARRAY(arena, double, matrix->rows),
                   .part = ARENA_ARRAY(arena, double, matrix->rows *most),
                   .tau = ARENA_ARRAY(arena, double, most),
                   .passive = ARENA_ARRAY(arena, int, matrix->columns + 1)};
  for (int round = 0; round < 10 * matrix->columns; round++) {
    int column = next_column(&set);
    if (column < 0 || set.n_passive == most) return;
    set.passive[set.n_passive++] = column;
    do {
      if (set.n_passive == 0) break;
      passive_solve(&set);
    } while (step_towards_trial(&set));
  }
}

/* ---- Least squares under limits ---- */

typedef struct Triangle {
  Matrix qr;      // R in its upper triangle
  double *target; // Qᵀ·targets, the first n_columns
} Triangle;

static Triangle triangle_new(const FitSystem *system, Arena *arena) {
  int m = system->n_rows, p = system->n_columns;
  Matrix a = matrix_new(m + p, p, arena);
  memcpy(a.at, system->rows, (size_t)(m * p) * sizeof *a.at);
  double longest = 0;
  for (int j = 0; j < p; j++)
    longest = fmax(longest, column_length(&a, j));
  for (int j = 0; j < p; j++)
    a.at[(m + j) * p + j] = 1e-7 * longest;
  double *b = ARENA_ARRAY(arena, double, m + p);
  memcpy(b, system->targets, (size_t)m * sizeof *b);
  gsl_matrix_view view = matrix_view(&a, m + p);
  gsl_vector_view tau = gsl_vector_view_array(ARENA_ARRAY(arena, double, p), (size_t)p);
  gsl_vector_view rotated = gsl_vector_view_array(b, (size_t)(m + p));
  gsl_linalg_QR_decomp(&view.matrix, &tau.vector);
  gsl_linalg_QR_QTvec(&view.matrix, &tau.vector, &rotated.vector);
  return (Triangle){a, b};
}

/* x = R⁻¹·z. */
static void triangle_solve(const Triangle *self, const double *z, double *ret_x) {
  int p = self->qr.columns;
  gsl_matrix_view r = matrix_view(&self->qr, p);
  gsl_vector_view x = gsl_vector_view_array(ret_x, (size_t)p);
  memmove(ret_x, z, (size_t)p * sizeof *ret_x);
  gsl_blas_dtrsv(CblasUpper, CblasNoTrans, CblasNonUnit, &r.matrix, &x.vector);
}

static bool keeps_limits(const FitSystem *system, const double *x) {
  int p = system->n_columns;
  for (int i = 0; i < system->n_limits; i++) {
    double sum = 0, length = 0;
    for (int j = 0; j < p; j++) {
      double term = system->limits[i * p + j] * x[j];
      sum += term;
      length += fabs(term);
    }
    if (sum < -SLACK * length) return false;
  }
  return true;
}

/* From the free solution x: the closest, in the metric of R, that keeps the limits. */
static void move_into_limits(const FitSystem *system, const Triangle *triangle, double *x,
                             double *multipliers, Arena *arena) {
  int p = system->n_columns, q = system->n_limits;
  Matrix h = matrix_new(q, p, arena); // limits·R⁻¹
  memcpy(h.at, system->limits, (size_t)(q * p) * sizeof *h.at);
  gsl_matrix_view h_view = matrix_view(&h, q), r = matrix_view(&triangle->qr, p);
  gsl_blas_dtrsm(CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, 1, &r.matrix, &h_view.matrix);
  Matrix dual = matrix_new(p + 1, q, arena);
  double *scale = ARENA_ARRAY(arena, double, q);
  for (int i = 0; i < q; i++) {
    for (int j = 0; j < p; j++)
      dual.at[j * q + i] = h.at[i * p + j];
    dual.at[p * q + i] = -dot(&system->limits[i * p], x, p);
    scale[i] = column_length(&dual, i);
    for (int j = 0; j <= p && scale[i] > 0; j++)
      dual.at[j * q + i] /= scale[i];
  }
  double *target = ARENA_ARRAY(arena, double, p + 1), *u = ARENA_ARRAY(arena, double, q);
  target[p] = 1;
  nonnegative_solve(&dual, target, u, arena);
  double gap = 1 - dot(&dual.at[p * q], u, q);
  if (!(gap > 0)) { // none but for rounding: x = 0 keeps the limits
    memset(x, 0, (size_t)p * sizeof *x);
    return;
  }
  double *z = ARENA_ARRAY(arena, double, p);
  for (int j = 0; j < p; j++)
    z[j] = triangle->target[j] + dot(&dual.at[j * q], u, q) / gap;
  triangle_solve(triangle, z, x);
  for (int i = 0; multipliers && i < q; i++)
    multipliers[i] = scale[i] > 0 ? u[i] / gap / scale[i] : 0;
}

double fit_solve(const FitSystem *self, double *ret_x, double *ret_multipliers) {
  Arena arena;
  arena_init(&arena);
  if (ret_multipliers) memset(ret_multipliers, 0, (size_t)self->n_limits * sizeof *ret_multipliers);
  Triangle triangle = triangle_new(self, &arena);
  triangle_solve(&triangle, triangle.target, ret_x);
  if (!keeps_limits(self, ret_x)) move_into_limits(self, &triangle, ret_x, ret_multipliers, &arena);
  double sum = 0;
  for (int i = 0; i < self->n_rows; i++) {
    double rest = dot(&self->rows[i * self->n_columns], ret_x, self->n_columns) - self->targets[i];
    sum += rest * rest;
  }
  arena_done(&arena);
  return sum;
}
