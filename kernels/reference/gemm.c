/* C = A·Wᵀ as it is written down, and by blocks. */
#include <stdlib.h>

#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"

static double finish(const GemmShape *shape, double sum, const void *bias, int64_t column) {
  if (shape->epilogue != GEMM_PLAIN) sum += half_load(shape->dtype, bias, column);
  if (shape->epilogue == GEMM_BIAS_GELU) return reference_activate(CALIB_GELU, sum);
  if (shape->epilogue == GEMM_BIAS_RELU) return reference_activate(CALIB_RELU, sum);
  return sum;
}

double reference_gemm_at(const GemmShape *shape, const void *a, const void *w, const void *bias,
                         int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < shape->k; i++)
    sum += half_load(shape->dtype, a, row * shape->k + i) *
           half_load(shape->dtype, w, column * shape->k + i);
  return finish(shape, sum, bias, column);
}

void reference_gemm(const GemmShape *shape, double *c, const void *a, const void *w,
                    const void *bias) {
  for (int64_t row = 0; row < shape->m; row++)
    for (int64_t column = 0; column < shape->n; column++)
      c[row * shape->n + column] = reference_gemm_at(shape, a, w, bias, row, column);
}

enum { BLOCK_ROWS = 64, BLOCK_DEPTH = 256 }; // two blocks of doubles are 256 KB, an L2

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Part of a matrix of `depth` columns, converted once: to[rows][width]. */
static void unpack(CalibDtype dtype, double *to, const void *from, int64_t depth, int64_t row,
                   int64_t rows, int64_t at, int64_t width) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++)
      to[i * width + j] = half_load(dtype, from, (row + i) * depth + at + j);
}

/* c[rows][columns] of row stride n += a[rows][width] · w[columns][width]ᵀ. */
static void add_product(double *c, int64_t n, const double *a, int64_t rows, const double *w,
                        int64_t columns, int64_t width) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      double sum[4] = {0, 0, 0, 0}; // independent sums, so that additions overlap
      int64_t l = 0;
      for (; l + 4 <= width; l += 4)
        for (int part = 0; part < 4; part++)
          sum[part] += a[i * width + l + part] * w[j * width + l + part];
      for (; l < width; l++)
        sum[0] += a[i * width + l] * w[j * width + l];
      c[i * n + j] += sum[0] + sum[1] + sum[2] + sum[3];
    }
  }
}

void reference_gemm_blocked(const GemmShape *shape, double *c, const void *a, const void *w,
                            const void *bias) {
  const int64_t m = shape->m, n = shape->n, k = shape->k;
  double *const a_block = malloc(2 * BLOCK_ROWS * BLOCK_DEPTH * sizeof *a_block);
  double *const w_block = a_block + BLOCK_ROWS * BLOCK_DEPTH;
  if (!a_block) abort();
  for (int64_t i = 0; i < m * n; i++)
    c[i] = 0;
  for (int64_t column = 0; column < n; column += BLOCK_ROWS) {
    const int64_t columns = least(BLOCK_ROWS, n - column);
    for (int64_t at = 0; at < k; at += BLOCK_DEPTH) {
      const int64_t width = least(BLOCK_DEPTH, k - at);
      unpack(shape->dtype, w_block, w, k, column, columns, at, width);
      for (int64_t row = 0; row < m; row += BLOCK_ROWS) {
        const int64_t rows = least(BLOCK_ROWS, m - row);
        unpack(shape->dtype, a_block, a, k, row, rows, at, width);
        add_product(c + row * n + column, n, a_block, rows, w_block, columns, width);
      }
    }
  }
  for (int64_t i = 0; i < m * n; i++)
    c[i] = finish(shape, c[i], bias, i % n);
  free(a_block);
}
