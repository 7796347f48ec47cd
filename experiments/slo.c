/* The sets of objectives, and their evaluation. */
#include "experiments/slo.h"
#include <math.h>
#include <stddef.h>

#define SLOWDOWN(metric, p50, p90, p99)                                                            \
  {#metric "_p50", offsetof(Metrics, slowdown_##metric), SLOWDOWN_SCALE, 0.50, p50},               \
      {#metric "_p90", offsetof(Metrics, slowdown_##metric), SLOWDOWN_SCALE, 0.90, p90}, {         \
#metric "_p99", offsetof(Metrics, slowdown_##metric), SLOWDOWN_SCALE, 0.99, p99                \
  }

/* Splitwise Table VI. */
static const SloSpec splitwise[] = {
    SLOWDOWN(ttft, 2, 3, 6),
    SLOWDOWN(tbt, 1.25, 1.5, 5),
    SLOWDOWN(e2e, 1.25, 1.5, 5),
};

const SloSet slo_sets[SLO_SETS] = {
    {"none", NULL, 0},
    {"splitwise", splitwise, sizeof splitwise / sizeof *splitwise},
};
const char *const slo_choices[] = {"none", "splitwise", NULL};

/* The quantile over the observations and `missing` infinite ones. */
static double quantile_with_missing(const Histogram *histogram, uint64_t missing, double q) {
  if (histogram->total == 0) return INFINITY;
  double rank = q * (double)(histogram->total + missing - 1);
  double last = (double)(histogram->total - 1);
  if (rank > last) return INFINITY;
  return histogram_quantile(histogram, last > 0 ? rank / last : 0);
}

void slo_eval(const SloSet *set, const Metrics *metrics, SloOutcome *ret_outcomes) {
  const uint64_t missing = metrics->requests - metrics->completed;
  for (int i = 0; i < set->n_specs; i++) {
    const SloSpec *spec = &set->specs[i];
    const Histogram *histogram = (const Histogram *)((const char *)metrics + spec->histogram);
    double slowdown = quantile_with_missing(histogram, missing, spec->quantile) / spec->unit;
    ret_outcomes[i] = (SloOutcome){spec, slowdown, slowdown < spec->limit};
  }
}
