/* See sampled.h. */
#include "experiments/base/student.h"
#include "experiments/plan/sampled.h"
#include <math.h>
#include <stdlib.h>

/* A ratio, and half of its 95% interval. */
typedef struct Ratio {
  double value, half;
} Ratio;

/* Adds to the variance what stratum h has: `sums` [n] are y of each window. */
static double stratum_variance(const TraceSample *self, const SampleSeen *seen, const double *sums,
                               double ratio, int h, int *ret_degrees) {
  double mean = 0, spread = 0;
  const double m = (double)self->sizes[h];
  int k = 0;
  for (int w = 0; w < self->n; w++) {
    if (self->windows[w].stratum != h) continue;
    const double e = sums[w] - ratio * (double)seen[w].n, far = e - mean;
    mean += far / ++k;
    spread += far * (e - mean);
  }
  *ret_degrees = k - 1;
  return k < 2 || m <= k ? 0 : m * m * (1 - k / m) * spread / (k - 1) / k;
}

static Ratio ratio_of(const TraceSample *self, const SampleSeen *seen, const double *sums) {
  double all = 0, rows = 0, variance = 0, squares = 0;
  for (int w = 0; w < self->n; w++) {
    all += self->windows[w].weight * sums[w];
    rows += self->windows[w].weight * (double)seen[w].n;
  }
  const double ratio = all / rows;
  for (int h = 0; h < self->n_strata; h++) {
    int degrees = 0;
    const double part = stratum_variance(self, seen, sums, ratio, h, &degrees);
    variance += part;
    if (part > 0) squares += part * part / degrees;
  }
  const double half =
      squares > 0 ? student_quantile(variance * variance / squares) * sqrt(variance) / rows : 0;
  return (Ratio){ratio, half};
}

SampleEstimate sample_mean(const TraceSample *self, const SampleSeen *seen, Arena *arena) {
  double *sums = ARENA_ARRAY(arena, double, (size_t)self->n);
  for (int w = 0; w < self->n; w++)
    for (size_t i = 0; i < seen[w].n; i++)
      sums[w] += seen[w].values[i];
  const Ratio mean = ratio_of(self, seen, sums);
  return (SampleEstimate){mean.value, mean.value - mean.half, mean.value + mean.half};
}

/* ---- Quantiles ---- */

typedef struct Weighted {
  double value, weight;
} Weighted;

static int by_value(const void *a, const void *b) {
  const double left = ((const Weighted *)a)->value, right = ((const Weighted *)b)->value;
  return (left > right) - (left < right);
}

/* The least value below or at which a share q of the weight lies. */
static double value_at(const Weighted *all, size_t n, double weight, double q) {
  double below = 0;
  for (size_t i = 0; i < n; i++) {
    below += all[i].weight;
    if (below >= q * weight * (1 - 1e-12)) return all[i].value;
  }
  return all[n - 1].value;
}

SampleEstimate sample_quantile(const TraceSample *self, const SampleSeen *seen, double q,
                               Arena *arena) {
  size_t n = 0, rows = 0;
  double weight = 0;
  for (int w = 0; w < self->n; w++)
    rows += seen[w].n;
  if (rows == 0) return (SampleEstimate){NAN, NAN, NAN};
  Weighted *all = ARENA_ARRAY(arena, Weighted, rows);
  for (int w = 0; w < self->n; w++)
    for (size_t i = 0; i < seen[w].n; i++) {
      all[n++] = (Weighted){seen[w].values[i], self->windows[w].weight};
      weight += self->windows[w].weight;
    }
  qsort(all, n, sizeof *all, by_value);
  const double value = value_at(all, n, weight, q);
  double *sums = ARENA_ARRAY(arena, double, (size_t)self->n);
  for (int w = 0; w < self->n; w++)
    for (size_t i = 0; i < seen[w].n; i++)
      sums[w] += seen[w].values[i] <= value;
  const Ratio below = ratio_of(self, seen, sums);
  return (SampleEstimate){value, value_at(all, n, weight, fmax(q - below.half, 0)),
                          value_at(all, n, weight, fmin(q + below.half, 1))};
}
