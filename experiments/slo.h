/* Service-level objectives as rows: a quantile of one of the run's histograms and its limit.
 *
 * Splitwise Table VI limits nine slowdowns relative to the same request alone on an idle DGX-A100;
 * the test is strict. Requests that were rejected or never finished count as infinitely slow. An
 * objective in seconds is the same row over another histogram. */
#ifndef EXPERIMENTS_SLO_H
#define EXPERIMENTS_SLO_H
#include "sim/metrics.h"

typedef struct SloSpec {
  const char *name; // ttft_p50
  size_t histogram; // offset in Metrics
  double unit;      // of the limit, in those of the histogram
  double quantile;
  double limit; // met when the quantile is below it
} SloSpec;

typedef struct SloSet {
  const char *name;
  const SloSpec *specs;
  int n_specs;
} SloSet;

typedef struct SloOutcome {
  const SloSpec *spec;
  double slowdown; // INFINITY when the quantile falls among requests that never finished
  bool met;
} SloOutcome;

enum { SLO_SETS = 2 };
extern const SloSet slo_sets[SLO_SETS]; // the first one is empty
extern const char *const slo_choices[]; // their names, NULL-terminated

/* Fills ret_outcomes[set->n_specs]. */
void slo_eval(const SloSet *set, const Metrics *metrics, SloOutcome *ret_outcomes);
#endif
