/* Service-level objectives as rows: a statistic of what the run measured, and its limit.
 *
 * Splitwise Table VI limits nine slowdowns relative to the same request alone on an idle DGX-A100;
 * a limit in seconds is the same row over another histogram, and goodput is the share of requests
 * that kept all of their own limits, over the run or, with `hours`, in so many of the hours in
 * which requests arrived. A quantile or mean must lie below its limit (Splitwise's test is strict),
 * the share of good requests must reach it. What was asked for and never came (requests
 * that were rejected, cancelled or never finished, and their tokens) counts as infinitely slow; a
 * metric that only some requests have, KV transfers, is of those that had it. Limits are of all
 * requests, or of those of one component of a mix or one class of them. A limit of whose
 * metric a run has no value at all is not measured: it is neither met nor missed, and who asks for
 * all limits to be met does not have that. */
#ifndef EXPERIMENTS_CONFIG_SLO_H
#define EXPERIMENTS_CONFIG_SLO_H
#include "sim/books/batches.h"

typedef enum SloStatistic { SLO_QUANTILE, SLO_MEAN, SLO_GOOD_SHARE, SLO_GOOD_HOURS } SloStatistic;

typedef struct SloSpec {
  const char *name; // ttft.p99, slowdown.ttft.p99, goodput: as the key of the configuration; of a
                    // component with its name, chat:ttft.p99
  SloStatistic statistic;
  const HistogramSpec *metric; // of metrics_histograms; NULL of shares
  double quantile;             // 1: the largest
  double limit;
  uint32_t component; // as of metrics_histogram; 0: all requests
} SloSpec;

typedef struct SloSet {
  const char *name;
  const SloSpec *specs;
  int n_specs;
} SloSet;

typedef struct SloOutcome {
  const SloSpec *spec;
  double value;  // INFINITY when the statistic falls on something that never came
  double margin; // of the limit, negative when it is missed: how far from binding
  bool met;
  const char *unmeasured; // why nothing was measured, value and margin are NAN then; NULL: it was
  double half_width;      // half of the 95% range that chance leaves of the value; NAN: not known
} SloOutcome;

enum { SLO_SETS = 2 };
extern const SloSet slo_sets[SLO_SETS]; // the first one is empty
extern const char *const slo_choices[]; // their names, NULL-terminated

/* The metric of this name, which has `length` bytes; NULL when there is none. */
const HistogramSpec *slo_metric_find(const char *name, size_t length);
/* The statistic that a text such as mean, p50, p99.9 or max means; false when it means none. */
bool slo_parse_statistic(const char *text, SloStatistic *ret_statistic, double *ret_quantile);
/* The key of a limit that `key`, which is none, is another word for: "tbt.p99" for itl.p99 and
 * p99_itl_ms; NULL: none is known. */
const char *slo_key_meant(const char *key, Arena *arena);
const char *slo_unit(const SloSpec *spec);
/* Whether the value is a share that must be reached. */
static inline bool slo_is_share(const SloSpec *spec) {
  return spec->statistic >= SLO_GOOD_SHARE;
}

/* "met", "missed" or "not measured". */
const char *slo_status(const SloOutcome *outcome);
/* Fills ret_outcomes[set->n_specs]. */
void slo_eval(const SloSet *set, const Metrics *metrics, SloOutcome *ret_outcomes);

/* Half of the 95% range of a row's value, from within a run; NAN when it is not known. */
double slo_half_width(const SloSpec *spec, const Metrics *metrics, const Batches *batches);
/* The histograms of all requests that it needs, as bits of SimConfig.ranged. */
uint64_t slo_ranged(const SloSet *set);
/* The components whose histograms it needs, ascending; their number. */
uint32_t slo_ranged_components(const SloSet *set, const uint32_t **ret, Arena *arena);

/* The first row that will be missed whatever comes after `so_far`, in a run that serves `asked` in
 * all, of which `refused` (NULL: not known) cannot be served; NULL when each can still be met. Both
 * are arrays by component, as of metrics_histogram. `ret_patience` is the number of requests that
 * must finish before the answer can change (at least 1): there is no need to ask before. */
const SloSpec *slo_find_lost(const SloSet *set, const Metrics *so_far, const Demand *asked,
                             const Demand *refused, uint64_t *ret_patience);
#endif
