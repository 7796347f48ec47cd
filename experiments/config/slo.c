/* The sets of objectives, and their evaluation. */
#include "experiments/config/slo.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LATENCY(field, population)                                                                 \
  { #field, "s", offsetof(Metrics, field), offsetof(Demand, population), TICKS_PER_SECOND }
#define SLOWDOWN(field)                                                                            \
  {                                                                                                \
    "slowdown." #field, "", offsetof(Metrics, slowdown_##field), offsetof(Demand, requests),       \
        SLOWDOWN_SCALE                                                                             \
  }

enum { TTFT, TBT, TPOT, E2E, QUEUE, SECOND_TOKEN, SLOWDOWN_TTFT, SLOWDOWN_TBT, SLOWDOWN_E2E };

static const SloMetric METRICS[] = {
    [TTFT] = LATENCY(ttft, requests),   [TBT] = LATENCY(tbt, gaps),
    [TPOT] = LATENCY(tpot, paced),      [E2E] = LATENCY(e2e, requests),
    [QUEUE] = LATENCY(queue, requests), [SECOND_TOKEN] = LATENCY(second_token, paced),
    [SLOWDOWN_TTFT] = SLOWDOWN(ttft),   [SLOWDOWN_TBT] = SLOWDOWN(tbt),
    [SLOWDOWN_E2E] = SLOWDOWN(e2e),
};

#define QUANTILE(metric, percent, limit)                                                           \
  { METRIC_NAME_##metric ".p" #percent, SLO_QUANTILE, &METRICS[metric], percent / 100.0, limit }
#define METRIC_NAME_SLOWDOWN_TTFT "slowdown.ttft"
#define METRIC_NAME_SLOWDOWN_TBT  "slowdown.tbt"
#define METRIC_NAME_SLOWDOWN_E2E  "slowdown.e2e"

/* Splitwise Table VI. */
static const SloSpec splitwise[] = {
    QUANTILE(SLOWDOWN_TTFT, 50, 2),   QUANTILE(SLOWDOWN_TTFT, 90, 3),
    QUANTILE(SLOWDOWN_TTFT, 99, 6),   QUANTILE(SLOWDOWN_TBT, 50, 1.25),
    QUANTILE(SLOWDOWN_TBT, 90, 1.5),  QUANTILE(SLOWDOWN_TBT, 99, 5),
    QUANTILE(SLOWDOWN_E2E, 50, 1.25), QUANTILE(SLOWDOWN_E2E, 90, 1.5),
    QUANTILE(SLOWDOWN_E2E, 99, 5),
};

const SloSet slo_sets[SLO_SETS] = {
    {"none", NULL, 0},
    {"splitwise", splitwise, sizeof splitwise / sizeof *splitwise},
};
const char *const slo_choices[] = {"none", "splitwise", NULL};

const SloMetric *slo_metric_find(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof METRICS / sizeof *METRICS; i++)
    if (strncmp(METRICS[i].name, name, length) == 0 && METRICS[i].name[length] == '\0')
      return &METRICS[i];
  return NULL;
}

bool slo_parse_statistic(const char *text, SloStatistic *ret_statistic, double *ret_quantile) {
  *ret_statistic = strcmp(text, "mean") == 0 ? SLO_MEAN : SLO_QUANTILE;
  *ret_quantile = 1;
  if (*ret_statistic == SLO_MEAN || strcmp(text, "max") == 0) return true;
  if (*text != 'p' || strspn(text + 1, "0123456789.") != strlen(text + 1)) return false;
  char *end;
  const double percent = strtod(text + 1, &end);
  *ret_quantile = percent / 100;
  return end > text + 1 && !*end && percent > 0 && percent < 100;
}

const char *slo_unit(const SloSpec *spec) {
  return spec->metric ? spec->metric->unit : "";
}

static const Histogram *histogram_of(const SloSpec *spec, const Metrics *metrics) {
  return (const Histogram *)((const char *)metrics + spec->metric->histogram);
}

static uint64_t asked_of(const SloSpec *spec, const Demand *asked) {
  const size_t offset = spec->metric ? spec->metric->asked : offsetof(Demand, requests);
  return *(const uint64_t *)((const char *)asked + offset);
}

/* Of all that is asked for: the rank that decides. */
static double rank_of(const SloSpec *spec, uint64_t asked) {
  return spec->quantile * (double)(asked - 1);
}

static double value_of(const SloSpec *spec, const Metrics *metrics) {
  const uint64_t asked = asked_of(spec, &metrics->asked);
  if (spec->statistic == SLO_GOOD_SHARE) return asked ? (double)metrics->good / (double)asked : 0;
  const Histogram *histogram = histogram_of(spec, metrics);
  if (histogram->total == 0) return asked > 0 || metrics->asked.requests == 0 ? INFINITY : 0;
  if (spec->statistic == SLO_MEAN)
    return histogram->total < asked ? INFINITY : histogram_mean(histogram) / spec->metric->scale;
  const double rank = rank_of(spec, asked);
  if (rank > (double)(histogram->total - 1)) return INFINITY;
  return histogram_at_rank(histogram, rank) / spec->metric->scale;
}

void slo_eval(const SloSet *set, const Metrics *metrics, SloOutcome *ret_outcomes) {
  for (int i = 0; i < set->n_specs; i++) {
    const SloSpec *spec = &set->specs[i];
    const double value = value_of(spec, metrics);
    const bool share = spec->statistic == SLO_GOOD_SHARE;
    ret_outcomes[i] = (SloOutcome){
        .spec = spec,
        .value = value,
        .margin = share ? value / spec->limit - 1 : 1 - value / spec->limit,
        .met = share ? value >= spec->limit : value < spec->limit,
    };
  }
}

/* ---- Before the end ---- */

/* The least value of the histogram that misses the limit by the test of slo_eval, which divides. */
static double least_missed(const SloSpec *spec) {
  const double scale = spec->metric->scale;
  double value = spec->limit * scale;
  while (value / scale < spec->limit)
    value = nextafter(value, INFINITY);
  return value;
}

/* How many more observations at or above the limit the row can take; negative: it is lost. A mean
 * can be lost by a single one. */
static int64_t slack_of(const SloSpec *spec, const Metrics *so_far, const Demand *asked) {
  const uint64_t n = asked_of(spec, asked);
  if (n == 0) return INT64_MAX;
  if (spec->statistic == SLO_GOOD_SHARE) {
    const uint64_t bad = so_far->completed + so_far->rejected - so_far->good;
    const double most = floor((double)n * (1 - spec->limit)) + 1; // rounding: one too many
    if ((double)(n - bad) / (double)n < spec->limit) return -1;
    return (int64_t)fmax(0, most - (double)bad);
  }
  const Histogram *histogram = histogram_of(spec, so_far);
  if (spec->statistic == SLO_MEAN)
    return histogram->sum / (double)n / spec->metric->scale >= spec->limit ? -1 : 0;
  // Of the ascending ranks 0 … n − 1, those from floor(rank) on decide.
  const uint64_t allowed = n - 1 - (uint64_t)rank_of(spec, n);
  return (int64_t)allowed - (int64_t)histogram_count_from(histogram, least_missed(spec));
}

const SloSpec *slo_find_lost(const SloSet *set, const Metrics *so_far, const Demand *asked,
                             uint64_t *ret_patience) {
  enum { CHECKS = 64 }; // of a run at most, besides those that find room for a while
  uint64_t patience = UINT64_MAX;
  for (int i = 0; i < set->n_specs; i++) {
    const int64_t slack = slack_of(&set->specs[i], so_far, asked);
    if (slack < 0) return &set->specs[i];
    // One request can bring many gaps.
    const bool of_requests = asked_of(&set->specs[i], asked) <= asked->requests;
    if (of_requests && (uint64_t)slack < patience) patience = (uint64_t)slack;
    if (!of_requests) patience = 0;
  }
  const uint64_t least = asked->requests / CHECKS + 1;
  *ret_patience = patience < least ? least : patience;
  return NULL;
}
