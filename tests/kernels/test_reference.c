/* The references themselves, on the host: conversions by exhaustion and by their definition,
 * Philox by its published words, products element by element and against one worked by hand. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "tests/kernels/expected.h"

static void test_every_pattern(CalibDtype dtype) {
  for (unsigned bits = 0; bits < 65536; bits++) {
    const double value = half_decode(dtype, (uint16_t)bits);
    const uint16_t back = half_encode(dtype, value);
    assert(isnan(value) ? isnan(half_decode(dtype, back)) : back == bits);
  }
}

/* Between each two neighbours: nearer to one, nearer to the other, and in the middle, where the
 * even one wins. The patterns of positive numbers are in order. */
static void test_rounding(CalibDtype dtype, uint16_t infinity) {
  for (unsigned bits = 0; bits + 1 < infinity; bits++) {
    const double low = half_decode(dtype, (uint16_t)bits);
    const double high = half_decode(dtype, (uint16_t)(bits + 1));
    const double middle = (low + high) / 2;
    assert(half_encode(dtype, nextafter(middle, low)) == bits);
    assert(half_encode(dtype, nextafter(middle, high)) == bits + 1);
    assert(half_encode(dtype, middle) == bits + (bits & 1));
    assert(half_encode(dtype, -middle) == (0x8000 | (bits + (bits & 1))));
  }
  const double last = half_decode(dtype, (uint16_t)(infinity - 1));
  const double step = last - half_decode(dtype, (uint16_t)(infinity - 2));
  assert(half_encode(dtype, nextafter(last + step / 2, 0)) == infinity - 1);
  assert(half_encode(dtype, last + step / 2) == infinity);
  assert(half_encode(dtype, 1e300) == infinity);
}

static void test_known_values(void) {
  assert(half_decode(CALIB_BF16, 0x3fc0) == 1.5 && half_decode(CALIB_FP16, 0x3e00) == 1.5);
  assert(half_decode(CALIB_FP16, 0x7bff) == 65504 && half_decode(CALIB_FP16, 1) == 0x1p-24);
  assert(half_decode(CALIB_BF16, 1) == 0x1p-133 && half_encode(CALIB_BF16, 1.0) == 0x3f80);
}

/* The known answers that the generator's authors publish with it. */
static void test_philox(void) {
  const PhiloxWords zero = {{0}}, ones = {{~0u, ~0u, ~0u, ~0u}};
  const PhiloxWords pi = {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
  const PhiloxWords of_zero = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}};
  const PhiloxWords of_ones = {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}};
  const PhiloxWords of_pi = {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  PhiloxWords got = philox_words(zero, 0);
  assert(memcmp(&got, &of_zero, sizeof got) == 0);
  got = philox_words(ones, UINT64_MAX);
  assert(memcmp(&got, &of_ones, sizeof got) == 0);
  got = philox_words(pi, 0x299f31d0a4093822u);
  assert(memcmp(&got, &of_pi, sizeof got) == 0);
}

static void fill(CalibDtype dtype, uint16_t *elements, int64_t n, uint64_t seed) {
  double *const values = malloc((size_t)n * sizeof *values);
  expected_fill_normal(values, n, 1, seed);
  for (int64_t i = 0; i < n; i++)
    half_store(dtype, elements, i, values[i]);
  free(values);
}

/* Element by element, as it is written down. */
static double product_at(const GemmShape *shape, const uint16_t *a, const uint16_t *w,
                         const uint16_t *bias, int64_t row, int64_t column) {
  double sum = half_load(shape->dtype, bias, column);
  for (int64_t i = 0; i < shape->k; i++)
    sum += half_load(shape->dtype, a, row * shape->k + i) *
           half_load(shape->dtype, w, column * shape->k + i);
  if (shape->epilogue == GEMM_BIAS_RELU) return sum > 0 ? sum : 0;
  return 0.5 * sum * (1 + tanh(sqrt(2 / acos(-1)) * (sum + 0.044715 * sum * sum * sum)));
}

static void test_product(GemmShape shape) {
  const int64_t n_a = (int64_t)shape.m * shape.k, n_w = (int64_t)shape.n * shape.k;
  uint16_t *const a = malloc((size_t)(n_a + n_w + shape.n) * 2), *const w = a + n_a;
  uint16_t *const bias = w + n_w;
  double *const c = malloc((size_t)shape.m * (size_t)shape.n * sizeof *c);
  fill(shape.dtype, a, n_a, 1);
  fill(shape.dtype, w, n_w, 2);
  fill(shape.dtype, bias, shape.n, 3);
  expected_gemm(&shape, c, a, w, bias);
  for (int64_t row = 0; row < shape.m; row++)
    for (int64_t column = 0; column < shape.n; column++)
      assert(fabs(c[row * shape.n + column] - product_at(&shape, a, w, bias, row, column)) <=
             1e-12 * shape.k);
  free(a);
  free(c);
}

/* (1 2; 3 4)·(5 6; 7 8)ᵀ = (17 23; 39 53), the second column less 40, not below 0. */
static void test_product_by_hand(void) {
  const GemmShape shape = {2, 2, 2, CALIB_BF16, GEMM_BIAS_RELU, CALIB_WEIGHTS_PLAIN};
  uint16_t a[4], w[4], bias[2];
  for (int i = 0; i < 4; i++)
    half_store(CALIB_BF16, a, i, i + 1);
  for (int i = 0; i < 4; i++)
    half_store(CALIB_BF16, w, i, i + 5);
  half_store(CALIB_BF16, bias, 0, 0);
  half_store(CALIB_BF16, bias, 1, -40);
  double c[4];
  expected_gemm(&shape, c, a, w, bias);
  assert(c[0] == 17 && c[1] == 0 && c[2] == 39 && c[3] == 13);
}

int main(void) {
  for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
    test_every_pattern(dtype);
    test_product((GemmShape){1, 1, 1, dtype, GEMM_BIAS_RELU, CALIB_WEIGHTS_PLAIN});
    test_product((GemmShape){65, 70, 259, dtype, GEMM_BIAS_GELU, CALIB_WEIGHTS_PLAIN});
    test_product((GemmShape){17, 129, 512, dtype, GEMM_BIAS_RELU, CALIB_WEIGHTS_PLAIN});
  }
  test_rounding(CALIB_BF16, 0x7f80);
  test_rounding(CALIB_FP16, 0x7c00);
  test_known_values();
  test_philox();
  test_product_by_hand();
  puts("references: conversions, Philox and products hold");
  return 0;
}
