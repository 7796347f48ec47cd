/* Slices are runs of the sorted points, found by bisection. */
#include "perfmodel/compose/kernel_table.h"
#include "base/sort.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int compare_keys(const KernelPoint *a, const KernelPoint *b) {
  for (int i = 0; i < KERNEL_KEYS; i++)
    if (a->key[i] != b->key[i]) return a->key[i] < b->key[i] ? -1 : 1;
  return 0;
}

static int compare_points(const void *a, const void *b) {
  const KernelPoint *left = a, *right = b;
  const int order = compare_keys(left, right);
  return order ? order : (left->us > right->us) - (left->us < right->us);
}

void kernel_table_add(KernelTable *self, const KernelPoint *point, Arena *arena) {
  ARENA_RESERVE(arena, self->points, self->capacity, self->n_points + 1);
  self->points[self->n_points++] = *point;
}

void kernel_table_sort(KernelTable *self) {
  size_t n = 0;
  sort_items(self->points, self->n_points, sizeof *self->points, compare_points);
  for (size_t i = 0; i < self->n_points; i++)
    if (n == 0 || compare_keys(&self->points[n - 1], &self->points[i]) != 0)
      self->points[n++] = self->points[i];
  self->n_points = n;
}

static bool same_but_last(const KernelTable *self, const KernelPoint *a, const KernelPoint *b) {
  for (int i = 0; i + 1 < self->n_keys; i++)
    if (a->key[i] != b->key[i]) return false;
  return true;
}

void kernel_table_level(KernelTable *self) {
  static const double DISTURBED = 1.3;
  double least = INFINITY;
  for (size_t i = self->n_points; i-- > 0;) {
    KernelPoint *point = &self->points[i];
    if (i + 1 < self->n_points && !same_but_last(self, point, point + 1)) least = INFINITY;
    if (point->us > DISTURBED * least) point->us = least;
    least = fmin(least, point->us);
  }
}

KernelSlice kernel_table_all(const KernelTable *self) {
  return (KernelSlice){self->points, self->n_points, 0, self->n_keys};
}

/* How many points have a next key below `key`. */
static size_t count_below(KernelSlice self, double key) {
  size_t low = 0, high = self.n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if ((double)self.points[middle].key[self.depth] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

KernelSlice kernel_slice_at(KernelSlice self, int64_t key) {
  assert(self.depth < self.n_keys);
  const size_t begin = count_below(self, (double)key), end = count_below(self, (double)key + 1);
  return (KernelSlice){self.points + begin, end - begin, self.depth + 1, self.n_keys};
}

int64_t kernel_slice_last(KernelSlice self) {
  return self.n > 0 ? self.points[self.n - 1].key[self.depth] : 0;
}

double kernel_slice_eval(KernelSlice self, const double *keys) {
  assert(self.n > 0);
  if (self.depth == self.n_keys) return self.points[0].us;
  const int64_t last = kernel_slice_last(self), first = self.points[0].key[self.depth];
  const double key = fmax(*keys, (double)first);
  if (key > (double)last)
    return kernel_slice_eval(kernel_slice_at(self, last), keys + 1) * key / fmax(1, (double)last);
  const size_t next = count_below(self, key);
  const int64_t above = self.points[next].key[self.depth];
  const double high = kernel_slice_eval(kernel_slice_at(self, above), keys + 1);
  if ((double)above == key) return high;
  const int64_t below = self.points[next - 1].key[self.depth];
  const double low = kernel_slice_eval(kernel_slice_at(self, below), keys + 1);
  return low + (high - low) * (key - (double)below) / (double)(above - below);
}

double kernel_table_held_out(const KernelTable *self, int64_t least) {
  assert(self->n_keys == 1);
  double sum = 0;
  int n = 0;
  for (size_t i = 1; i + 1 < self->n_points; i++) {
    const KernelPoint *low = &self->points[i - 1], *point = &self->points[i], *high = point + 1;
    if (point->key[0] < least) continue;
    const double part =
        (double)(point->key[0] - low->key[0]) / (double)(high->key[0] - low->key[0]);
    sum += fabs((low->us + part * (high->us - low->us)) / point->us - 1);
    n++;
  }
  return n > 0 ? sum / n : 0;
}
