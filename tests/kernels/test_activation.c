/* kernel_activation against its reference. */
#include <stdlib.h>

#include "kernels/half.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

typedef struct Case {
  int32_t tokens, columns;
} Case;

static const Case CASES[] = {
    {1, 8}, {17, 448}, {129, 1000}, {5, 1792}, {3, 4096}, {17, 3456}, {1, 14336}, {1, 28672},
};

static const char *const NAMES[] = {"SwiGLU", "GELU", "ReLU"};

/* Where exp overflows or vanishes. */
static const double EXTREMES[] = {0, -0.0, 1, -1, 20, -20, 90, -90, 1000, -1000};

static uint16_t *make_input(CalibDtype dtype, int64_t n) {
  uint16_t *const in = random_elements(dtype, n, 3, 11);
  for (int64_t i = 0; i < n && i < (int64_t)(sizeof EXTREMES / sizeof *EXTREMES); i++)
    half_store(dtype, in, i, EXTREMES[i]);
  return in;
}

static void check_activation(CalibDtype dtype, CalibActivation activation, Case c, bool in_place) {
  const int64_t n = (int64_t)c.tokens * c.columns, n_in = activation == CALIB_SWIGLU ? 2 * n : n;
  uint16_t *const in = make_input(dtype, n_in);
  void *const from = device_copy(in, (size_t)n_in * 2);
  void *const fresh = device_alloc((size_t)n * 2), *const to = in_place ? from : fresh;
  const int status = kernel_activation(NULL, dtype, activation, to, from, c.tokens, c.columns);
  double *const expected = malloc((size_t)n * sizeof *expected);
  expected_activation(dtype, activation, expected, in, c.tokens, c.columns);
  uint16_t *const got = device_fetch(to, (size_t)n * 2);
  expect_true(status == 0, "%s returns %d", NAMES[activation], status);
  expect_error_below(greatest_error(dtype, got, expected, n, 0.05), half_error(dtype),
                     "%s %d of %dx%d, in place %d", NAMES[activation], dtype, c.tokens, c.columns,
                     in_place);
  free(in);
  free(expected);
  free(got);
  device_free(from);
  device_free(fresh);
}

int main(int argc, char **argv) {
  const int64_t most = is_small_run(argc, argv) ? 1 << 14 : INT64_MAX;
  kernel_testing_begin("activation");
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    if ((int64_t)CASES[i].tokens * CASES[i].columns > most) continue;
    device_seed(i);
    for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
      check_activation(dtype, CALIB_SWIGLU, CASES[i], false);
      for (CalibActivation activation = CALIB_GELU; activation <= CALIB_RELU; activation++) {
        check_activation(dtype, activation, CASES[i], true);
        check_activation(dtype, activation, CASES[i], false);
      }
    }
  }
  expect_true(kernel_activation(NULL, CALIB_BF16, CALIB_RELU, NULL, NULL, 1, 12) != 0,
              "a row that is no whole number of vectors is refused");
  return kernel_testing_end();
}
