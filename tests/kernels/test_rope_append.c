/* kernel_rope_append against its reference: q in place, K and V in their slots, and nothing else
 * written. */
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

typedef struct Case {
  int32_t query_heads, kv_heads, head_dim, block_size, tokens;
} Case;

static const Case CASES[] = {
    {8, 1, 128, 16, 17}, {64, 8, 128, 16, 3}, {7, 7, 64, 32, 129},
    {9, 3, 64, 16, 1},   {14, 2, 128, 64, 5}, {1, 1, 64, 16, 129},
};

static const float THETA = 500000;
static const float EPSILON = 1e-5f; // the reference's

/* A pool with two pages to spare, and tokens in random slots of it. */
typedef struct Pool {
  int64_t n;
  uint16_t *elements;
  int32_t *slots, *positions;
} Pool;

static Pool make_pool(CalibDtype dtype, Case c) {
  const int32_t pages = c.tokens / c.block_size + 3;
  const int64_t n = (int64_t)pages * 2 * c.kv_heads * c.block_size * c.head_dim;
  Pool pool = {n, random_elements(dtype, n, 1, 7), random_order(pages * c.block_size, 8),
               malloc((size_t)c.tokens * sizeof(int32_t))};
  uint64_t state = 9;
  for (int32_t t = 0; t < c.tokens; t++)
    pool.positions[t] = t == 0 ? 131071 : (int32_t)random_below(&state, 8192);
  return pool;
}

/* Of qkv rows, the error of q; k and v must be what they were. */
static double check_rows(CalibDtype dtype, Case c, const uint16_t *got, const uint16_t *before,
                         const double *q, bool *ret_untouched) {
  const int64_t q_columns = (int64_t)c.query_heads * c.head_dim;
  const int64_t kv_columns = 2 * (int64_t)c.kv_heads * c.head_dim;
  const int64_t columns = q_columns + kv_columns;
  double greatest = 0;
  *ret_untouched = true;
  for (int64_t t = 0; t < c.tokens; t++) {
    const double error =
        greatest_error(dtype, got + t * columns, q + t * q_columns, q_columns, 0.05);
    if (error > greatest) greatest = error;
    const int64_t kv = t * columns + q_columns;
    if (memcmp(got + kv, before + kv, (size_t)kv_columns * 2) != 0) *ret_untouched = false;
  }
  return greatest;
}

static void check(CalibDtype dtype, Case c, bool rotates, bool norms) {
  const int64_t columns = ((int64_t)c.query_heads + 2 * c.kv_heads) * c.head_dim;
  const size_t qkv_bytes = (size_t)(c.tokens * columns * 2);
  uint16_t *const qkv = random_elements(dtype, c.tokens * columns, 1, 6);
  Pool pool = make_pool(dtype, c);
  uint16_t *const weights = random_elements(dtype, 2 * c.head_dim, 1, 10);
  uint16_t *const on_device_weights = device_copy(weights, (size_t)c.head_dim * 4);
  const KernelHeadNorms none = {.epsilon = EPSILON};
  const KernelHeadNorms host = {weights, weights + c.head_dim, EPSILON};
  const KernelHeadNorms device = {on_device_weights, on_device_weights + c.head_dim, EPSILON};
  KernelAttention shape = {.dtype = dtype,
                           .query_heads = c.query_heads,
                           .kv_heads = c.kv_heads,
                           .head_dim = c.head_dim,
                           .block_size = c.block_size};
  void *const on_device = device_copy(qkv, qkv_bytes);
  void *const kv_pages = device_copy(pool.elements, (size_t)pool.n * 2);
  int32_t *const slots = device_copy(pool.slots, (size_t)c.tokens * 4);
  int32_t *const positions = device_copy(pool.positions, (size_t)c.tokens * 4);
  const int status =
      kernel_rope_append(NULL, &shape, on_device, kv_pages, slots, rotates ? positions : NULL,
                         THETA, norms ? device : none, c.tokens);
  expect_true(status == 0, "rope_append returns %d", status);

  double *const q = malloc((size_t)c.tokens * (size_t)c.query_heads * (size_t)c.head_dim * 8);
  double *const expected = decoded(dtype, pool.elements, pool.n);
  expected_rope_append(&shape, q, expected, qkv, pool.slots, rotates ? pool.positions : NULL,
                       (double)THETA, norms ? host : none, c.tokens);
  uint16_t *const got = device_fetch(on_device, qkv_bytes);
  uint16_t *const pages = device_fetch(kv_pages, (size_t)pool.n * 2);
  bool is_untouched;
  const double error = check_rows(dtype, c, got, qkv, q, &is_untouched);
  expect_error_below(error, half_error(dtype), "q, %d heads of %d, rotated %d, normed %d",
                     c.query_heads, c.head_dim, rotates, norms);
  expect_true(is_untouched, "K and V stay in qkv as they were");
  expect_error_below(greatest_error(dtype, pages, expected, pool.n, 0.05), half_error(dtype),
                     "pool, %d heads of %d, rotated %d, normed %d", c.kv_heads, c.head_dim, rotates,
                     norms);
  free(qkv);
  free(weights);
  device_free(on_device_weights);
  free(q);
  free(expected);
  free(got);
  free(pages);
  free(pool.elements);
  free(pool.slots);
  free(pool.positions);
  device_free(on_device);
  device_free(kv_pages);
  device_free(slots);
  device_free(positions);
}

int main(int argc, char **argv) {
  const bool is_small = is_small_run(argc, argv);
  kernel_testing_begin("rope_append");
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    if (is_small && CASES[i].tokens > 17) continue;
    device_seed(i);
    for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
      for (int way = 0; way < 4; way++)
        check(dtype, CASES[i], way % 2 == 0, way / 2 == 1);
    }
  }
  return kernel_testing_end();
}
