/* Statistics of a trace. */
#include "traces/summary.h"
#include <gsl/gsl_statistics_double.h>
#include <math.h>

void summary_init(TraceSummary *self, Arena *arena) {
  *self = (TraceSummary){.arena = arena};
  histogram_init(&self->prompt_tokens, arena);
  histogram_init(&self->output_tokens, arena);
  histogram_init(&self->gap_ticks, arena);
  self->sample = arena_alloc(arena, SUMMARY_SAMPLE * sizeof *self->sample);
  rng_init(&self->sampling, 0, "trace_summary");
}

void summary_add(TraceSummary *self, const TraceRow *row) {
  histogram_add(&self->prompt_tokens, row->prompt_tokens, 1);
  histogram_add(&self->output_tokens, row->output_tokens, 1);
  if (self->rows > 0) histogram_add(&self->gap_ticks, row->at - self->last, 1);
  if (self->rows == 0) self->first = row->at;
  self->last = row->at;
  /* Reservoir sampling: the i-th row stays with probability SUMMARY_SAMPLE / i. */
  uint64_t slot = (uint64_t)self->rows++;
  if (slot >= SUMMARY_SAMPLE) slot = rng_below(&self->sampling, slot + 1);
  if (slot >= SUMMARY_SAMPLE) return;
  self->sample[slot][0] = row->prompt_tokens;
  self->sample[slot][1] = row->output_tokens;
}

double summary_rate(const TraceSummary *self) {
  if (self->last == self->first) return NAN;
  return (double)(self->rows - 1) / tick_seconds(self->last - self->first);
}

double summary_gap_cv(const TraceSummary *self) {
  if (self->last == self->first) return NAN;
  return histogram_stddev(&self->gap_ticks) / histogram_mean(&self->gap_ticks);
}

double summary_correlation(const TraceSummary *self) {
  const size_t n = self->rows < SUMMARY_SAMPLE ? (size_t)self->rows : SUMMARY_SAMPLE;
  double *x = ARENA_ARRAY(self->arena, double, n), *y = ARENA_ARRAY(self->arena, double, n);
  for (size_t i = 0; i < n; i++) {
    x[i] = self->sample[i][0];
    y[i] = self->sample[i][1];
  }
  return gsl_stats_spearman(x, 1, y, 1, n, ARENA_ARRAY(self->arena, double, 2 * n));
}
