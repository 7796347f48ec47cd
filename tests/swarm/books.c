/* See books.h. */
#include "tests/swarm/books.h"
#include "sim/kvtier/kvtier.h"
#include "tests/time_parts.h"
#include <math.h>

/* Each check returns what is wrong, NULL if nothing. */

static bool is_served(const RequestRecord *record) {
  return !record->rejected && !record->cancelled;
}

static bool within(Tick ticks, Tick patience) {
  return patience == 0 || ticks <= patience;
}

static const char *check_cancelled(const RequestRecord *record, const TraceRow *row) {
  const Tick waited = record->cancelled_at - record->arrived_at;
  if (record->last_token_at >= 0 || record->generated_tokens >= record->output_tokens)
    return "a request was cancelled that is served";
  const bool first = record->cancelled == CANCELLED_TTFT;
  const Tick patience = first ? row->first_token_patience : row->patience;
  if (patience == 0 || waited < patience) return "a client gave up too early";
  if (first && record->first_token_at >= 0) return "a first token came that was not waited for";
  return NULL;
}

/* Whether so many tokens were asked for, or are what its class gives those it may not admit. */
static bool is_output(const SimConfig *config, const TraceRow *row, int32_t output_tokens) {
  const int32_t asked = sim_output_tokens(config, row);
  if (output_tokens == asked || config->n_classes == 0) return output_tokens == asked;
  const ClassSpec *class = &config->classes[config->components[row->component].class];
  return class->action == ADMISSION_DEGRADE && output_tokens == class->output_tokens &&
         output_tokens < asked;
}

static const char *check_request(const SimConfig *config, const RequestRecord *record,
                                 const TraceRow *row) {
  if (record->prompt_tokens != row->prompt_tokens ||
      !is_output(config, row, record->output_tokens) || record->arrived_at != row->at)
    return "a request is not the one that arrived";
  if (record->rejected) return NULL;
  if (record->cancelled) return check_cancelled(record, row);
  if (record->prefill_began_at < record->arrived_at) return "a prefill began before it arrived";
  if (record->first_token_at <= record->prefill_began_at) return "a prefill took no time";
  if (record->last_token_at < record->first_token_at) return "TTFT is above E2E";
  if ((record->last_token_at > record->first_token_at) != (record->output_tokens > 1))
    return "the last token is not after the first of several";
  if (!within(record->first_token_at - record->arrived_at, row->first_token_patience) ||
      !within(record->last_token_at - record->arrived_at, row->patience))
    return "a client did not give up";
  return NULL;
}

/* Where no KV was dropped, machines computed for those who gave up, and for attempts lost with
 * machines, what is booked, but for the first output token of each, which comes with its prompt;
 * the client may not have had that. */
static const char *check_wasted(const Cluster *cluster, const Trial *trial, int64_t served) {
  const Metrics *metrics = &trial->result.metrics;
  const InstanceTotals *totals = &trial->result.totals;
  if (metrics->recomputes > 0) return NULL;
  const int64_t wasted = totals->prefill_tokens + totals->cached_tokens + totals->refound_tokens -
                         metrics->dropped_tokens + totals->decode_tokens - served;
  const int64_t booked = metrics->cancelled_tokens + metrics->lost_tokens +
                         metrics->resumed_tokens - // whose KV is computed again
                         metrics->restored_tokens + metrics->hedged_tokens;
  int64_t n_begun = 0, cached = 0;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    const RequestRecord *record = &trial->records[i];
    n_begun += record->cancelled && record->first_token_at >= 0;
    if (record->cancelled) cached += record->cached_tokens; // that may have been dropped since
  }
  if (metrics->losses + metrics->hedges > 0) cached = totals->cached_tokens; // nobody knows of whom
  if (wasted > booked - n_begun + cached ||
      wasted < booked - (int64_t)(metrics->cancelled + metrics->losses + metrics->hedges))
    return "tokens that nobody got are miscounted";
  return NULL;
}

bool books_have_gaps(const Metrics *metrics) {
  return metrics->tbt.total - metrics->asked.gaps <= metrics->hedges;
}

/* Every token of a finished request came out of a prefill or of a decode iteration. */
static const char *check_tokens(const Cluster *cluster, const Trial *trial) {
  const Metrics *metrics = &trial->result.metrics;
  int64_t prompts = 0, decoded = 0;
  uint64_t recomputes = 0, swaps = 0;
  double decode_ticks = 0;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    const RequestRecord *record = &trial->records[i];
    if (!is_served(record)) continue;
    prompts += record->prompt_tokens;
    decoded += record->output_tokens - 1 - record->recomputes;
    recomputes += (uint64_t)record->recomputes;
    swaps += (uint64_t)record->swaps;
    decode_ticks += (double)(record->last_token_at - record->first_token_at);
  }
  const InstanceTotals *totals = &trial->result.totals;
  if (metrics->cancelled == 0 && metrics->rejected == 0 && !books_have_gaps(metrics))
    return "gaps are not those that were asked for, and of attempts that were lost";
  const int64_t made = decoded + metrics->remade_tokens;
  if (metrics->cancelled + metrics->losses + metrics->hedges > 0)
    return check_wasted(cluster, trial, prompts + made);
  if (metrics->recomputes != recomputes) return "recomputes are miscounted";
  if ((uint64_t)totals->swaps_out != swaps || (uint64_t)totals->swaps_in != swaps)
    return "not all that were swapped out came back";
  if (totals->decode_tokens != made) return "decode tokens are miscounted";
  const int64_t prefilled = totals->prefill_tokens + totals->cached_tokens +
                            totals->refound_tokens - metrics->dropped_tokens;
  if (recomputes == 0 && prefilled != prompts) return "prefill tokens are miscounted";
  if (metrics->tbt.total != (uint64_t)decoded + recomputes)
    return "a gap between tokens is missing";
  // the gaps are exact, the tokens at the nearest tick
  const double rounding = (double)metrics->tbt.total;
  if (fabs(metrics->tbt.sum - decode_ticks) > 1e-9 * decode_ticks + rounding)
    return "gaps do not add up";
  return NULL;
}

/* Every latency has been observed of all that it is of; check_tokens has an eye on gaps. */
static const char *check_latencies(const Cluster *cluster, const Trial *trial) {
  const Metrics *metrics = &trial->result.metrics;
  uint64_t served[] = {[ASKED_requests] = metrics->completed, [ASKED_paced] = 0};
  for (int i = 0; i < cluster->workload.n_rows; i++)
    served[ASKED_paced] += is_served(&trial->records[i]) && trial->records[i].output_tokens > 1;
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const Asked asked = metrics_histograms[i].asked;
    if (asked != ASKED_requests && asked != ASKED_paced) continue;
    const uint64_t total = metrics->histograms[i].total; // of those who gave up later, too
    if (total < served[asked] ||
        (metrics->cancelled + metrics->losses + metrics->hedges == 0 && total > served[asked]))
      return "a latency is missing";
  }
  return NULL;
}

/* Whether it is of a component or, behind these, a class. */
static bool is_of(const SimConfig *config, uint32_t i, uint16_t component) {
  if (i < config->n_components) return component == i;
  return config->components[component].class == i - config->n_components;
}

/* Good by the limits of its component, else of its class, else of the run. */
static bool is_good(const SimConfig *config, const RequestRecord *record) {
  const ComponentSpec *component = &config->components[record->component];
  const GoodputLimits *limits = &config->good_limits;
  if (config->n_classes > 0 && config->classes[component->class].good_limits)
    limits = config->classes[component->class].good_limits;
  if (component->good_limits) limits = component->good_limits;
  const Tick ttft = record->first_token_at - record->arrived_at;
  const Tick e2e = record->last_token_at - record->arrived_at;
  const Tick tpot = record->output_tokens > 1 ? (e2e - ttft) / (record->output_tokens - 1) : 0;
  return is_served(record) && within(ttft, limits->ttft) && within(tpot, limits->tpot) &&
         within(e2e, limits->e2e);
}

/* The books of a component, or of a class, are those of its records. */
static const char *check_component(const Cluster *cluster, const Trial *trial, uint32_t i) {
  const ComponentMetrics *metrics = &trial->result.metrics.components[i];
  uint64_t n = 0, gaps = 0, paced = 0, served = 0, served_paced = 0, rejected = 0, good = 0;
  Tick longest = -1;
  for (int r = 0; r < cluster->workload.n_rows; r++) {
    const RequestRecord *record = &trial->records[r];
    if (!is_of(&cluster->config, i, record->component)) continue;
    const Tick e2e = record->last_token_at - record->arrived_at;
    n++;
    gaps += (uint64_t)record->output_tokens - 1;
    paced += record->output_tokens > 1;
    served += is_served(record);
    served_paced += is_served(record) && record->output_tokens > 1;
    rejected += record->rejected != REJECTED_NOT;
    good += is_good(&cluster->config, record);
    if (is_served(record) && e2e > longest) longest = e2e;
  }
  if (metrics->requests != n || metrics->gaps != gaps || metrics->paced != paced ||
      metrics->completed != served || metrics->rejected != rejected || metrics->good != good)
    return "the requests of a component are miscounted";
  if (metrics->ttft.total != served || metrics->tpot.total != served_paced ||
      metrics->e2e.total != served || metrics->e2e.max != longest)
    return "the latencies of a component are not those of its requests";
  return NULL;
}

static const char *check_components(const Cluster *cluster, const Trial *trial) {
  const SimConfig *config = &cluster->config;
  const uint32_t n = config->n_components > 0 ? config->n_components + config->n_classes : 0;
  const char *wrong = NULL;
  for (uint32_t i = 0; i < n && !wrong; i++)
    wrong = check_component(cluster, trial, i);
  return wrong;
}

/* What hours drew is what the run drew, but for the rounding of sums. */
static const char *check_hours(const SimConfig *config, const SimResult *result) {
  double sum = 0;
  for (size_t h = 0; h < result->n_hour_joules; h++)
    sum += result->hour_joules[h];
  if (config->meters_hours != (result->hour_joules != NULL)) return "hours were not metered";
  return config->meters_hours && fabs(sum - result->energy_j) > 1e-9 * (1 + result->energy_j)
             ? "hours draw something else than the run"
             : NULL;
}

const char *check_books(const Cluster *cluster, Trial *trial) {
  const char *wrong = NULL;
  if (!trial) return "the run failed";
  const SimResult *result = &trial->result;
  const Metrics *metrics = &result->metrics;
  const uint64_t ended = metrics_ended(metrics);
  if (metrics->asked.requests != (uint64_t)cluster->workload.n_rows)
    return "a request did not arrive";
  if (metrics->asked.requests != ended + result->unfinished || ended != (uint64_t)trial->n_reported)
    return "a request was lost";
  const KvTier *kvtier = (const KvTier *)cluster->config.policies[POLICY_KVTIER].policy;
  if (result->unfinished > 0) return kvtier->pick ? "a request was left unfinished" : NULL;
  if ((wrong = check_hours(&cluster->config, result))) return wrong;
  if (trial->watched && (wrong = watch_check(&trial->watch, result))) return wrong;
  if ((wrong = check_latencies(cluster, trial))) return wrong;
  if ((wrong = check_components(cluster, trial))) return wrong;
  for (int i = 0; i < cluster->workload.n_rows; i++) {
    wrong = check_request(&cluster->config, &trial->records[i], &cluster->workload.rows[i]);
    if (!wrong && trial->parted) wrong = time_parts_check(&trial->records[i], &trial->parts[i]);
    if (wrong) return wrong;
  }
  return check_tokens(cluster, trial);
}
