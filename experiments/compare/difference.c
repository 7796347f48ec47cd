/* See difference.h. */
#include "experiments/compare/difference.h"
#include "experiments/base/student.h"
#include <math.h>

/* What rounding leaves of equal numbers. */
static double without_rounding(double difference, double a, double b) {
  return fabs(difference) <= 1e-12 * fmax(fabs(a), fabs(b)) ? 0 : difference;
}

static Difference conclude(double a, double b, double value, double error, double degrees,
                           size_t n) {
  Difference self = {a, b, value, NAN, NAN, n};
  if (n < 2) return self;
  self.half_width = error > 0 ? student_quantile(degrees) * sqrt(error) : 0;
  self.p = error > 0 ? student_p(value / sqrt(error), degrees) : value == 0;
  return self;
}

Difference difference_paired(const double *a, const double *b, size_t n) {
  Moments of_a = {0}, of_b = {0}, of_both = {0};
  for (size_t i = 0; i < n; i++) {
    if (isnan(a[i]) || isnan(b[i])) continue;
    moments_add(&of_a, a[i]);
    moments_add(&of_b, b[i]);
    moments_add(&of_both, without_rounding(b[i] - a[i], a[i], b[i]));
  }
  if (of_both.n == 0) return (Difference){NAN, NAN, NAN, NAN, NAN, 0};
  return conclude(of_a.mean, of_b.mean, of_both.mean, moments_error(&of_both),
                  (double)of_both.n - 1, of_both.n);
}

static Moments moments_of(const double *values, size_t n) {
  Moments self = {0};
  for (size_t i = 0; i < n; i++)
    if (!isnan(values[i])) moments_add(&self, values[i]);
  if (self.n == 0) self.mean = NAN;
  return self;
}

Difference difference_unpaired(const double *a, size_t n_a, const double *b, size_t n_b) {
  const Moments of_a = moments_of(a, n_a), of_b = moments_of(b, n_b);
  const double value = without_rounding(of_b.mean - of_a.mean, of_a.mean, of_b.mean);
  const size_t n = of_a.n < of_b.n ? of_a.n : of_b.n;
  if (n < 2) return conclude(of_a.mean, of_b.mean, value, NAN, NAN, n);
  const double error_a = moments_error(&of_a), error_b = moments_error(&of_b),
               error = error_a + error_b;
  // Satterthwaite's.
  const double degrees =
      error * error /
      (error_a * error_a / (double)(of_a.n - 1) + error_b * error_b / (double)(of_b.n - 1));
  return conclude(of_a.mean, of_b.mean, value, error, degrees, n);
}

/* Step by step from the smallest p, each against 5% over how many are left. */
void difference_hold(const Difference *differences, size_t n, bool *ret_hold) {
  size_t left = 0;
  for (size_t i = 0; i < n; i++) {
    ret_hold[i] = false;
    left += !isnan(differences[i].p);
  }
  for (; left > 0; left--) {
    size_t best = n;
    for (size_t i = 0; i < n; i++)
      if (!ret_hold[i] && !isnan(differences[i].p) &&
          (best == n || differences[i].p < differences[best].p))
        best = i;
    if (differences[best].p > 0.05 / (double)left) return;
    ret_hold[best] = true;
  }
}
