/* See sort.h. */
#include "base/sort.h"
#include <stdlib.h>
#include <string.h>

int compare_pairs(const int64_t pairs[][2], size_t n) {
  for (size_t i = 0; i < n; i++)
    if (pairs[i][0] != pairs[i][1]) return pairs[i][0] < pairs[i][1] ? -1 : 1;
  return 0;
}

int compare_ints(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void sort_items(void *items, size_t n, size_t size, int (*compare)(const void *, const void *)) {
  const char *item = items;
  size_t in_order = 1;
  for (; in_order < n && compare(item, item + size) <= 0; in_order++)
    item += size;
  if (in_order < n) qsort(items, n, size, compare);
}

void *find_item(const void *key, const void *items, size_t n, size_t size,
                int (*compare)(const void *, const void *)) {
  return n > 0 ? bsearch(key, items, n, size, compare) : NULL;
}

/* Adds a value to `n` that ascend, unless it is there. Returns how many there are. */
static size_t add_distinct(int64_t *values, size_t n, int64_t value) {
  size_t low = 0, high = n;
  if (n > 0 && values[n - 1] < value) low = n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (values[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < n && values[low] == value) return n;
  memmove(&values[low + 1], &values[low], (n - low) * sizeof *values);
  values[low] = value;
  return n + 1;
}

/* A few distinct values, or those in front, are found one by one. */
size_t sort_distinct(int64_t *values, size_t n) {
  enum { FEW = 1024 };
  size_t kept = 0, taken = 0;
  while (taken < n && kept < FEW)
    kept = add_distinct(values, kept, values[taken++]);
  if (taken == n) return kept;
  memmove(values + kept, values + taken, (n - taken) * sizeof *values);
  n -= taken - kept;
  sort_items(values, n, sizeof *values, compare_ints);
  kept = 0;
  for (size_t i = 0; i < n; i++)
    if (kept == 0 || values[i] != values[kept - 1]) values[kept++] = values[i];
  return kept;
}
