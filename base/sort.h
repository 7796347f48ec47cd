/* Orders that lists are sorted by. */
#ifndef BASE_SORT_H
#define BASE_SORT_H
#include <stddef.h>
#include <stdint.h>

/* −1, 0 or 1 by the first of the pairs (left, right) that differ. */
int compare_pairs(const int64_t pairs[][2], size_t n);
/* Of two int64_t, for qsort and bsearch. */
int compare_ints(const void *a, const void *b);
/* qsort and bsearch, which must not be given NULL, as a list is that nothing was added to. Items
 * that are in order stay as they are, at the cost of a pass. */
void sort_items(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));
void *find_item(const void *key, const void *items, size_t n, size_t size,
                int (*compare)(const void *, const void *));
/* Ascending, without repeats. Returns how many are left. */
size_t sort_distinct(int64_t *values, size_t n);
#endif
