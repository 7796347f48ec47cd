/* See sort.h. */
#include "base/sort.h"
#include <stdlib.h>

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

size_t sort_distinct(int64_t *values, size_t n) {
  size_t kept = 0;
  sort_items(values, n, sizeof *values, compare_ints);
  for (size_t i = 0; i < n; i++)
    if (kept == 0 || values[i] != values[kept - 1]) values[kept++] = values[i];
  return kept;
}
