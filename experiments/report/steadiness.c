/* How well a run knows its figures, whether there is anything that lasts, and what was its start.
 */
#include "experiments/report/report.h"
#include <math.h>

#define USUAL(field)                                                                               \
  {#field ".mean", SLO_MEAN, &metrics_histograms[METRICS_##field], 0, INFINITY},                   \
      {#field ".p50", SLO_QUANTILE, &metrics_histograms[METRICS_##field], 0.5, INFINITY},          \
      {#field ".p90", SLO_QUANTILE, &metrics_histograms[METRICS_##field], 0.9, INFINITY}, {        \
#field ".p99", SLO_QUANTILE, &metrics_histograms[METRICS_##field], 0.99, INFINITY              \
  }

/* What is asked for where there are no limits. */
static const SloSpec usual[] = {USUAL(ttft), USUAL(tpot), USUAL(e2e)};

/* Whether no chance brings a value to the other side of its limit: it is two half ranges away. */
static bool is_decided(const SloOutcome *outcome, double half) {
  return fabs(outcome->value - outcome->spec->limit) > 2 * half;
}

/* Whether it is missed beyond doubt; by far, where ranges are not known. */
static bool is_lost(const SloOutcome *outcome) {
  enum { FAR = 1 };
  if (outcome->met) return false;
  return isnan(outcome->half_width) || isinf(outcome->value)
             ? outcome->margin < -FAR
             : is_decided(outcome, outcome->half_width);
}

/* The one that is known least well of those that can be known: not of a maximum, nor of what never
 * came. No name: there are none. */
static LeastKnown least_known_of(const SloSpec *specs, int n_specs, const Metrics *metrics,
                                 const Batches *batches, bool decides) {
  LeastKnown least = {NULL, 0};
  for (int i = 0; i < n_specs; i++) {
    const SloSpec *spec = &specs[i];
    SloOutcome outcome;
    slo_eval(&(SloSet){"one", spec, 1}, metrics, &outcome);
    if (!isfinite(outcome.value) || outcome.value <= 0) continue;
    if (spec->statistic == SLO_QUANTILE && spec->quantile >= 1) continue;
    const double half = slo_half_width(spec, metrics, batches), share = half / outcome.value;
    if (decides && is_decided(&outcome, half)) {
      if (!least.name) least = (LeastKnown){spec->name, 0};
      continue;
    }
    if (!least.name || isnan(share) || share > least.share) least = (LeastKnown){spec->name, share};
    if (isnan(share)) break;
  }
  return least;
}

void report_add_steadiness(Report *self) {
  const SimResult *result = self->result;
  const SloSet *slo = self->config->slo;
  self->least_known = (LeastKnown){NULL, NAN};
  if (!result->batches) return;
  self->start = batches_start(result->batches);
  self->saturated = batches_saturated(result->batches);
  self->least_known = least_known_of(slo->specs, slo->n_specs, &result->metrics, result->batches,
                                     self->config->length.decides);
  if (!self->least_known.name)
    self->least_known = least_known_of(usual, sizeof usual / sizeof *usual, &result->metrics,
                                       result->batches, false);
  for (int i = 0; i < slo->n_specs; i++) {
    SloOutcome *outcome = &self->outcomes[i];
    outcome->half_width = slo_half_width(outcome->spec, &result->metrics, result->batches);
    self->lost |= self->config->length.decides && is_lost(outcome);
  }
}

/* ---- On paper ---- */

static const char *share_text(double share, char text[32]) {
  if (isnan(share)) return "unknown";
  snprintf(text, 32, share < 0.0995 ? "+-%.1f%%" : "+-%.0f%%", 100 * share);
  return text;
}

static void print_start(const Report *self, FILE *out) {
  char requests[32], until[32];
  const SimResult *result = self->result;
  if (result->left_out > 0)
    fprintf(out, "warm-up      the first %s requests (%s)%s are left out\n",
            format_count((double)result->left_out, requests),
            format_duration(tick_seconds(result->counted_from), until),
            self->config->length.finds_start ? ", in which the cluster fills," : "");
  else if (self->saturated)
    return;
  else if (!self->start.ended)
    fputs("steady       nowhere: the run is too short to separate its start from a steady state\n",
          out);
  else if (self->start.requests > 0)
    fprintf(out,
            "steady       from request %s at %s on, by MSER-5; 'warm: auto' leaves out the rest\n",
            format_count((double)self->start.requests, requests),
            format_duration(tick_seconds(self->start.until), until));
}

/* Whether its beginning and its end, when it fills and empties, are most of it, and less than what
 * came was served. */
static bool is_short(const Report *self) {
  static const double least_served = 0.9;
  const Metrics *metrics = &self->result->metrics;
  const Tick arrivals = metrics->last_arrival_at - metrics->first_arrival_at;
  return arrivals > 0 && arrivals < 2 * metrics->e2e.max &&
         self->run.throughput_rps < least_served * self->run.offered_rps;
}

static void print_length(const Report *self, FILE *out) {
  char share[32], wanted[32], requests[32];
  const LeastKnown *least = &self->least_known;
  const char *count = format_count(self->run.requests + (double)self->result->left_out, requests);
  share_text(least->share, share);
  share_text(self->config->length.precision, wanted);
  switch (self->length_end) {
  case LENGTH_GIVEN:
    return;
  case LENGTH_REACHED:
    if (self->config->length.decides && least->share == 0) {
      fprintf(out, "length       %s requests, until every limit was decided\n", count);
      return;
    }
    fprintf(out, "length       %s requests, until every requested figure was within %s; %s is %s\n",
            count, wanted, least->name, share);
    return;
  case LENGTH_SATURATED:
    fprintf(out, "length       ended after %s requests: the queues grow and never become steady\n",
            count);
    return;
  case LENGTH_LOST:
    fprintf(out, "length       ended after %s requests: a limit is missed beyond doubt\n", count);
    return;
  case LENGTH_WORKLOAD:
  case LENGTH_MOST:
    fprintf(out, "length       NOT within %s after %s %s requests: %s is %s\n", wanted,
            self->length_end == LENGTH_MOST ? "the limit of" : "the whole workload of", count,
            least->name ? least->name : "every figure", isnan(least->share) ? "unknown" : share);
    return;
  }
}

void report_print_steadiness(const Report *self, FILE *out) {
  if (!self->result->batches) return;
  if (self->saturated)
    fprintf(
        out,
        "SATURATED    arrivals exceed the capacity: %.4g of %.4g requests/s are served; queues\n"
        "             grow, and latencies depend on the length of the run\n",
        self->run.throughput_rps, self->run.offered_rps);
  else if (is_short(self))
    fputs("short        the arrivals last less than twice the longest E2E, so it is not known "
          "whether\n"
          "             the cluster keeps up in the long run\n",
          out);
  print_length(self, out);
  print_start(self, out);
}
