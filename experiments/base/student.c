/* See student.h. */
#include "experiments/base/student.h"
#include <gsl/gsl_cdf.h>
#include <math.h>

double student_quantile(double degrees) {
  return degrees >= 1 ? gsl_cdf_tdist_Pinv(0.975, degrees) : NAN;
}

double student_p(double t, double degrees) {
  if (!(degrees >= 1) || isnan(t)) return NAN;
  return isinf(t) ? 0 : 2 * gsl_cdf_tdist_Q(fabs(t), degrees);
}
