/* SwiGLU (Shazeer 2020), GELU in its tanh form (Hendrycks and Gimpel 2016), ReLU, biases. */
#include <math.h>

#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"

double reference_activate(CalibActivation activation, double x) {
  switch (activation) {
  case CALIB_SWIGLU:
    return x / (1 + exp(-x));
  case CALIB_GELU:
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  case CALIB_RELU:
    return x > 0 ? x : 0;
  }
  return NAN;
}

void reference_activation(CalibDtype dtype, CalibActivation activation, double *out, const void *in,
                          const void *bias, int32_t tokens, int32_t ffn) {
  const int64_t columns = activation == CALIB_SWIGLU ? 2 * (int64_t)ffn : ffn;
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t i = 0; i < ffn; i++) {
      const double x = half_load(dtype, in, t * columns + i);
      const double shift = bias ? half_load(dtype, bias, i) : 0;
      const double factor =
          activation == CALIB_SWIGLU ? half_load(dtype, in, t * columns + ffn + i) : 1;
      out[t * ffn + i] = reference_activate(activation, x + shift) * factor;
    }
  }
}

void reference_add_bias(CalibDtype dtype, double *out, const void *x, const void *bias,
                        int32_t tokens, int32_t columns) {
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t i = 0; i < columns; i++)
      out[t * columns + i] = half_load(dtype, x, t * columns + i) + half_load(dtype, bias, i);
}
