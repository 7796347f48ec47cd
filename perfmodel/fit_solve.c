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

/* The passive columns are kept factored: a further one costs one pass over the others, where a
 * factorization from the start would cost as many as there are. */
typedef struct ActiveSet {
  const Matrix *matrix;
  const double *target;
  double *u, *trial, *residual, *gains;
  double *factors; // of each passive column its part of R, then its reflection; column by column
  double *tau;     // of the reflections
  double *rotated; // Qᵀ·target
  int *passive;    // columns that may be positive
  int n_passive, n_factored;
} ActiveSet;

/* x − tau·v·(vᵀ·x) with v[0] = 1: a reflection. */
static void reflect(const double *v, double tau, double *x, int n) {
  double scale = tau * (x[0] + dot(&v[1], &x[1], n - 1));
  x[0] -= scale;
  for (int i = 1; i < n; i++)
    x[i] -= scale * v[i];
}

/* Factors the next passive column. */
static void factor_column(ActiveSet *self) {
  const Matrix *all = self->matrix;
  const int k = self->n_factored++, column = self->passive[k], m = all->rows;
  double *own = &self->factors[k * m];
  for (int i = 0; i < m; i++)
    own[i] = all->at[i * all->columns + column];
  for (int j = 0; j < k; j++)
    reflect(&self->factors[j * m + j], self->tau[j], &own[j], m - j);
  gsl_vector_view below = gsl_vector_view_array(&own[k], (size_t)(m - k));
  self->tau[k] = gsl_linalg_householder_transform(&below.vector);
  reflect(&own[k], self->tau[k], &self->rotated[k], m - k);
}

/* Only those of the first `n` passive columns. */
static void keep_factors(ActiveSet *self, int n) {
  const int m = self->matrix->rows;
  memcpy(self->rotated, self->target, (size_t)m * sizeof *self->rotated);
  for (int k = 0; k < n; k++)
    reflect(&self->factors[k * m + k], self->tau[k], &self->rotated[k], m - k);
  self->n_factored = n;
}

/* The free solution over the passive columns, into `trial`. */
static void passive_solve(ActiveSet *self) {
  const int m = self->matrix->rows;
  while (self->n_factored < self->n_passive)
    factor_column(self);
  for (int k = self->n_passive - 1; k >= 0; k--) {
    double sum = self->rotated[k];
    for (int j = k + 1; j < self->n_passive; j++)
      sum -= self->factors[j * m + k] * self->trial[j];
    self->trial[k] = sum / self->factors[k * m + k];
  }
}

/* Moves `u` towards the trial until the first passive column reaches 0, and drops those there.
 * False once the trial itself was reached. */
static bool step_towards_trial(ActiveSet *self) {
  double step = 1;
  for (int k = 0; k < self->n_passive; k++) {
    double from = self->u[self->passive[k]], to = self->trial[k];
    if (to <= 0 && from / (from - to) < step) step = from > 0 ? from / (from - to) : 0;
  }
  int kept = 0, same = 0; // same: columns before the first that is dropped
  for (int k = 0; k < self->n_passive; k++) {
    int column = self->passive[k];
    double *u = &self->u[column];
    *u += step * (self->trial[k] - *u);
    if (self->trial[k] <= 0 && *u <= 1e-14) {
      *u = 0;
      continue;
    }
    same += same == k;
    self->passive[kept++] = column;
  }
  bool dropped = kept < self->n_passive;
  self->n_passive = kept;
  if (dropped) keep_factors(self, same);
  return dropped;
}

/* The column at 0 whose growth lowers the residual fastest; −1: none, which is optimality. */
static int next_column(ActiveSet *self) {
  const Matrix *all = self->matrix;
  for (int i = 0; i < all->rows; i++) {
    self->residual[i] = self->target[i];
    for (int k = 0; k < self->n_passive; k++)
      self->residual[i] -= all->at[i * all->columns + self->passive[k]] * self->u[self->passive[k]];
  }
  memset(self->gains, 0, (size_t)all->columns * sizeof *self->gains);
  for (int i = 0; i < all->rows; i++)
    for (int j = 0; j < all->columns; j++)
      self->gains[j] += all->at[i * all->columns + j] * self->residual[i];
  double best = 1e-11;
  int found = -1;
  for (int j = 0; j < all->columns; j++) {
    if (self->u[j] != 0 || self->gains[j] <= best) continue;
    best = self->gains[j];
    found = j;
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
                   .gains = ARENA_ARRAY(arena, double, matrix->columns + 1),
                   .factors = ARENA_ARRAY(arena, double, matrix->rows *most),
                   .tau = ARENA_ARRAY(arena, double, most),
                   .rotated = ARENA_ARRAY(arena, double, matrix->rows),
                   .passive = ARENA_ARRAY(arena, int, matrix->columns + 1)};
  keep_factors(&set, 0);
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
