/* See difference.h. */
#include "experiments/base/difference.h"
#include "experiments/base/student.h"
#include <math.h>

/* What rounding leaves of equal numbers. */
static double without_rounding(double difference, double a, double b) {
  return fabs(difference) <= 1e-12 * fmax(fabs(a), fabs(b)) ? 0 : difference;
}

/* `n` values of which so many are `different`. */
static Difference conclude(double a, double b, double value, double error, double degrees, size_t n,
                           size_t different) {
  Difference self = {a, b, value, NAN, NAN, n, different};
  if (different < 2) return self;
  self.half_width = error > 0 ? student_quantile(degrees) * sqrt(error) : 0;
  self.p = error > 0 ? student_p(value / sqrt(error), degrees) : value == 0;
  return self;
}

Difference difference_paired(const Values *a, const Values *b) {
  Moments of_a = {0}, of_b = {0}, of_both = {0};
  for (size_t i = 0; i < a->n; i++) {
    const double one = a->all[i], other = b->all[i];
    if (isnan(one) || isnan(other)) continue;
    moments_add(&of_a, one, a->repeated[i]);
    moments_add(&of_b, other, a->repeated[i]);
    moments_add(&of_both, without_rounding(other - one, one, other), a->repeated[i]);
  }
  if (of_both.n == 0) return (Difference){NAN, NAN, NAN, NAN, NAN, 0, 0};
  const size_t different = moments_different(&of_both);
  return conclude(of_a.mean, of_b.mean, of_both.mean, moments_error(&of_both),
                  (double)different - 1, of_both.n, different);
}

static Moments moments_of(const Values *values) {
  Moments self = {0};
  for (size_t i = 0; i < values->n; i++)
    if (!isnan(values->all[i])) moments_add(&self, values->all[i], values->repeated[i]);
  if (self.n == 0) self.mean = NAN;
  return self;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

Difference difference_unpaired(const Values *a, const Values *b) {
  const Moments of_a = moments_of(a), of_b = moments_of(b);
  const double value = without_rounding(of_b.mean - of_a.mean, of_a.mean, of_b.mean);
  const size_t n = least(of_a.n, of_b.n), n_a = moments_different(&of_a),
               n_b = moments_different(&of_b);
  if (least(n_a, n_b) < 2)
    return conclude(of_a.mean, of_b.mean, value, NAN, NAN, n, least(n_a, n_b));
  const double error_a = moments_error(&of_a), error_b = moments_error(&of_b),
               error = error_a + error_b;
  // Satterthwaite's.
  const double degrees =
      error * error /
      (error_a * error_a / (double)(n_a - 1) + error_b * error_b / (double)(n_b - 1));
  return conclude(of_a.mean, of_b.mean, value, error, degrees, n, least(n_a, n_b));
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
