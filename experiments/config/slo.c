/* The sets of objectives, and their evaluation. */
#include "experiments/config/slo.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUANTILE(field, percent, limit)                                                            \
  {                                                                                                \
    "slowdown." #field ".p" #percent, SLO_QUANTILE, &metrics_histograms[METRICS_SLOWDOWN_##field], \
        percent / 100.0, limit                                                                     \
  }

/* Splitwise Table VI. */
static const SloSpec splitwise[] = {
    QUANTILE(ttft, 50, 2),   QUANTILE(ttft, 90, 3),  QUANTILE(ttft, 99, 6),
    QUANTILE(tbt, 50, 1.25), QUANTILE(tbt, 90, 1.5), QUANTILE(tbt, 99, 5),
    QUANTILE(e2e, 50, 1.25), QUANTILE(e2e, 90, 1.5), QUANTILE(e2e, 99, 5),
};

const SloSet slo_sets[SLO_SETS] = {
    {"none", NULL, 0},
    {"splitwise", splitwise, sizeof splitwise / sizeof *splitwise},
};
const char *const slo_choices[] = {"none", "splitwise", NULL};

const HistogramSpec *slo_metric_find(const char *name, size_t length) {
  for (const HistogramSpec *metric = metrics_histograms;
       metric < metrics_histograms + METRICS_HISTOGRAMS; metric++)
    if (strncmp(metric->name, name, length) == 0 && metric->name[length] == '\0') return metric;
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
  return metrics_histogram(metrics, spec->component, (int)(spec->metric - metrics_histograms));
}

/* Observations that there should be; of what only some requests have, those that there are. */
static uint64_t asked_of(const SloSpec *spec, const Metrics *metrics, const Demand *asked) {
  switch (spec->metric ? spec->metric->asked : ASKED_requests) {
  case ASKED_gaps:
    return asked->gaps;
  case ASKED_paced:
    return asked->paced;
  case ASKED_sessions:
    return asked->sessions;
  case ASKED_observed:
    return histogram_of(spec, metrics)->total;
  default:
    return asked->requests;
  }
}

/* Of all that is asked for: the rank that decides. */
static double rank_of(const SloSpec *spec, uint64_t asked) {
  return spec->quantile * (double)(asked - 1);
}

/* What became of the requests that a row is of. */
typedef struct Ends {
  uint64_t completed, rejected, cancelled, good;
  const GoodputLimits *limits;
} Ends;

static Ends ends_of(const SloSpec *spec, const Metrics *metrics) {
  if (spec->component == 0)
    return (Ends){metrics->completed, metrics->rejected, metrics->cancelled, metrics->good,
                  &metrics->good_limits};
  const ComponentMetrics *of = &metrics->components[spec->component - 1];
  return (Ends){of->completed, of->rejected, of->cancelled, of->good, &of->good_limits};
}

/* Whether it is of times between tokens alone, of which outputs of one token have none. */
static bool is_of_gaps(const SloSpec *spec, const GoodputLimits *limits) {
  if (!spec->metric) return limits->tpot > 0 && limits->ttft == 0 && limits->e2e == 0;
  return spec->metric->asked == ASKED_gaps || spec->metric->asked == ASKED_paced ||
         spec->metric == &metrics_histograms[METRICS_SLOWDOWN_tbt];
}

/* Why there is no value; NULL: there is one. */
static const char *unmeasured_of(const SloSpec *spec, const Metrics *metrics) {
  const Demand asked = metrics_asked(metrics, spec->component);
  const Ends ends = ends_of(spec, metrics);
  if (asked.requests == 0) return "no request came";
  if (is_of_gaps(spec, ends.limits) && asked.gaps == 0) return "no output has two tokens";
  if (!spec->metric || histogram_of(spec, metrics)->total > 0) return NULL;
  if (spec->metric->asked == ASKED_sessions && asked.sessions == 0) return "no session began";
  if (spec->metric->asked == ASKED_observed) return "no request had it";
  return ends.completed > 0 ? "no request that was served had it" : "no request was served";
}

static double value_of(const SloSpec *spec, const Metrics *metrics) {
  const Demand all = metrics_asked(metrics, spec->component);
  const uint64_t asked = asked_of(spec, metrics, &all);
  if (spec->statistic == SLO_GOOD_SHARE) return (double)ends_of(spec, metrics).good / (double)asked;
  if (spec->statistic == SLO_GOOD_HOURS) {
    const uint64_t hours = hours_asked(&metrics->hours);
    const uint64_t missed = hours_missed(&metrics->hours, metrics->good_limits.share);
    return 1 - (double)missed / (double)hours;
  }
  const Histogram *histogram = histogram_of(spec, metrics);
  if (spec->statistic == SLO_MEAN)
    return histogram->total < asked ? INFINITY : histogram_mean(histogram) / spec->metric->scale;
  const double rank = rank_of(spec, asked);
  if (rank > (double)(histogram->total - 1)) return INFINITY;
  return histogram_at_rank(histogram, rank) / spec->metric->scale;
}

const char *slo_status(const SloOutcome *outcome) {
  return outcome->unmeasured ? "not measured" : outcome->met ? "met" : "missed";
}

void slo_eval(const SloSet *set, const Metrics *metrics, SloOutcome *ret_outcomes) {
  for (int i = 0; i < set->n_specs; i++) {
    const SloSpec *spec = &set->specs[i];
    const char *unmeasured = unmeasured_of(spec, metrics);
    const double value = unmeasured ? NAN : value_of(spec, metrics);
    const bool share = slo_is_share(spec);
    ret_outcomes[i] = (SloOutcome){
        .spec = spec,
        .value = value,
        .margin = share ? value / spec->limit - 1 : 1 - value / spec->limit,
        .met = share ? value >= spec->limit : value < spec->limit,
        .unmeasured = unmeasured,
        .half_width = NAN,
    };
  }
}

/* ---- Chance ---- */

double slo_half_width(const SloSpec *spec, const Metrics *metrics, const Batches *batches) {
  if (spec->statistic == SLO_GOOD_HOURS) return NAN;
  if (spec->statistic == SLO_GOOD_SHARE)
    return batches_good_range(batches, metrics, spec->component);
  const int of = (int)(spec->metric - metrics_histograms);
  const double half =
      spec->statistic == SLO_MEAN
          ? batches_mean_range(batches, metrics, spec->component, of)
          : batches_quantile_range(batches, metrics, spec->component, of, spec->quantile);
  return half / spec->metric->scale;
}

uint64_t slo_ranged(const SloSet *set) {
  uint64_t ranged = 0;
  for (int i = 0; i < set->n_specs; i++)
    if (set->specs[i].metric && set->specs[i].component == 0)
      ranged |= RANGED(set->specs[i].metric - metrics_histograms);
  return ranged;
}

uint32_t slo_ranged_components(const SloSet *set, const uint32_t **ret, Arena *arena) {
  uint32_t *components = ARENA_ARRAY(arena, uint32_t, (size_t)set->n_specs + 1), n = 0;
  for (int i = 0; i < set->n_specs; i++) {
    const uint32_t component = set->specs[i].component;
    uint32_t at = 0;
    while (at < n && components[at] < component)
      at++;
    if (component == 0 || (at < n && components[at] == component)) continue;
    memmove(&components[at + 1], &components[at], (n++ - at) * sizeof *components);
    components[at] = component;
  }
  *ret = components;
  return n;
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
static int64_t slack_of(const SloSpec *spec, const Metrics *so_far, const Demand *asked,
                        const Demand *refused) {
  if (spec->statistic == SLO_GOOD_HOURS) return INT64_MAX; // how many there will be is not known
  const uint64_t n = asked_of(spec, so_far, asked);
  if (n == 0 || (spec->metric && spec->metric->asked == ASKED_observed)) return INT64_MAX;
  const uint64_t lost = refused ? asked_of(spec, so_far, refused) : 0;
  if (spec->statistic == SLO_GOOD_SHARE) {
    const Ends ends = ends_of(spec, so_far);
    const uint64_t rejected = ends.rejected > lost ? ends.rejected : lost;
    const uint64_t bad = ends.completed + rejected + ends.cancelled - ends.good;
    const double most = floor((double)n * (1 - spec->limit)) + 1; // rounding: one too many
    if ((double)(n - bad) / (double)n < spec->limit) return -1;
    return (int64_t)fmax(0, most - (double)bad);
  }
  const Histogram *histogram = histogram_of(spec, so_far);
  if (spec->statistic == SLO_MEAN && lost > 0) return -1;
  if (spec->statistic == SLO_MEAN)
    return histogram->sum / (double)n / spec->metric->scale >= spec->limit ? -1 : 0;
  // Of the ascending ranks 0 … n − 1, those from floor(rank) on decide.
  const uint64_t allowed = n - 1 - (uint64_t)rank_of(spec, n);
  return (int64_t)allowed - (int64_t)lost -
         (int64_t)histogram_count_from(histogram, least_missed(spec));
}

const SloSpec *slo_find_lost(const SloSet *set, const Metrics *so_far, const Demand *asked,
                             const Demand *refused, uint64_t *ret_patience) {
  enum { CHECKS = 64 }; // of a run at most, besides those that find room for a while
  uint64_t patience = UINT64_MAX;
  for (int i = 0; i < set->n_specs; i++) {
    const SloSpec *spec = &set->specs[i];
    const Demand *of = &asked[spec->component];
    const int64_t slack = slack_of(spec, so_far, of, refused ? &refused[spec->component] : NULL);
    if (slack < 0) return spec;
    // One request can bring many gaps.
    const bool of_requests = asked_of(spec, so_far, of) <= of->requests;
    if (of_requests && (uint64_t)slack < patience) patience = (uint64_t)slack;
    if (!of_requests) patience = 0;
  }
  const uint64_t least = asked->requests / CHECKS + 1;
  *ret_patience = patience < least ? least : patience;
  return NULL;
}
