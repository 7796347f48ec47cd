/* kernel_norm against its reference: rows of a warp, of a block, and past the end of the last
 * vector of a thread; in place; with and without a residual and a bias. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

typedef struct Case {
  int32_t tokens, hidden;
} Case;

static const Case CASES[] = {
    {1, 8},     {17, 64},  {129, 1000}, {5, 1024},  {17, 1032}, {129, 4096}, {17, 5120},
    {17, 7168}, {3, 8192}, {3, 14336},  {1, 16384}, {2, 16392}, {1, 32768},
};

typedef struct Tensors {
  int64_t n;
  uint16_t *residual, *x, *weight, *bias;
} Tensors;

/* Rows around 2 and not 0, so that a LayerNorm that forgot the mean is far off. */
static Tensors make_tensors(CalibDtype dtype, Case c) {
  const int64_t n = (int64_t)c.tokens * c.hidden;
  Tensors t = {n, random_elements(dtype, n, 1, 1), random_elements(dtype, n, 1, 2),
               random_elements(dtype, c.hidden, 1, 3), random_elements(dtype, c.hidden, 1, 4)};
  const uint16_t two = 0x4000; // in both types
  for (int64_t i = 0; i < n; i += 2)
    t.residual[i] = two;
  return t;
}

static void free_tensors(Tensors *t) {
  free(t->residual);
  free(t->x);
  free(t->weight);
  free(t->bias);
}

/* has_x also takes x as the place of the result. */
static void check(CalibDtype dtype, CalibNorm norm, Case c, bool has_x, bool has_bias) {
  Tensors t = make_tensors(dtype, c);
  const size_t bytes = (size_t)t.n * 2, row_bytes = (size_t)c.hidden * 2;
  void *const residual = device_copy(t.residual, bytes), *const x = device_copy(t.x, bytes);
  void *const weight = device_copy(t.weight, row_bytes), *const bias =
                                                             device_copy(t.bias, row_bytes);
  void *const fresh = device_alloc(bytes);
  void *const out = has_x ? x : fresh;

  const int status = kernel_norm(NULL, dtype, norm, out, residual, has_x ? x : NULL, weight,
                                 has_bias ? bias : NULL, 1e-5f, c.tokens, c.hidden);
  double *const expected = malloc((size_t)t.n * sizeof *expected);
  expected_norm(dtype, norm, expected, t.residual, has_x ? t.x : NULL, t.weight,
                has_bias ? t.bias : NULL, c.tokens, c.hidden);

  uint16_t *const got = device_fetch(out, bytes), *const sum = device_fetch(residual, bytes);
  const char *const name = norm == CALIB_RMS_NORM ? "RMSNorm" : "LayerNorm";
  expect_true(status == 0, "%s of %dx%d returns %d", name, c.tokens, c.hidden, status);
  expect_error_below(greatest_error(dtype, got, expected, t.n, 0.05), half_error(dtype),
                     "%s %d of %dx%d, x %d, bias %d", name, dtype, c.tokens, c.hidden, has_x,
                     has_bias);
  expect_true(memcmp(sum, t.residual, bytes) == 0, "%s of %dx%d: the residual", name, c.tokens,
              c.hidden);
  free(got);
  free(sum);
  free(expected);
  device_free(residual);
  device_free(x);
  device_free(weight);
  device_free(bias);
  device_free(fresh);
  free_tensors(&t);
}

int main(int argc, char **argv) {
  const int64_t most = is_small_run(argc, argv) ? 1 << 14 : INT64_MAX;
  kernel_testing_begin("norm");
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    if ((int64_t)CASES[i].tokens * CASES[i].hidden > most) continue;
    device_seed(i);
    for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
      check(dtype, CALIB_RMS_NORM, CASES[i], true, false);
      check(dtype, CALIB_RMS_NORM, CASES[i], false, false);
      check(dtype, CALIB_LAYER_NORM, CASES[i], true, true);
      check(dtype, CALIB_LAYER_NORM, CASES[i], false, false);
    }
  }
  expect_true(kernel_norm(NULL, CALIB_BF16, CALIB_RMS_NORM, NULL, NULL, NULL, NULL, NULL, 1e-5f, 1,
                          4092) != 0,
              "a row that is no whole number of vectors is refused");
  expect_true(kernel_norm(NULL, CALIB_BF16, CALIB_RMS_NORM, NULL, NULL, NULL, NULL, NULL, 1e-5f, 1,
                          65536) != 0,
              "a row that does not fit into registers is refused");
  return kernel_testing_end();
}
