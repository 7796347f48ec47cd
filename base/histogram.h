/* Log-linear histogram of non-negative 64-bit values (ticks, tokens, fixed-point ratios).
 *
 * Error: a value is known to within 1/256 of itself (0.4%), so a quantile, which interpolates
 * inside its bucket, is off by at most that; values below 256 are exact. Range: all of 0 …
 * INT64_MAX. Memory: 2 KiB for each octave up to that of the largest value, 114 KiB at most; none
 * while it is empty. Mean, minimum and maximum are exact: they are kept beside the counters.
 *
 * Layout: value v with top bit 2^e, e >= 8, falls in octave e - 7, in one of 256 equal sub-buckets
 * of width 2^(e-8); octave 0 holds 0 … 255 one by one. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H
#include "base/arena.h"
#include "base/units.h"
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  HISTOGRAM_SUB_BITS = 8,
  HISTOGRAM_BUCKETS = (64 - HISTOGRAM_SUB_BITS) << HISTOGRAM_SUB_BITS
};

typedef struct Histogram {
  Arena *arena;
  uint64_t *counts; // [n_counts] of the lowest buckets; all others are 0
  size_t n_counts;
  uint64_t total;
  int64_t min, max; // INT64_MAX and -1 while total is 0
  double sum, sum_squares;
} Histogram;

void histogram_init(Histogram *self, Arena *arena);
/* The bucket that holds `value` (>= 0). */
static inline int histogram_bucket(int64_t value) {
  int exponent =
      63 - HISTOGRAM_SUB_BITS - __builtin_clzll((uint64_t)value | 1 << HISTOGRAM_SUB_BITS);
  return (exponent << HISTOGRAM_SUB_BITS) + (int)(value >> exponent);
}
/* What bucket `index` counts. */
static inline uint64_t histogram_count(const Histogram *self, int index) {
  return (size_t)index < self->n_counts ? self->counts[index] : 0;
}
/* private: makes `value` the largest, with room to count it. */
void histogram_reach(Histogram *self, int64_t value);
/* Adds `weight` observations of `value` (>= 0, asserted). Inline: a run adds one per token. */
static inline void histogram_add(Histogram *self, int64_t value, uint64_t weight) {
  assert(value >= 0);
  if (weight == 0) return;
  double times = (double)weight, real = (double)value;
  if (value > self->max) histogram_reach(self, value);
  self->counts[histogram_bucket(value)] += weight;
  self->total += weight;
  self->sum += times * real;
  self->sum_squares += times * real * real;
  if (value < self->min) self->min = value;
}
/* Adds `weight` observations of each of the `n` gaps from `from` to times[0], times[1], …, which
 * never fall; the same as adding them one by one, but for rounding of the mean. */
void histogram_add_gaps(Histogram *self, Tick from, const Tick *times, size_t n, uint64_t weight);
/* Adds `weight` observations of the nearest tick of each of first, first + step, … (`count` terms,
 * all >= 0; step >= 0), in time proportional to the buckets crossed, with the same counters as
 * adding them one by one; the mean is that of the terms. */
void histogram_add_series(Histogram *self, FineTick first, FineTick step, uint64_t count,
                          uint64_t weight);
/* Whether the same values were added as often; sums, whose last bits hang on the order, apart. */
bool histogram_same_counts(const Histogram *self, const Histogram *other);
/* Quantile q in [0, 1] with linear interpolation inside the bucket, clamped to [min, max], which
 * are those of 0 and 1; 0 if empty. The rank convention is numpy's linear one: q·(total − 1). */
double histogram_quantile(const Histogram *self, double q);
/* The same at a rank from 0 to total - 1, which need not be whole; not empty. */
double histogram_at_rank(const Histogram *self, double position);
/* Observations known to be at or above `value`: those in buckets that begin there or later. */
uint64_t histogram_count_from(const Histogram *self, double value);
double histogram_mean(const Histogram *self);
/* Population standard deviation. */
double histogram_stddev(const Histogram *self);
/* Lowest value of bucket `index` and the bucket's width, for export. */
int64_t histogram_bucket_start(int index);
int64_t histogram_bucket_width(int index);
#endif
