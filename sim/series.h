/* Decode iterations as an arithmetic series: the i-th of them lasts first + step·i ticks (DESIGN
 * §3). */
#ifndef SIM_SERIES_H
#define SIM_SERIES_H
#include "sim/base/units.h"
#include <assert.h>

typedef struct Series {
  Tick first, step; // step >= 0
} Series;

/* Ticks that the first `n` iterations take together. */
static inline Tick series_sum(Series self, int64_t n) {
  return self.first * n + self.step * (n * (n - 1) / 2);
}

/* How many iterations have ended `elapsed` >= 0 ticks after the series began: the largest n with
 * series_sum(n) <= elapsed. */
static inline int64_t series_ended(Series self, Tick elapsed) {
  assert(self.first > 0 && elapsed >= 0);
  int64_t n = elapsed / self.first; // an upper bound, since durations never shrink
  if (self.step == 0) return n;
  int64_t low = 0;
  while (low < n) {
    int64_t middle = low + (n - low + 1) / 2;
    if (series_sum(self, middle) <= elapsed)
      low = middle;
    else
      n = middle - 1;
  }
  return low;
}
#endif
