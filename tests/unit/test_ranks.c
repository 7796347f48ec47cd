/* The k-th smallest of a prefix. Pinned: what sorting the prefix gives, whatever the sequence and
 * however many of its numbers are equal. */
#include "base/ranks.h"
#include "base/rng.h"
#include "tests/unit/testing.h"
#include <stdlib.h>
#include <string.h>

TestSuite(ranks, .init = setup, .fini = teardown);

static int ascending(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

Test(ranks, a_prefix_is_as_if_it_were_sorted) {
  enum { MOST = 40 };
  for (uint64_t seed = 0; seed < 60; seed++) {
    Rng rng;
    rng_init(&rng, seed, "ranks");
    const uint32_t capacity = 1 + (uint32_t)rng_below(&rng, MOST);
    const uint32_t count = (uint32_t)rng_below(&rng, capacity + 1);
    const uint32_t below = 1 + (uint32_t)rng_below(&rng, capacity);
    uint32_t numbers[MOST], sorted[MOST];
    for (uint32_t i = 0; i < count; i++)
      numbers[i] = (uint32_t)rng_below(&rng, below);
    Ranks ranks;
    ranks_init(&ranks, capacity, &arena);
    ranks_build(&ranks, numbers, count / 2); // it may be built again
    ranks_build(&ranks, numbers, count);
    for (uint32_t n = 1; n <= count; n++) {
      memcpy(sorted, numbers, n * sizeof *sorted);
      qsort(sorted, n, sizeof *sorted, ascending);
      for (uint32_t k = 0; k < n; k++)
        cr_assert_eq(ranks_find(&ranks, n, k), sorted[k], "%u of %u, seed %llu", k, n,
                     (unsigned long long)seed);
    }
  }
}
