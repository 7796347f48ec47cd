/* kernel_kv_gather and kernel_kv_scatter: every byte of the pages, and no other. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

typedef struct Case {
  int32_t n_pages, pool_pages;
  int64_t page_bytes;
} Case;

/* Pages of one vector, of less and more than the part of a block, and of a real model. */
static const Case CASES[] = {
    {1, 2, 16}, {5, 8, 4112}, {33, 40, 8192}, {7, 9, 40000}, {129, 200, 16384},
};

static unsigned char *random_bytes(int64_t n, uint64_t seed) {
  unsigned char *const bytes = malloc((size_t)n);
  for (int64_t i = 0; i < n; i++)
    bytes[i] = (unsigned char)random_below(&seed, 256);
  return bytes;
}

/* What the kernels so far left in the buffer. */
static unsigned char *contents(const void *buffer, size_t bytes, bool is_pinned,
                               const int32_t *on_device) {
  if (!is_pinned) return device_fetch(buffer, bytes);
  device_download(&(int32_t){0}, on_device, sizeof *on_device); // waits
  return memcpy(malloc(bytes), buffer, bytes);
}

/* The buffer is memory of the device, or pinned memory of the host. */
static void check(Case c, bool is_pinned) {
  const size_t pool_bytes = (size_t)(c.pool_pages * c.page_bytes);
  const size_t bytes = (size_t)(c.n_pages * c.page_bytes);
  unsigned char *const pool = random_bytes((int64_t)pool_bytes, 31);
  unsigned char *const other = random_bytes((int64_t)pool_bytes, 32);
  int32_t *const pages = random_order(c.pool_pages, 33);
  void *const from = device_copy(pool, pool_bytes), *const to = device_copy(other, pool_bytes);
  int32_t *const table = device_copy(pages, (size_t)c.n_pages * 4);
  void *const buffer = is_pinned ? device_alloc_pinned(bytes) : device_alloc(bytes);

  const int gathered = kernel_kv_gather(NULL, buffer, from, table, c.n_pages, c.page_bytes);
  unsigned char *const got = contents(buffer, bytes, is_pinned, table);
  unsigned char *const expected = malloc(bytes);
  expected_kv_gather(expected, pool, pages, c.n_pages, c.page_bytes);
  expect_true(gathered == 0 && memcmp(got, expected, bytes) == 0,
              "gather of %d pages of %lld bytes, pinned %d", c.n_pages, (long long)c.page_bytes,
              is_pinned);

  const int scattered = kernel_kv_scatter(NULL, to, buffer, table, c.n_pages, c.page_bytes);
  unsigned char *const pool_after = device_fetch(to, pool_bytes);
  expected_kv_scatter(other, expected, pages, c.n_pages, c.page_bytes);
  expect_true(scattered == 0 && memcmp(pool_after, other, pool_bytes) == 0,
              "scatter of %d pages of %lld bytes, pinned %d", c.n_pages, (long long)c.page_bytes,
              is_pinned);
  free(pool);
  free(other);
  free(pages);
  free(got);
  free(expected);
  free(pool_after);
  device_free(from);
  device_free(to);
  device_free(table);
  if (is_pinned)
    device_free_pinned(buffer);
  else
    device_free(buffer);
}

int main(int argc, char **argv) {
  const bool is_small = is_small_run(argc, argv);
  kernel_testing_begin("kv_copy");
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    if (is_small && CASES[i].n_pages > 33) continue;
    device_seed(i);
    check(CASES[i], false);
    check(CASES[i], true);
  }
  expect_true(kernel_kv_gather(NULL, NULL, NULL, NULL, 1, 24) != 0,
              "a page that is no whole number of vectors is refused");
  return kernel_testing_end();
}
