/* kernel_fill_normal against its reference and against what normal numbers are;
 * kernel_wait_flag lets go when the flag is set and when its time is over. */
#include <math.h>
#include <stdlib.h>

#include "kernels/half.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

enum { MARGIN = 8 };

/* n elements and a margin behind them, which must stay as it was. */
static uint16_t *filled(CalibDtype dtype, int64_t n, float deviation, uint64_t seed) {
  const size_t bytes = (size_t)(n + MARGIN) * 2;
  void *const out = device_alloc(bytes);
  const int status = kernel_fill_normal(NULL, dtype, out, n, deviation, seed);
  expect_true(status == 0, "fill_normal returns %d", status);
  uint16_t *const got = device_fetch(out, bytes);
  for (int i = 0; i < MARGIN; i++)
    expect_true(got[n + i] == 0xffff, "fill_normal of %lld: element %d past the end", (long long)n,
                i);
  device_free(out);
  return got;
}

static void check_fill(CalibDtype dtype, int64_t n, uint64_t seed) {
  uint16_t *const got = filled(dtype, n, 0.5f, seed);
  double *const expected = malloc((size_t)n * sizeof *expected);
  expected_fill_normal(expected, n, 0.5, seed);
  expect_error_below(greatest_error(dtype, got, expected, n, 0.05), half_error(dtype),
                     "fill_normal %d of %lld", dtype, (long long)n);
  free(expected);
  free(got);
}

/* Moments within four of their standard errors; the fourth tells a normal from a uniform number. */
static void check_moments(int64_t n) {
  uint16_t *const got = filled(CALIB_FP16, n, 1, 42), *const other = filled(CALIB_FP16, n, 1, 43);
  double moments[5] = {0}, product = 0;
  for (int64_t i = 0; i < n; i++) {
    const double x = half_load(CALIB_FP16, got, i);
    for (int power = 1; power <= 4; power++)
      moments[power] += pow(x, power) / (double)n;
    product += x * half_load(CALIB_FP16, other, i) / (double)n;
  }
  const double error = 4 / sqrt((double)n);
  expect_error_below(fabs(moments[1]), error, "mean");
  expect_error_below(fabs(moments[2] - 1), error * sqrt(2), "variance");
  expect_error_below(fabs(moments[3]), error * sqrt(15), "third moment");
  expect_error_below(fabs(moments[4] - 3), error * sqrt(96), "fourth moment");
  expect_error_below(fabs(product), error, "correlation of two seeds");
  free(got);
  free(other);
}

static void check_flag(void) {
  volatile int32_t *const flag = device_alloc_pinned(sizeof *flag);
  unsigned char *const after = device_alloc(16);
  const int status = kernel_wait_flag(NULL, flag, 1000000);
  expect_true(status == 0, "wait_flag returns %d", status);
  device_download(&(int32_t){0}, after, 4); // comes back although the flag is not set
  *flag = 1;
  expect_true(kernel_wait_flag(NULL, flag, INT64_MAX) == 0, "wait_flag of a flag that is set");
  device_download(&(int32_t){0}, after, 4); // would not come back before the end of time
  device_free(after);
  device_free_pinned((void *)flag);
}

int main(int argc, char **argv) {
  const bool is_small = is_small_run(argc, argv);
  kernel_testing_begin("harness");
  for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
    check_fill(dtype, 1, 0);
    check_fill(dtype, 7, 1);
    check_fill(dtype, 8, 2);
    check_fill(dtype, 1003, UINT64_MAX);
    if (!is_small) check_fill(dtype, 300001, (uint64_t)1 << 40);
  }
  if (!is_small) check_moments(200000);
  check_flag();
  return kernel_testing_end();
}
