/* RMSNorm (Zhang and Sennrich 2019) and LayerNorm (Ba et al. 2016). */
#include <math.h>

#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"

static void add_residual(CalibDtype dtype, uint16_t *row, const uint16_t *x, int32_t hidden) {
  for (int32_t i = 0; i < hidden; i++)
    half_store(dtype, row, i, half_load(dtype, row, i) + half_load(dtype, x, i));
}

/* The mean of (row − shift)^power. */
static double moment(CalibDtype dtype, const uint16_t *row, double shift, int power,
                     int32_t hidden) {
  double sum = 0;
  for (int32_t i = 0; i < hidden; i++)
    sum += pow(half_load(dtype, row, i) - shift, power);
  return sum / hidden;
}

void reference_norm(CalibDtype dtype, CalibNorm norm, double *out, void *residual, const void *x,
                    const void *weight, const void *bias, double epsilon, int32_t tokens,
                    int32_t hidden) {
  for (int64_t t = 0; t < tokens; t++) {
    uint16_t *const row = (uint16_t *)residual + t * hidden;
    if (x) add_residual(dtype, row, (const uint16_t *)x + t * hidden, hidden);
    const double mean = norm == CALIB_LAYER_NORM ? moment(dtype, row, 0, 1, hidden) : 0;
    const double deviation = sqrt(moment(dtype, row, mean, 2, hidden) + epsilon);
    for (int32_t i = 0; i < hidden; i++)
      out[t * hidden + i] =
          (half_load(dtype, row, i) - mean) / deviation * half_load(dtype, weight, i) +
          (bias ? half_load(dtype, bias, i) : 0);
  }
}
