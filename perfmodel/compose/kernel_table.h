/* A table of times over whole numbers, as AIConfigurator's are: points (key, …, time), between
 * which times are linear in each key.
 *
 * Tables need not be full: each key is looked up among the points that have the keys before it.
 * Below the first point a time is that of the first; above the last it is in proportion to it. */
#ifndef PERFMODEL_COMPOSE_KERNEL_TABLE_H
#define PERFMODEL_COMPOSE_KERNEL_TABLE_H
#include "base/arena.h"
#include <stdint.h>

enum {
  KERNEL_KEYS = 4,
  KERNEL_KEY_MAX = 1 << 30, // of a key
};

typedef struct KernelPoint {
  int64_t key[KERNEL_KEYS]; // 0 past n_keys
  double us;
} KernelPoint;

typedef struct KernelTable {
  int n_keys;
  KernelPoint *points; // by keys, each once
  size_t n_points, capacity;
} KernelTable;

/* Points of one table that agree in their first `depth` keys. */
typedef struct KernelSlice {
  const KernelPoint *points;
  size_t n;
  int depth, n_keys;
} KernelSlice;

void kernel_table_add(KernelTable *self, const KernelPoint *point, Arena *arena);
/* After the last point was added. Of points with equal keys the least time stays: engines pick the
 * fastest of the kernels that they have. */
void kernel_table_sort(KernelTable *self);
/* Takes what is slower than 1.3 of the least time of any larger last key, all others equal, for a
 * disturbed measurement: a batch can be padded. Its time becomes that least one. */
void kernel_table_level(KernelTable *self);
KernelSlice kernel_table_all(const KernelTable *self);
/* The points whose next key is `key`; n is 0 where there are none. */
KernelSlice kernel_slice_at(KernelSlice self, int64_t key);
/* The largest value of the next key; 0 of an empty slice. */
int64_t kernel_slice_last(KernelSlice self);
/* Of a table over one key: the mean relative error of its points at `least` and above by the line
 * between their two neighbours. The first and the last one, which have one, are left out; 0: there
 * are no others. */
double kernel_table_held_out(const KernelTable *self, int64_t least);
/* Microseconds at `keys`, those that are left; the slice must not be empty. */
double kernel_slice_eval(KernelSlice self, const double *keys);
#endif
