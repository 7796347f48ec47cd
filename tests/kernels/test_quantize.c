/* kernel_quantize against reference_quantize: every number of 8 bits, times its scale, is the
 * reference's, and scales lie where products look for them. */
#include <math.h>
#include <stdlib.h>

#include "calib/reference.h"
#include "kernels/fp8.h"
#include "kernels/half.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

typedef struct Case {
  int32_t tokens, k;
} Case;

static const Case CASES[] = {{1, 8}, {3, 128}, {17, 448}, {129, 1024}, {5, 1408}, {2, 5120}};

/* Halfway between two of e4m3, its smallest and greatest, beyond them, and a group of zeros. */
static const double HARD[] = {0,   -0.0, 0x1p-9, 0x1p-10, 0x1.8p-9, 1.0625, 1.1875, -1.0625,
                              448, 464,  -1000,  0x1p-6,  0x1.1p-6, 240,    1e4,    -17};

static uint16_t *make_input(CalibDtype dtype, const Case *c) {
  const int64_t n = (int64_t)c->tokens * c->k;
  uint16_t *const in = random_elements(dtype, n, 1, 41);
  for (int64_t i = 0; i < n; i++) {
    const double size = ldexp(1, (int)(i / FP8_BLOCK % 9) - 4); // groups of other sizes
    half_store(dtype, in, i, half_load(dtype, in, i) * size);
  }
  for (int64_t i = 0; i < (int64_t)(sizeof HARD / sizeof *HARD) && i < n; i++)
    half_store(dtype, in, i, HARD[i] * CALIB_FP8_INPUT_SCALE);
  for (int64_t i = FP8_BLOCK; i < 2 * FP8_BLOCK && i < n && c->k > FP8_BLOCK; i++)
    half_store(dtype, in, i, 0);
  return in;
}

static void check_quantize(CalibDtype dtype, CalibWeights weights, const Case *c) {
  const int64_t n = (int64_t)c->tokens * c->k;
  const int64_t n_scales = fp8_input_scales(weights, c->tokens, c->k);
  const float of_tensor = (float)CALIB_FP8_INPUT_SCALE;
  uint16_t *const in = make_input(dtype, c);
  void *const in_there = device_copy(in, (size_t)n * 2);
  uint8_t *const out_there = device_alloc((size_t)n);
  float *const scales_there = weights == CALIB_FP8 ? device_copy(&of_tensor, sizeof of_tensor)
                                                   : device_alloc((size_t)n_scales * sizeof(float));
  const int status =
      kernel_quantize(NULL, dtype, weights, out_there, scales_there, in_there, c->tokens, c->k);
  expect_true(status == 0, "quantizing returns %d", status);
  uint8_t *const out = device_fetch(out_there, (size_t)n);
  float *const scales = device_fetch(scales_there, (size_t)n_scales * sizeof *scales);
  double *const expected = decoded(dtype, in, n);
  reference_quantize(weights, expected, c->tokens, c->k);
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = i % c->k / FP8_BLOCK * fp8_rows(c->tokens) + i / c->k;
    const double x = e4m3_decode(out[i]) * scales[weights == CALIB_FP8 ? 0 : at];
    const double off = fabs(x - expected[i]) / fmax(fabs(expected[i]), 1e-9);
    worst = isfinite(off) ? fmax(worst, off) : INFINITY;
  }
  expect_error_below(worst, 1e-6, "type %d, weights %d, %dx%d", dtype, weights, c->tokens, c->k);
  free(in);
  free(out);
  free(scales);
  free(expected);
  device_free(in_there);
  device_free(out_there);
  device_free(scales_there);
}

/* Both ways agree on each of the 256, and the reference rounds halves to even. */
static void check_format(void) {
  for (int bits = 0; bits < 256; bits++) {
    const double x = e4m3_decode((uint8_t)bits);
    expect_true(isnan(x) || reference_e4m3(x) == x, "%d is a number of e4m3", bits);
  }
  expect_true(e4m3_decode(0x7e) == 448 && e4m3_decode(1) == 0x1p-9 && isnan(e4m3_decode(0xff)),
              "the ends of e4m3");
  expect_true(reference_e4m3(1.0625) == 1 && reference_e4m3(1.1875) == 1.25 &&
                  reference_e4m3(-500) == -448 && reference_e4m3(0x1p-10) == 0 &&
                  reference_e4m3(464) == 448,
              "halves go to the even number, and no number is beyond the greatest");
}

int main(void) {
  kernel_testing_begin("quantize");
  check_format();
  for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
      device_seed(i);
      check_quantize(dtype, CALIB_FP8, &CASES[i]);
      check_quantize(dtype, CALIB_FP8_BLOCK, &CASES[i]);
    }
  }
  expect_true(kernel_quantize(NULL, CALIB_BF16, CALIB_FP8, NULL, NULL, NULL, 1, 12) != 0,
              "a row that is no whole number of vectors is refused");
  return kernel_testing_end();
}
