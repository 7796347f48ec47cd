/* See student.h. */
#include "experiments/base/student.h"
#include <gsl/gsl_cdf.h>
#include <math.h>

/* Welford's, so that values far from 0 lose nothing. */
void moments_add(Moments *self, double value, bool repeated) {
  const double from_old = value - self->mean;
  self->n++;
  self->n_repeated += repeated;
  self->mean += from_old / (double)self->n;
  self->squares += from_old * (value - self->mean);
}

double moments_error(const Moments *self) {
  const size_t different = moments_different(self);
  return different < 2 ? NAN : self->squares / (double)(different - 1) / (double)self->n;
}

double moments_half_width(const Moments *self) {
  const size_t different = moments_different(self);
  return different < 2 ? NAN : student_quantile((double)different - 1) * sqrt(moments_error(self));
}

double student_quantile(double degrees) {
  return degrees >= 1 ? gsl_cdf_tdist_Pinv(0.975, degrees) : NAN;
}

double student_p(double t, double degrees) {
  if (!(degrees >= 1) || isnan(t)) return NAN;
  return isinf(t) ? 0 : 2 * gsl_cdf_tdist_Q(fabs(t), degrees);
}
