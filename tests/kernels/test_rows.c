/* kernel_embedding, kernel_gather_rows and kernel_argmax against their references. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

enum { TABLE_ROWS = 37 };

static int32_t *random_ids(int32_t n, uint64_t seed) {
  int32_t *const ids = malloc((size_t)n * sizeof *ids);
  for (int32_t i = 0; i < n; i++)
    ids[i] = (int32_t)random_below(&seed, TABLE_ROWS);
  return ids;
}

/* Without positions this is kernel_gather_rows. */
static void check_embedding(CalibDtype dtype, int32_t tokens, int32_t hidden, bool has_positions) {
  const int64_t n = (int64_t)tokens * hidden, n_table = (int64_t)TABLE_ROWS * hidden;
  uint16_t *const table = random_elements(dtype, n_table, 1, 21);
  uint16_t *const learned = random_elements(dtype, n_table, 1, 22);
  int32_t *const ids = random_ids(tokens, 23), *const positions = random_ids(tokens, 24);
  void *const on_device[] = {
      device_copy(table, (size_t)n_table * 2), device_copy(learned, (size_t)n_table * 2),
      device_copy(ids, (size_t)tokens * 4), device_copy(positions, (size_t)tokens * 4),
      device_alloc((size_t)n * 2)};
  void *const out = on_device[4];
  const int status = has_positions ? kernel_embedding(NULL, dtype, out, on_device[2], on_device[0],
                                                      on_device[3], on_device[1], tokens, hidden)
                                   : kernel_gather_rows(NULL, dtype, out, on_device[0],
                                                        on_device[2], tokens, hidden);
  double *const expected = malloc((size_t)n * sizeof *expected);
  expected_embedding(dtype, expected, ids, table, positions, has_positions ? learned : NULL, tokens,
                     hidden);
  uint16_t *const got = device_fetch(out, (size_t)n * 2);
  expect_true(status == 0, "embedding returns %d", status);
  expect_error_below(greatest_error(dtype, got, expected, n, 0.05),
                     has_positions ? half_error(dtype) : 0, "embedding %d of %dx%d, positions %d",
                     dtype, tokens, hidden, has_positions);
  for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++)
    device_free(on_device[i]);
  free(table);
  free(learned);
  free(ids);
  free(positions);
  free(expected);
  free(got);
}

/* Rows whose answer hangs on what is done with equals, NaN and infinities; 16 bits give the other
 * rows several greatest elements, too. */
static void make_hard(CalibDtype dtype, uint16_t *logits, int32_t rows, int32_t vocab) {
  for (int64_t row = 0; row < rows && row < 4; row++) {
    for (int64_t i = 0; i < vocab; i++) {
      uint16_t *const at = &logits[row * vocab + i];
      if (row == 0) half_store(dtype, at, 0, 5);
      if (row == 1 && i != vocab / 2) half_store(dtype, at, 0, -INFINITY);
      if (row == 2 && i % 3 == 0) half_store(dtype, at, 0, NAN);
      if (row == 3) half_store(dtype, at, 0, i == vocab - 1 ? 60000 : (double)-i);
    }
  }
}

static void check_argmax(CalibDtype dtype, int32_t rows, int32_t vocab) {
  const int64_t n = (int64_t)rows * vocab;
  uint16_t *const logits = random_elements(dtype, n, 1, 25);
  make_hard(dtype, logits, rows, vocab);
  void *const on_device = device_copy(logits, (size_t)n * 2);
  void *const partial = device_alloc(kernel_argmax_workspace(rows, vocab));
  int32_t *const ids = device_alloc((size_t)rows * 4);
  const int status = kernel_argmax(NULL, dtype, ids, on_device, rows, vocab, partial);
  int32_t *const expected = malloc((size_t)rows * 4);
  expected_argmax(dtype, expected, logits, rows, vocab);
  int32_t *const got = device_fetch(ids, (size_t)rows * 4);
  expect_true(status == 0, "argmax returns %d", status);
  for (int32_t row = 0; row < rows; row++)
    expect_true(got[row] == expected[row], "argmax %d of row %d of %dx%d is %d and not %d", dtype,
                row, rows, vocab, got[row], expected[row]);
  free(logits);
  free(expected);
  free(got);
  device_free(on_device);
  device_free(partial);
  device_free(ids);
}

int main(int argc, char **argv) {
  static const int32_t ROWS[][2] = {{1, 8}, {17, 1000}, {129, 4096}, {17, 5120}, {3, 14336}};
  static const int32_t LOGITS[][2] = {{1, 1},    {5, 7},    {17, 1000}, {3, 8192}, {7, 8193},
                                      {5, 4002}, {4, 6284}, {4, 50257}, {129, 64}};
  const bool is_small = is_small_run(argc, argv);
  kernel_testing_begin("rows");
  for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
      if (is_small && ROWS[i][0] * ROWS[i][1] > 1 << 15) continue;
      device_seed(i);
      check_embedding(dtype, ROWS[i][0], ROWS[i][1], true);
      check_embedding(dtype, ROWS[i][0], ROWS[i][1], false);
    }
    for (size_t i = 0; i < sizeof LOGITS / sizeof *LOGITS; i++) {
      if (is_small && LOGITS[i][0] * LOGITS[i][1] > 1 << 16) continue;
      device_seed(i);
      check_argmax(dtype, LOGITS[i][0], LOGITS[i][1]);
    }
  }
  return kernel_testing_end();
}
