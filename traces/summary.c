/* Statistics of a trace. */
#include "traces/summary.h"
#include <math.h>
#include <stdlib.h>

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

typedef struct Ranked {
  int32_t value;
  int row;
} Ranked;

static int compare_values(const void *a, const void *b) {
  int32_t left = ((const Ranked *)a)->value, right = ((const Ranked *)b)->value;
  return (left > right) - (left < right);
}

/* Ranks about their mean, equal values sharing the mean of their ranks. */
static void rank_column(const TraceSummary *self, int column, int n, Ranked *order,
                        double *ret_ranks) {
  for (int i = 0; i < n; i++)
    order[i] = (Ranked){self->sample[i][column], i};
  qsort(order, (size_t)n, sizeof *order, compare_values);
  for (int begin = 0, end = 0; begin < n; begin = end) {
    while (end < n && order[end].value == order[begin].value)
      end++;
    for (int i = begin; i < end; i++)
      ret_ranks[order[i].row] = 0.5 * (begin + end - n);
  }
}

double summary_correlation(const TraceSummary *self) {
  int n = self->rows < SUMMARY_SAMPLE ? (int)self->rows : SUMMARY_SAMPLE;
  Ranked *order = ARENA_ARRAY(self->arena, Ranked, n);
  double *x = ARENA_ARRAY(self->arena, double, n), *y = ARENA_ARRAY(self->arena, double, n);
  rank_column(self, 0, n, order, x);
  rank_column(self, 1, n, order, y);
  double xx = 0, yy = 0, xy = 0;
  for (int i = 0; i < n; i++) {
    xx += x[i] * x[i];
    yy += y[i] * y[i];
    xy += x[i] * y[i];
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
