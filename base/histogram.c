/* The parts of the histogram that are not on the hot path, and the series that spares it. */
#include "base/histogram.h"
#include <math.h>
#include <string.h>

void histogram_init(Histogram *self, Arena *arena) {
  *self = (Histogram){.arena = arena, .min = INT64_MAX, .max = -1};
}

void histogram_reach(Histogram *self, int64_t value) {
  enum { OCTAVE = 1 << HISTOGRAM_SUB_BITS };
  const size_t need = ((size_t)histogram_bucket(value) / OCTAVE + 1) * OCTAVE;
  self->max = value;
  if (need <= self->n_counts) return;
  self->counts = arena_resize(self->arena, self->counts, need * sizeof *self->counts);
  self->n_counts = need;
}

/* Octaves 0 and 1 both have buckets of width 1; from there on each doubles it. */
static int width_exponent(int index) {
  assert(index >= 0 && index < HISTOGRAM_BUCKETS);
  int octave = index >> HISTOGRAM_SUB_BITS;
  return octave > 0 ? octave - 1 : 0;
}

int64_t histogram_bucket_start(int index) {
  int exponent = width_exponent(index);
  return (int64_t)(index - (exponent << HISTOGRAM_SUB_BITS)) << exponent;
}

int64_t histogram_bucket_width(int index) {
  return INT64_C(1) << width_exponent(index);
}

/* Sums of the terms and of their squares, for step >= 0 (every addend is positive, so nothing
 * cancels): Σi = n(n−1)/2, Σi² = n(n−1)(2n−1)/6 over i < n. */
static void add_series_sums(Histogram *histogram, double first, double step, double n,
                            double weight) {
  double sum_i = n * (n - 1) / 2, sum_i_squares = n * (n - 1) * (2 * n - 1) / 6;
  histogram->sum += weight * (n * first + step * sum_i);
  histogram->sum_squares +=
      weight * (n * first * first + 2 * first * step * sum_i + step * step * sum_i_squares);
}

/* The last FineTick whose nearest tick falls in a bucket. */
static FineTick bucket_end(int bucket) {
  const int64_t last = histogram_bucket_start(bucket) + (histogram_bucket_width(bucket) - 1);
  return fine_from_ticks(last) + ((FineTick)1 << (FINE_BITS - 1)) - 1;
}

/* How many terms from one on lie within `room` of it: most often the numbers are of 64 bits, whose
 * division costs a third. */
static uint64_t terms_within(FineTick room, FineTick step) {
  if (room >> 63 == 0 && step >> 63 == 0) return (uint64_t)room / (uint64_t)step + 1;
  return (uint64_t)(room / step) + 1;
}

void histogram_add_series(Histogram *self, FineTick first, FineTick step, uint64_t count,
                          uint64_t weight) {
  if (count == 0 || weight == 0) return;
  const FineTick last = first + step * (FineTick)(count - 1);
  assert(first >= 0 && step >= 0);
  add_series_sums(self, fine_ticks(first), fine_ticks(step), (double)count, (double)weight);
  self->total += count * weight;
  if (tick_nearest(first) < self->min) self->min = tick_nearest(first);
  if (tick_nearest(last) > self->max) histogram_reach(self, tick_nearest(last));
  while (count > 0) {
    const int bucket = histogram_bucket(tick_nearest(first));
    const FineTick end = bucket_end(bucket);
    const uint64_t inside = last <= end ? count : terms_within(end - first, step);
    self->counts[bucket] += inside * weight;
    count -= inside;
    first += step * (FineTick)inside;
  }
}

void histogram_add_gaps(Histogram *self, Tick from, const Tick *times, size_t n, uint64_t weight) {
  if (n == 0 || weight == 0) return;
  Tick min = self->min;
  double sum = 0, sum_squares = 0;
  for (size_t i = 0; i < n; i++) {
    const Tick gap = times[i] - from;
    const double real = (double)gap;
    assert(gap >= 0);
    from = times[i];
    if (gap > self->max) histogram_reach(self, gap);
    self->counts[histogram_bucket(gap)] += weight;
    sum += real;
    sum_squares += real * real;
    if (gap < min) min = gap;
  }
  self->min = min;
  self->total += n * weight;
  self->sum += (double)weight * sum;
  self->sum_squares += (double)weight * sum_squares;
}

bool histogram_same_counts(const Histogram *self, const Histogram *other) {
  return self->total == other->total && self->min == other->min && self->max == other->max &&
         (self->total == 0 ||
          memcmp(self->counts, other->counts,
                 ((size_t)histogram_bucket(self->max) + 1) * sizeof *self->counts) == 0);
}

/* A bucket, and how many observations lie below it. */
typedef struct BucketPlace {
  int bucket;
  uint64_t below;
} BucketPlace;

/* Estimate of the observation of this rank (from 0, in ascending order), which is not below `from`:
 * those of a bucket are taken to lie evenly over it. The first and the last are known. */
static double order_statistic(const Histogram *histogram, uint64_t rank, BucketPlace *from) {
  assert(rank < histogram->total);
  if (rank == 0) return (double)histogram->min;
  if (rank + 1 == histogram->total) return (double)histogram->max;
  int bucket = from->bucket;
  uint64_t below = from->below;
  while (below + histogram->counts[bucket] <= rank)
    below += histogram->counts[bucket++];
  *from = (BucketPlace){bucket, below};
  double share = ((double)(rank - below) + 0.5) / (double)histogram->counts[bucket];
  double value =
      (double)histogram_bucket_start(bucket) + share * (double)(histogram_bucket_width(bucket) - 1);
  return fmin(fmax(value, (double)histogram->min), (double)histogram->max);
}

double histogram_quantile(const Histogram *self, double q) {
  assert(q >= 0 && q <= 1);
  return self->total == 0 ? 0 : histogram_at_rank(self, q * (double)(self->total - 1));
}

double histogram_at_rank(const Histogram *self, double position) {
  assert(self->total > 0 && position >= 0);
  uint64_t rank = (uint64_t)position;
  if (rank > self->total - 1) rank = self->total - 1; // a total beyond 2^53 may round up
  BucketPlace from = {histogram_bucket(self->min), 0};
  double lower = order_statistic(self, rank, &from), fraction = position - (double)rank;
  if (fraction <= 0 || rank + 1 == self->total) return lower;
  return lower + fraction * (order_statistic(self, rank + 1, &from) - lower);
}

uint64_t histogram_count_from(const Histogram *self, double value) {
  if (self->total == 0 || (double)self->max < value) return 0;
  int bucket = value > 0 ? histogram_bucket((int64_t)value) : 0;
  if ((double)histogram_bucket_start(bucket) < value) bucket++;
  uint64_t count = 0;
  for (const int last = histogram_bucket(self->max); bucket <= last; bucket++)
    count += self->counts[bucket];
  return count;
}

double histogram_mean(const Histogram *self) {
  return self->total ? self->sum / (double)self->total : 0;
}

double histogram_stddev(const Histogram *self) {
  if (self->total == 0) return 0;
  double mean = histogram_mean(self);
  return sqrt(fmax(0, self->sum_squares / (double)self->total - mean * mean));
}
