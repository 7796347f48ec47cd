/* A table of times over whole numbers, as AIConfigurator's are: points (key, …, time), between
 * which times are linear in each key.
 *
 * Tables need not be full: each key is looked up among the points that have the keys before it.
 * Below the first point a time is that of the first; above the last it is in proportion to it. */
#ifndef PERFMODEL_IMPORT_AIC_TABLE_H
#define PERFMODEL_IMPORT_AIC_TABLE_H
#include "base/arena.h"
#include <stdint.h>

enum {
  AIC_KEYS = 4,
  AIC_KEY_MAX = 1 << 30, // of a key
};

typedef struct AicPoint {
  int64_t key[AIC_KEYS]; // 0 past n_keys
  double us;
} AicPoint;

typedef struct AicTable {
  int n_keys;
  AicPoint *points; // by keys, each once
  size_t n_points, capacity;
} AicTable;

/* Points of one table that agree in their first `depth` keys. */
typedef struct AicSlice {
  const AicPoint *points;
  size_t n;
  int depth, n_keys;
} AicSlice;

void aic_table_add(AicTable *self, const AicPoint *point, Arena *arena);
/* After the last point was added. Of points with equal keys the least time stays: engines pick the
 * fastest of the kernels that they have. */
void aic_table_sort(AicTable *self);
/* Takes what is slower than 1.3 of the least time of any larger last key, all others equal, for a
 * disturbed measurement: a batch can be padded. Its time becomes that least one. */
void aic_table_level(AicTable *self);
AicSlice aic_table_all(const AicTable *self);
/* The largest value of the next key; 0 of an empty slice. */
int64_t aic_slice_last(AicSlice self);
/* Microseconds at `keys`, those that are left; the slice must not be empty. */
double aic_slice_eval(AicSlice self, const double *keys);
#endif
