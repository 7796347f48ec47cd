/* Samples of one point: what they say, and when there are enough of them.
 *
 * The interval of the median is made of two of the samples, whatever their distribution: with n
 * samples in order, the r-th from either end enclose the median with probability
 * 1 − 2·P(Binomial(n, 1/2) < r); r is the largest that keeps it at 95%. Fewer than 6 samples cannot
 * say so much: theirs is from the least to the greatest. Never a mean: one interrupt moves it. */
#ifndef CALIB_STATISTICS_H
#define CALIB_STATISTICS_H
#include <stddef.h>

enum { SAMPLES_LEAST = 7, SAMPLES_MOST = 1000 };

/* Enough: `min_samples` and `min_seconds` and an interval of half-width <= `half_width` of the
 * median; or else `max_samples` or `max_seconds`, but SAMPLES_LEAST in any case. */
typedef struct SampleLimits {
  int min_samples, max_samples;    // 10, 100
  double min_seconds, max_seconds; // measured in all: 0.05, 0.4
  double half_width;               // 0.01
} SampleLimits;

extern const SampleLimits sample_limits_default;
/* Limits for a run that has only `share` (0 to 1) of the time it wants: fewer seconds, down to a
 * quarter, and samples. */
SampleLimits sample_limits_shrink(const SampleLimits *self, double share);

typedef enum SampleStop { SAMPLE_MORE, SAMPLE_INTERVAL, SAMPLE_COUNT, SAMPLE_TIME } SampleStop;
/* "interval", "samples", "time": the column `stop` of a profile. */
const char *sample_stop_name(SampleStop stop);

/* Sorted samples, none of them NAN. */
typedef struct Samples {
  double values[SAMPLES_MOST];
  int n;
} Samples;

typedef struct SampleStatistics {
  int n, outliers; // further than 5 MAD from the median
  double median, mad, p10, p90;
  double low, high; // the interval of the median
} SampleStatistics;

/* Adds one in order; there must be room. */
void samples_add(Samples *self, double value);
/* n >= 1. */
SampleStatistics samples_statistics(const Samples *self);
/* Ranks from 0 of the interval's ends, for n >= 1. */
void samples_interval(int n, int *ret_low, int *ret_high);
/* Whether to stop after `seconds` of measuring in all. */
SampleStop samples_stop(const Samples *self, const SampleLimits *limits, double seconds);
#endif
