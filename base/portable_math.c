/* Logarithm, exponential and the normal distribution from + - * / and bit patterns alone. IEEE 754
 * fixes the result of those to the last bit, so every machine computes the same. */
#include "base/rng.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "intermediate results must be rounded to double");

/* ln 2 in two parts; the upper has 20 trailing zero bits, so its product with an exponent is
 * exact. */
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define SQRT_2   0x1.6a09e667f3bcdp+0

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* c[0] + c[1]·x + … + c[n-1]·x^(n-1) */
static double polynomial(const double *c, int n, double x) {
  double sum = c[n - 1];
  for (int i = n - 2; i >= 0; i--)
    sum = sum * x + c[i];
  return sum;
}

/* With x = 2^k·(1 + f), 1 + f within [√½, √2], and s = f / (2 + f):
 * ln(1 + f) = 2·atanh(s) = f − s·(f − R),  R = 2·(s²/3 + s⁴/5 + …).
 * f is exact and the correction is a fifth of it at most, hence the small error near 1. */
double portable_log(double x) {
  static const double SERIES[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                  2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  assert(x > 0 && x <= DBL_MAX);
  int k = -1023;
  if (x < DBL_MIN) {
    x *= 0x1p54;
    k -= 54;
  }
  uint64_t bits = bits_of(x);
  k += (int)(bits >> 52);
  double m = from_bits((bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000));
  if (m > SQRT_2) {
    m *= 0.5;
    k++;
  }
  double f = m - 1, s = f / (2 + f), s2 = s * s;
  double r = s2 * polynomial(SERIES, sizeof SERIES / sizeof *SERIES, s2);
  return k * LN2_HIGH - ((s * (f - r) - k * LN2_LOW) - f);
}

/* e^x = 2^k·e^r with |r| <= ln 2 / 2, and the Taylor series of e^r up to r^13. */
double portable_exp(double x) {
  static const double SERIES[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                  1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                  1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  assert(x > -700 && x < 700);
  int k = (int)(x / (LN2_HIGH + LN2_LOW) + (x < 0 ? -0.5 : 0.5));
  double r = (x - k * LN2_HIGH) - k * LN2_LOW;
  double tail = r * r * polynomial(SERIES, sizeof SERIES / sizeof *SERIES, r);
  return (1 + (r + tail)) * from_bits((uint64_t)(k + 1023) << 52);
}

/* Abramowitz & Stegun 26.2.17, absolute error below 7.5e-8. */
double portable_normal_cdf(double x) {
  static const double C[] = {0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429};
  static const double INVERSE_SQRT_2PI = 0.3989422804014327;
  double distance = fabs(x);
  if (distance > 37) return x > 0; // the density underflows the range of portable_exp
  double t = 1 / (1 + 0.2316419 * distance);
  double density = INVERSE_SQRT_2PI * portable_exp(-0.5 * distance * distance);
  double upper = density * t * polynomial(C, 5, t);
  return x > 0 ? 1 - upper : upper;
}

/* P. J. Acklam's rational approximations (2003), relative error below 1.2e-9: one for the middle,
 * one for both tails. */
double portable_normal_quantile(double p) {
  static const double MIDDLE_OVER[] = {2.506628277459239e+00, -3.066479806614716e+01,
                                       1.383577518672690e+02, -2.759285104469687e+02,
                                       2.209460984245205e+02, -3.969683028665376e+01};
  static const double MIDDLE_UNDER[] = {1,
                                        -1.328068155288572e+01,
                                        6.680131188771972e+01,
                                        -1.556989798598866e+02,
                                        1.615858368580409e+02,
                                        -5.447609879822406e+01};
  static const double TAIL_OVER[] = {2.938163982698783e+00,  4.374664141464968e+00,
                                     -2.549732539343734e+00, -2.400758277161838e+00,
                                     -3.223964580411365e-01, -7.784894002430293e-03};
  static const double TAIL_UNDER[] = {1, 3.754408661907416e+00, 2.445134137142996e+00,
                                      3.224671290700398e-01, 7.784695709041462e-03};
  assert(p > 0 && p < 1);
  double outer = p < 0.5 ? p : 1 - p;
  if (outer < 0.02425) {
    double q = sqrt(-2 * portable_log(outer));
    double z = polynomial(TAIL_OVER, 6, q) / polynomial(TAIL_UNDER, 5, q);
    return p < 0.5 ? z : -z;
  }
  double q = p - 0.5, q2 = q * q;
  return q * polynomial(MIDDLE_OVER, 6, q2) / polynomial(MIDDLE_UNDER, 6, q2);
}
