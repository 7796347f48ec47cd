/* Lists without repeats, and lists in order. Pinned: what is left of values ascends, and is what a
 * list of flags says; items in order stay where they are. Not pinned: speed. */
#include "base/rng.h"
#include "base/sort.h"
#include <criterion/criterion.h>
#include <string.h>

enum { VALUES = 6000, RANGE = 4096 };

static void check(int64_t range, size_t n) {
  static int64_t values[VALUES];
  static bool there[RANGE];
  Rng rng;
  rng_init(&rng, (uint64_t)range, "values");
  memset(there, 0, sizeof there);
  for (size_t i = 0; i < n; i++) {
    values[i] = (int64_t)rng_below(&rng, (uint64_t)range);
    there[values[i]] = true;
  }
  const size_t kept = sort_distinct(values, n);
  size_t at = 0;
  for (int64_t value = 0; value < range; value++)
    if (there[value]) {
      cr_expect(at < kept && values[at] == value);
      at++;
    }
  cr_expect_eq(at, kept);
  cr_expect_eq(sort_distinct(values, kept), kept);
}

Test(sort, distinct_values_ascend) {
  check(1, 1);
  check(10, 40);
  check(40, 10);
  check(1000, VALUES);
  check(RANGE, VALUES);
  check(RANGE, 1100);
  cr_expect_eq(sort_distinct(NULL, 0), 0);
}

static int compare_ends(const void *a, const void *b) {
  return compare_ints(*(const int64_t *const *)a, *(const int64_t *const *)b);
}

/* Those in order stay where they are, also equal ones. */
Test(sort, items_in_order_stay) {
  static const int64_t numbers[] = {1, 2, 2, 3};
  const int64_t *items[] = {&numbers[0], &numbers[2], &numbers[1], &numbers[3]};
  sort_items(items, 4, sizeof *items, compare_ends);
  cr_expect_eq(items[1], &numbers[2]);
  items[0] = &numbers[3];
  items[3] = &numbers[0];
  sort_items(items, 4, sizeof *items, compare_ends);
  for (int i = 0; i < 3; i++)
    cr_expect_leq(*items[i], *items[i + 1]);
  sort_items(NULL, 0, sizeof *items, compare_ends);
}
