/* Order statistics of few samples. */
#include "calib/statistics.h"
#include <assert.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

const SampleLimits sample_limits_default = {.min_samples = 10,
                                            .max_samples = 100,
                                            .min_seconds = 0.05,
                                            .max_seconds = 0.4,
                                            .half_width = 0.01};

static int at_least(int value, int least) {
  return value < least ? least : value;
}

SampleLimits sample_limits_shrink(const SampleLimits *self, double share) {
  const double factor = fmin(1, fmax(0.25, share));
  SampleLimits limits = *self;
  limits.min_samples = at_least((int)(factor * self->min_samples), SAMPLES_LEAST);
  limits.max_samples = at_least((int)(factor * self->max_samples), limits.min_samples);
  limits.min_seconds = factor * self->min_seconds;
  limits.max_seconds = factor * self->max_seconds;
  return limits;
}

const char *sample_stop_name(SampleStop stop) {
  static const char *const names[] = {"", "interval", "samples", "time"};
  return names[stop];
}

void samples_add(Samples *self, double value) {
  assert(self->n < SAMPLES_MOST && !isnan(value));
  int at = self->n++;
  for (; at > 0 && self->values[at - 1] > value; at--)
    self->values[at] = self->values[at - 1];
  self->values[at] = value;
}

/* The deviations grow from the median to both ends, so merging them sorts them. */
static double deviation(const Samples *self, double median) {
  double sorted[SAMPLES_MOST];
  int right = 0;
  while (right < self->n && self->values[right] < median)
    right++;
  for (int i = 0, left = right - 1; i < self->n; i++) {
    const double below = left >= 0 ? median - self->values[left] : INFINITY;
    const double above = right < self->n ? self->values[right] - median : INFINITY;
    sorted[i] = fmin(below, above);
    below <= above ? left-- : right++;
  }
  return gsl_stats_median_from_sorted_data(sorted, 1, (size_t)self->n);
}

void samples_interval(int n, int *ret_low, int *ret_high) {
  assert(n >= 1 && n <= SAMPLES_MOST);
  double term = ldexp(1, -n), below = 0; // P(X = r), P(X < r) of Binomial(n, 1/2)
  int rank = 0;                          // as many samples are left out at either end
  for (int r = 0; r < n / 2; r++) {
    below += term;
    if (2 * below > 0.05) break;
    rank = r;
    term *= (double)(n - r) / (r + 1);
  }
  *ret_low = rank;
  *ret_high = n - 1 - rank;
}

SampleStatistics samples_statistics(const Samples *self) {
  assert(self->n >= 1);
  int low, high;
  samples_interval(self->n, &low, &high);
  const double median = gsl_stats_median_from_sorted_data(self->values, 1, (size_t)self->n);
  SampleStatistics statistics = {
      .n = self->n,
      .median = median,
      .mad = deviation(self, median),
      .p10 = gsl_stats_quantile_from_sorted_data(self->values, 1, (size_t)self->n, 0.1),
      .p90 = gsl_stats_quantile_from_sorted_data(self->values, 1, (size_t)self->n, 0.9),
      .low = self->values[low],
      .high = self->values[high]};
  for (int i = 0; i < self->n; i++)
    statistics.outliers += fabs(self->values[i] - median) > 5 * statistics.mad;
  return statistics;
}

SampleStop samples_stop(const Samples *self, const SampleLimits *limits, double seconds) {
  if (self->n < SAMPLES_LEAST) return SAMPLE_MORE;
  if (self->n >= limits->min_samples && seconds >= limits->min_seconds) {
    const SampleStatistics statistics = samples_statistics(self);
    if (statistics.high - statistics.low <= 2 * limits->half_width * statistics.median)
      return SAMPLE_INTERVAL;
  }
  if (self->n >= limits->max_samples || self->n == SAMPLES_MOST) return SAMPLE_COUNT;
  return seconds >= limits->max_seconds ? SAMPLE_TIME : SAMPLE_MORE;
}
