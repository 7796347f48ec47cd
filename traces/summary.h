/* What a trace looks like in numbers, gathered row by row in memory that does not grow with it.
 *
 * Means, extremes and the coefficient of variation are exact. Percentiles are those of Histogram,
 * within 0.4% (exact below 256 tokens). The rank correlation is exact up to SUMMARY_SAMPLE rows and
 * that of a uniform sample of so many rows beyond. */
#ifndef TRACES_SUMMARY_H
#define TRACES_SUMMARY_H
#include "base/histogram.h"
#include "base/rng.h"
#include "traces/trace.h"

enum { SUMMARY_SAMPLE = 1 << 16 };

typedef struct TraceSummary {
  Histogram prompt_tokens, output_tokens, gap_ticks;
  int64_t rows;
  Tick first, last;
  int32_t (*sample)[2]; // [SUMMARY_SAMPLE] prompt and output
  Rng sampling;
  Arena *arena;
} TraceSummary;

void summary_init(TraceSummary *self, Arena *arena);
void summary_add(TraceSummary *self, const TraceRow *row);
/* Requests per second from the first row to the last: (rows - 1) / span; NAN without a span. */
double summary_rate(const TraceSummary *self);
/* Standard deviation of the gaps over their mean; NAN without a span. */
double summary_gap_cv(const TraceSummary *self);
/* Spearman's rank correlation of prompt and output; NAN if either is constant. */
double summary_correlation(const TraceSummary *self);
#endif
