/* See arima.h. */
#include "sim/scaling/arima.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LAGS = 2, PARAMETERS = LAGS + 1, FIRST = 3, POINTS_LEAST = 5 };

typedef struct Model {
  int lags;
  bool differs; // it is of differences
} Model;

void arima_init(Arima *self, Arena *arena) {
  *self = (Arima){.values = ARENA_ARRAY(arena, double, SERIES_MOST)};
}

void arima_add(Arima *self, double value) {
  if (self->n == 0 && value == 0) return;
  if (self->n == SERIES_MOST)
    memmove(self->values, self->values + 1, sizeof *self->values * (size_t)--self->n);
  self->values[self->n++] = value;
}

double arima_last(const Arima *self) {
  return self->n > 0 ? self->values[self->n - 1] : 0;
}

static double at(const Arima *self, const Model *model, int t) {
  return model->differs ? self->values[t] - self->values[t - 1] : self->values[t];
}

static int n_parameters(const Model *model) {
  return model->lags + !model->differs;
}

/* What the value at `t` is explained by. */
static void regressors(const Arima *self, const Model *model, int t, double *x) {
  for (int i = 0; i < model->lags; i++)
    x[i] = at(self, model, t - 1 - i);
  if (!model->differs) x[model->lags] = 1;
}

/* Of n equations a·x = b by elimination with the largest pivots; false: they are not independent.
 */
static bool solve(double a[PARAMETERS][PARAMETERS], double *b, int n) {
  for (int i = 0; i < n; i++) {
    int pivot = i;
    for (int j = i + 1; j < n; j++)
      if (fabs(a[j][i]) > fabs(a[pivot][i])) pivot = j;
    if (fabs(a[pivot][i]) < 1e-9) return false;
    for (int k = 0; k < n; k++) {
      const double other = a[i][k];
      a[i][k] = a[pivot][k];
      a[pivot][k] = other;
    }
    const double other = b[i];
    b[i] = b[pivot];
    b[pivot] = other;
    for (int j = i + 1; j < n; j++) {
      const double factor = a[j][i] / a[i][i];
      for (int k = i; k < n; k++)
        a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++)
      b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return true;
}

static double dot(const double *a, const double *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* False: there is no such model of these values. */
static bool fit(const Arima *self, const Model *model, double *parameters, double *ret_aic) {
  const int k = n_parameters(model), m = self->n - FIRST;
  if (m < k + 2) return false;
  double a[PARAMETERS][PARAMETERS] = {{0}}, x[PARAMETERS];
  memset(parameters, 0, sizeof *parameters * PARAMETERS);
  for (int t = FIRST; t < self->n; t++) {
    regressors(self, model, t, x);
    for (int i = 0; i < k; i++) {
      parameters[i] += x[i] * at(self, model, t);
      for (int j = 0; j < k; j++)
        a[i][j] += x[i] * x[j];
    }
  }
  if (!solve(a, parameters, k)) return false;
  double rss = 0;
  for (int t = FIRST; t < self->n; t++) {
    regressors(self, model, t, x);
    const double error = at(self, model, t) - dot(x, parameters, k);
    rss += error * error;
  }
  *ret_aic = m * portable_log(fmax(rss / m, 1e-12)) + 2 * (k + 1);
  return true;
}

double arima_next(const Arima *self) {
  static const Model models[] = {{0, true},  {1, true},  {2, true},
                                 {0, false}, {1, false}, {2, false}};
  double next = arima_last(self), least = INFINITY;
  if (self->n < POINTS_LEAST) return next;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    double parameters[PARAMETERS], x[PARAMETERS], aic;
    if (!fit(self, &models[i], parameters, &aic) || aic >= least) continue;
    least = aic;
    regressors(self, &models[i], self->n, x);
    next = dot(x, parameters, n_parameters(&models[i]));
    if (models[i].differs) next += arima_last(self);
  }
  return fmax(next, 0);
}
