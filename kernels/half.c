/* Both formats are sign, exponent and mantissa; only the widths differ. */
#include "kernels/half.h"
#include <math.h>

static int mantissa_bits(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? 7 : 10;
}

/* The exponent of the smallest normal number is 1 − bias. */
static int exponent_bias(CalibDtype dtype) {
  return dtype == CALIB_BF16 ? 127 : 15;
}

double half_decode(CalibDtype dtype, uint16_t bits) {
  const int width = mantissa_bits(dtype), bias = exponent_bias(dtype);
  const int mantissa = bits & ((1 << width) - 1);
  const int exponent = (bits & 0x7fff) >> width;
  double value;
  if (exponent == 2 * bias + 1)
    value = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexp(mantissa, 1 - bias - width);
  else
    value = ldexp(mantissa + (1 << width), exponent - bias - width);
  return bits & 0x8000 ? -value : value;
}

uint16_t half_encode(CalibDtype dtype, double value) {
  const int width = mantissa_bits(dtype), bias = exponent_bias(dtype);
  const unsigned sign = signbit(value) ? 0x8000 : 0;
  const unsigned infinity = (unsigned)(2 * bias + 1) << width;
  if (isnan(value)) return (uint16_t)(sign | infinity | 1u << (width - 1));
  if (value == 0) return (uint16_t)sign;
  if (isinf(value)) return (uint16_t)(sign | infinity);

  int exponent = ilogb(value);
  if (exponent > bias) return (uint16_t)(sign | infinity);
  if (exponent < 1 - bias) exponent = 1 - bias;
  /* In units of the last place. A subnormal has no leading one and a mantissa that rounds up to
   * the next power of two carries into the exponent: both come out of one sum. */
  const unsigned units = (unsigned)nearbyint(ldexp(fabs(value), width - exponent));
  return (uint16_t)(sign | (((unsigned)(exponent + bias - 1) << width) + units));
}

double e4m3_decode(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double size = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
  if ((bits & 127) == 127) return NAN;
  return bits & 128 ? -size : size;
}
