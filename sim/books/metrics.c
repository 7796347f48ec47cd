/* See metrics.h. */
#include "sim/books/metrics.h"
#include <assert.h>

const HistogramSpec metrics_histograms[METRICS_HISTOGRAMS] = {
#define LATENCY(field, asked, meaning)                                                             \
  {#field, #field "_s", "s", TICKS_PER_SECOND, ASKED_##asked, meaning},
#define SLOWDOWN(field, meaning)                                                                   \
  {"slowdown." #field, NULL, "", SLOWDOWN_SCALE, ASKED_requests, meaning},
#include "sim/books/metrics.def"
};

#define IS_LATE_TTFT false
#define IS_LATE_TPOT true

const CauseRow metrics_causes[CAUSES] = {
#define REQUEST_PART(phase, name, meaning) {#name, IS_LATE_##phase},
#include "sim/books/metrics.def"
};

void metrics_init(Metrics *self, Arena *arena) {
  *self = (Metrics){.first_arrival_at = -1, .hours = {.arena = arena}, .last_arrival_at = -1};
  for (int i = 0; i < METRICS_HISTOGRAMS; i++)
    histogram_init(&self->histograms[i], arena);
}

/* A field of self and other, element by element where it has several. */
#define ADD(type, field, sum)                                                                      \
  for (size_t i = 0; i < sizeof self->field / sizeof(type); i++)                                   \
    sum(((type *)&self->field)[i], ((const type *)&other->field)[i]);
#define SUM(mine, others)  mine += others
#define MOST(mine, others) mine = mine < others ? others : mine
#define LESS(mine, others) mine -= others
#define LESS_SUM           LESS
#define LESS_MOST(mine, others)

void instance_totals_add(InstanceTotals *self, const InstanceTotals *other) {
#define INSTANCE_BOOK(type, field, dimension) ADD(type, field, SUM)
#include "sim/books/metrics.def"
}

void instance_totals_subtract(InstanceTotals *self, const InstanceTotals *other) {
#define INSTANCE_BOOK(type, field, dimension) ADD(type, field, LESS)
#include "sim/books/metrics.def"
}

void group_totals_add(GroupTotals *self, const GroupTotals *other) {
#define GROUP_BOOK(type, field, dimension, add) ADD(type, field, add)
#include "sim/books/metrics.def"
}

void group_totals_subtract(GroupTotals *self, const GroupTotals *other) {
#define GROUP_BOOK(type, field, dimension, add) ADD(type, field, LESS_##add)
#include "sim/books/metrics.def"
}

/* The unloaded decode step that TBT is compared with. The released notebooks look it up at x =
 * prompt tokens, not at one sequence as its simulator does. */
static Tick reference_step(const PerfModel *reference, int64_t prompt_tokens) {
  if (reference->form == PERF_SPLITWISE_SIM) return pwl_eval(&reference->head, prompt_tokens);
  return perfmodel_decode_step(reference, 1, prompt_tokens);
}

static void add_slowdowns(Metrics *self, const RequestRecord *record, const PerfModel *reference,
                          Tick ttft, Tick e2e) {
  const double scale = SLOWDOWN_SCALE;
  const double prefill = (double)perfmodel_prefill(reference, record->prompt_tokens);
  const double step = (double)reference_step(reference, record->prompt_tokens);
  const double tbt = (double)(e2e - ttft) / record->output_tokens;
  const double alone = prefill + step * (record->output_tokens - 1);
  histogram_add(&self->slowdown_ttft, (int64_t)((double)ttft / prefill * scale + 0.5), 1);
  histogram_add(&self->slowdown_tbt, (int64_t)(tbt / step * scale + 0.5), 1);
  histogram_add(&self->slowdown_e2e, (int64_t)((double)e2e / alone * scale + 0.5), 1);
}

static bool within(Tick value, Tick limit) {
  return limit == 0 || value <= limit;
}

bool metrics_complete(Metrics *self, const RequestRecord *record, const GoodputLimits *limits,
                      const PerfModel *reference) {
  const Tick ttft = record->first_token_at - record->arrived_at;
  const Tick e2e = record->last_token_at - record->arrived_at;
  assert(0 < ttft && ttft <= e2e && record->prefill_began_at >= record->arrived_at);
  self->completed++;
  self->prompt_tokens += (uint64_t)record->prompt_tokens;
  self->output_tokens += (uint64_t)record->output_tokens;
  self->in_window +=
      self->window.from <= record->last_token_at && record->last_token_at < self->window.to;
  histogram_add(&self->queue, record->prefill_began_at - record->arrived_at, 1);
  histogram_add(&self->ttft, ttft, 1);
  histogram_add(&self->e2e, e2e, 1);
  assert(0 < record->computing_ticks && record->computing_ticks <= e2e);
  histogram_add(&self->compute_token, record->computing_ticks / record->output_tokens, 1);
  histogram_add(&self->queue_token, (e2e - record->computing_ticks) / record->output_tokens, 1);
  const bool paced = record->output_tokens > 1;
  const Tick tpot = paced ? (e2e - ttft) / (record->output_tokens - 1) : 0;
  if (paced) histogram_add(&self->tpot, tpot, 1);
  if (!limits) limits = &self->good_limits;
  const bool good =
      within(ttft, limits->ttft) && within(tpot, limits->tpot) && within(e2e, limits->e2e);
  self->good += good;
  if (good && self->good_limits.share > 0) hours_good(&self->hours, record->arrived_at);
  if (reference) add_slowdowns(self, record, reference, ttft, e2e);
  return good;
}

void metrics_complete_session(Metrics *self, Tick ticks, bool good) {
  self->sessions_completed++;
  self->sessions_good += good;
  histogram_add(&self->session, ticks, 1);
}

/* ---- Components ---- */

/* One more than the histogram of components that it is; 0: none. */
static const int8_t of_components[METRICS_HISTOGRAMS] = {
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning) [METRICS_##field] = 1 + COMPONENT_##field,
#include "sim/books/metrics.def"
};

bool component_metrics_have(int histogram) {
  return of_components[histogram] > 0;
}

const Histogram *metrics_histogram(const Metrics *self, uint32_t component, int histogram) {
  if (component == 0) return &self->histograms[histogram];
  if (!component_metrics_have(histogram)) return NULL;
  return &self->components[component - 1].histograms[of_components[histogram] - 1];
}

Demand metrics_asked(const Metrics *self, uint32_t component) {
  if (component == 0) return self->asked;
  const ComponentMetrics *of = &self->components[component - 1];
  return (Demand){.requests = of->requests, .gaps = of->gaps, .paced = of->paced};
}

void component_metrics_arrive(ComponentMetrics *self, int32_t output_tokens) {
  self->requests++;
  self->gaps += (uint64_t)output_tokens - 1;
  self->paced += output_tokens > 1;
}

void component_metrics_init(ComponentMetrics *self, Arena *arena) {
  *self = (ComponentMetrics){0};
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning) histogram_init(&self->field, arena);
#include "sim/books/metrics.def"
}

void component_metrics_end(ComponentMetrics *self, const RequestRecord *record, bool good) {
  self->rejected += record->rejected != REJECTED_NOT;
  self->cancelled += record->cancelled != CANCELLED_NOT;
  if (record->rejected || record->cancelled) return;
  const Tick ttft = record->first_token_at - record->arrived_at;
  const Tick e2e = record->last_token_at - record->arrived_at;
  self->completed++;
  self->good += good;
  self->prompt_tokens += (uint64_t)record->prompt_tokens;
  self->output_tokens += (uint64_t)record->output_tokens;
  histogram_add(&self->ttft, ttft, 1);
  histogram_add(&self->e2e, e2e, 1);
  if (record->output_tokens > 1)
    histogram_add(&self->tpot, (e2e - ttft) / (record->output_tokens - 1), 1);
}
