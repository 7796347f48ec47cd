/* Figures of a run, from its result. */
#include "experiments/report/report.h"
#include "experiments/fleet/fleet.h"
#include "experiments/report/uptime.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static const double quantiles[] = {0.50, 0.90, 0.95, 0.99};

const char *const report_half_widths[REPORT_STATISTICS] = {"mean_half_width", "p50_half_width",
                                                           "p90_half_width",  "p95_half_width",
                                                           "p99_half_width",  NULL};
const char *const report_statistics[REPORT_STATISTICS] = {"mean", "p50", "p90",
                                                          "p95",  "p99", "max"};

#define UNIT_COUNT   ""
#define UNIT_MACHINE ""
#define UNIT_TIME    "s"

const Figure report_figures[] = {
#define LATENCY(field, asked, meaning)                  {LEVEL_LATENCY, #field "_s", "s", meaning},
#define POOL_HISTOGRAM(name, unit, scale, meaning)      {LEVEL_POOL_SPREAD, #name, unit, meaning},
#define RUN_FIGURE(name, unit, value, meaning)          {LEVEL_RUN, #name, unit, meaning},
#define EXTRAPOLATED_FIGURE(name, unit, value, meaning) {LEVEL_EXTRAPOLATED, #name, unit, meaning},
#define INSTANCE_FIGURE(name, unit, value, meaning)     {LEVEL_MACHINE, #name, unit, meaning},
#define POOL_FIGURE(name, unit, value, meaning)         {LEVEL_POOL, #name, unit, meaning},
#define COMPONENT_FIGURE(name, unit, value, meaning)    {LEVEL_COMPONENT, #name, unit, meaning},
#define COMPONENT_HISTOGRAM(name, unit, scale, meaning)                                            \
  {LEVEL_COMPONENT_SPREAD, #name "_s", unit, meaning},
#define GROUP_FIGURE(name, unit, value, meaning) {LEVEL_GROUP, #name, unit, meaning},
#define REQUEST_FIELD(type, field, column, kind, meaning)                                          \
  {LEVEL_REQUEST, #column, UNIT_##kind, meaning},
#define REQUEST_FIGURE(name, unit, value, meaning) {LEVEL_REQUEST, #name, unit, meaning},
#include "sim/books/metrics.def"
    {LEVELS, NULL, NULL, NULL}};

static const double JOULES_PER_KWH = 3.6e6;

static double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

Distribution distribution_make(const char *name, const char *unit, double scale,
                               const char *meaning, const Histogram *histogram) {
  Distribution made = {name, unit, meaning, histogram, {0}, {0}};
  const bool any = histogram->total > 0;
  made.values[0] = any ? histogram_mean(histogram) / scale : NAN;
  for (int i = 0; i < 4; i++)
    made.values[1 + i] = any ? histogram_quantile(histogram, quantiles[i]) / scale : NAN;
  made.values[REPORT_STATISTICS - 1] = any ? (double)histogram->max / scale : NAN;
  for (int i = 0; i < REPORT_STATISTICS; i++)
    made.half_widths[i] = NAN;
  return made;
}

/* Ranges of what is known from the batches of the run. */
static void add_ranges(Report *self) {
  const SimResult *result = self->result;
  if (!result->batches) return;
  for (int i = 0; i < self->n_latencies; i++) {
    Distribution *latency = &self->latencies[i];
    const int of = (int)(latency->histogram - result->metrics.histograms);
    const double scale = metrics_histograms[of].scale;
    latency->half_widths[0] = batches_mean_range(result->batches, &result->metrics, 0, of) / scale;
    for (int k = 0; k < 4; k++)
      latency->half_widths[1 + k] =
          batches_quantile_range(result->batches, &result->metrics, 0, of, quantiles[k]) / scale;
  }
}

uint64_t report_extrapolated(const InstanceTotals *totals) {
  return (uint64_t)(totals->extrapolated_iterations[EXTRAPOLATION_NEAR] +
                    totals->extrapolated_iterations[EXTRAPOLATION_FAR]);
}

MachineFigures report_machine(const InstanceTotals *totals) {
  return (MachineFigures){
#define INSTANCE_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
  };
}

/* NAN when a fact that it rests on is 0: the machine file does not say it, since no machine costs
 * or draws nothing. */
static double if_known(double value, double fact) {
  return fact > 0 ? value : NAN;
}

/* 1 where what it draws is said by its model or its machine type. */
static double draws_known(const PoolSpec *pool) {
  return pool->perfmodel->power || pool->prefill_power > 0;
}

static double energy_kwh(const PoolResult *result) {
  return if_known(result->energy_j / JOULES_PER_KWH, draws_known(result->pool));
}

static uint32_t lanes_of(const PoolSpec *pool) {
  return pool->lanes > 1 ? pool->lanes : 1;
}

static double off_hours(const PoolResult *result) {
  return total_seconds(result->totals.off_ticks) / lanes_of(result->pool) / 3600;
}

static double instances_on(const PoolResult *result, Tick span) {
  const double hours = tick_seconds(span) / 3600;
  return pool_machines(result->pool) - (hours > 0 ? off_hours(result) / hours : 0);
}

static double instance_hours(const SimResult *result) {
  double hours = 0;
  for (uint32_t i = 0; i < result->n_pools; i++)
    hours += instances_on(&result->pools[i], result->span) * tick_seconds(result->span) / 3600;
  return hours;
}

/* An instance that is off costs nothing, whatever else is on its machine, unless others take turns
 * on its GPUs. */
static double paid_of(const Report *self, double max_cost_usd) {
  const SimResult *result = self->result;
  double cost = max_cost_usd;
  if (self->config->sleep.instances > 0) return cost;
  for (uint32_t i = 0; i < result->n_pools; i++) {
    const Lot lot = lot_of_pool(&self->config->pools[i]);
    const double hours = off_hours(&result->pools[i]);
    if (hours > 0) cost -= hours * lots_take(&lot, 1, NULL).cost_per_hour / lot.count;
  }
  return cost;
}

/* NAN of no tokens. */
static double per_million(double cost_usd, double tokens) {
  return tokens > 0 ? cost_usd / tokens * 1e6 : NAN;
}

/* NAN where nothing may fail. */
static double up_share(const PoolResult *result, Tick span) {
  if (!result->up_ticks || span == 0) return NAN;
  return uptime_share(result, uptime_wanted(result->pool), span);
}

static PoolReport make_pool(const PoolResult *result, const Takes *takes, double expected_up,
                            Tick span, Arena *arena) {
  const InstanceTotals *totals = &result->totals;
  const double block_bytes = (double)result->pool->kv_block_bytes;
  return (PoolReport){
      .pool = result->pool,
      .scope = arena_printf(arena, "pool.%s", result->pool->name),
      .figures =
          {
#define POOL_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
          },
      .machines = report_machine(totals),
#define POOL_HISTOGRAM(field, unit, scale, meaning)                                                \
  .field = distribution_make(#field, unit, scale, meaning, result->field),
#include "sim/books/metrics.def"
  };
}

static ComponentReport make_component(const ComponentSpec *spec, const ComponentMetrics *metrics,
                                      Arena *arena) {
  return (ComponentReport){
      .component = spec,
      .scope = arena_printf(arena, "component.%s", spec->name),
      .figures =
          {
#define COMPONENT_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
          },
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning)                                           \
  .field = distribution_make(#field "_s", unit, scale, meaning, &metrics->field),
#include "sim/books/metrics.def"
  };
}

static GroupReport make_group(const SimResult *result, const GroupSpec *spec, Arena *arena) {
  double replicas = 0, gpu_blocks[SHAPES] = {0}; // KV blocks of one replica in each shape
  GroupTotals sum = {0};
  const GroupTotals *totals = &sum;
  for (uint32_t g = 0; g < result->n_groups; g++) {
    const Group *group = &result->groups[g];
    if (group->spec != spec) continue;
    replicas++;
    group_totals_add(&sum, &group->totals);
    for (int shape = 0; shape < SHAPES; shape++)
      gpu_blocks[shape] = (double)group->n_instances[shape] *
                          (double)result->pools[spec->pools[shape]].pool->kv_blocks;
  }
  return (GroupReport){.group = spec,
                       .scope = arena_printf(arena, "group.%s", spec->name),
                       .totals = sum,
                       .figures = {
#define GROUP_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
                       }};
}

static double energy_of(const SimResult *result) {
  double kwh = result->energy_j / JOULES_PER_KWH;
  for (uint32_t i = 0; i < result->n_pools; i++)
    kwh = if_known(kwh, draws_known(result->pools[i].pool));
  return kwh;
}

/* NAN when there is no window. */
static double window_rps(const Metrics *metrics) {
  const Tick length = metrics->window.to - metrics->window.from;
  return if_known((double)metrics->in_window / tick_seconds(length), (double)metrics->window.to);
}

/* Jain, Chiu & Hawe 1984: (Σ x)² / (n Σ x²), of tenants that were served. NAN without tenants. */
static double fairness_of(const SimResult *result) {
  double n = 0, sum = 0, squares = 0;
  for (uint32_t i = 0; i < result->n_tenants; i++) {
    const TenantResult *tenant = &result->tenants[i];
    const double share = (double)tenant->service / tenant->spec->weight;
    if (share == 0) continue;
    n++;
    sum += share;
    squares += share * share;
  }
  return n > 0 ? sum * sum / (n * squares) : NAN;
}

/* NAN where nobody said the PUE, or a power is not known. */
static double building_kwh_of(const Report *self) {
  const EnergyConfig *energy = &self->config->energy;
  return energy->is_given ? energy->pue * energy_of(self->result) : NAN;
}

/* NAN where an intensity or a power is not known. */
static double carbon_kg_of(const Report *self) {
  const EnergyConfig *energy = &self->config->energy;
  const SimResult *result = self->result;
  if (!energy->g_per_kwh || isnan(energy_of(result))) return NAN;
  double grams = 0;
  for (size_t h = 0; h < result->n_hour_joules; h++)
    grams += result->hour_joules[h] / JOULES_PER_KWH * config_grams_per_kwh(energy, h);
  return energy->pue * grams / 1e3;
}

/* NAN of none. */
static double per(double sum, double n) {
  return n > 0 ? sum / n : NAN;
}

static RunFigures run_figures(const Report *self, double cpu_s, double wall_s, Arena *arena) {
  const SimResult *result = self->result;
  const Metrics *metrics = &result->metrics;
  const double requests = (double)metrics->asked.requests;
  const double span_s = tick_seconds(result->span);
  const double offered_s = tick_seconds(metrics->last_arrival_at - metrics->first_arrival_at);
  const double output_tokens = (double)metrics->output_tokens;
  const double tokens = (double)metrics->prompt_tokens + output_tokens;
  const double output_tokens_per_s = ratio(output_tokens, span_s);
  int n_lots = 0;
  const Lot *lots = lots_of_config(self->config, &n_lots, arena);
  const Takes takes = lots_take(lots, n_lots, NULL);
  const double max_cost_usd = takes.cost_per_hour * span_s / 3600;
  const double cost_usd = paid_of(self, max_cost_usd);
  const double building_kwh = building_kwh_of(self), carbon_kg = carbon_kg_of(self);
  return (RunFigures){
#define RUN_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
  };
}

static double worst_error(const SimResult *result) {
  double worst = 0;
  for (uint32_t i = 0; i < result->n_pools; i++) {
    const double error = result->pools[i].pool->perfmodel->held_out_error;
    if (isnan(error)) return NAN;
    worst = fmax(worst, error);
  }
  return worst;
}

static bool all_measured(const SimResult *result) {
  bool all = true;
  for (uint32_t i = 0; i < result->n_pools; i++)
    all &= result->pools[i].pool->perfmodel->measured;
  return all;
}

static ExtrapolatedFigures extrapolated_figures(const SimResult *result) {
  const InstanceTotals *totals = &result->totals;
  const double iterations = (double)(totals->prefill_iterations + totals->decode_iterations);
  const Total *ticks = totals->extrapolated_ticks;
  const double outside_s = total_seconds(ticks[EXTRAPOLATION_NEAR] + ticks[EXTRAPOLATION_FAR]);
  return (ExtrapolatedFigures){
#define EXTRAPOLATED_FIGURE(name, unit, value, meaning) .name = (double)(value),
#include "sim/books/metrics.def"
  };
}

void report_init(Report *self, const Config *config, const SimResult *result, double cpu_s,
                 double wall_s, Arena *arena) {
  const Metrics *metrics = &result->metrics;
  *self = (Report){
      .config = config,
      .result = result,
      .machines = report_machine(&result->totals),
      .extrapolated = extrapolated_figures(result),
      .pools = ARENA_ARRAY(arena, PoolReport, result->n_pools),
      .components = ARENA_ARRAY(arena, ComponentReport, result->n_components),
      .groups = ARENA_ARRAY(arena, GroupReport, config->sim.n_groups),
      .outcomes = ARENA_ARRAY(arena, SloOutcome, config->slo->n_specs),
  };
  self->run = run_figures(self, cpu_s, wall_s, arena);
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const HistogramSpec *of = &metrics_histograms[i];
    if (of->column)
      self->latencies[self->n_latencies++] =
          distribution_make(of->column, of->unit, of->scale, of->meaning, &metrics->histograms[i]);
  }
  add_ranges(self);
  for (uint32_t i = 0; i < result->n_pools; i++) {
    const Lot lot = lot_of_pool(&config->pools[i]);
    const Takes takes = lots_take(&lot, 1, NULL);
    self->pools[i] = make_pool(&result->pools[i], &takes,
                               uptime_expected_share(&config->sim, i, arena), result->span, arena);
  }
  for (uint32_t i = 0; i < result->n_components; i++)
    self->components[i] = make_component(&config->sim.components[i], &result->components[i], arena);
  for (uint32_t i = 0; i < config->sim.n_groups; i++)
    self->groups[i] = make_group(result, &config->sim.groups[i], arena);
  slo_eval(config->slo, metrics, self->outcomes);
  for (int i = 0; i < config->slo->n_specs; i++) {
    self->n_unmeasured += self->outcomes[i].unmeasured != NULL;
    self->n_missed += !self->outcomes[i].unmeasured && !self->outcomes[i].met;
  }
  report_add_steadiness(self);
}

static const char *room_of(const ModelRoom *room, Phase phase, Arena *arena) {
  return arena_printf(arena, "%lld tokens on an instance of '%s'", (long long)room->tokens[phase],
                      room->roomiest[phase]->name);
}

const char *report_rejection(const Report *self, Rejection why, Arena *arena) {
  const bool several = self->result->n_models > 1; // then it says less
  const ModelRoom *room = &self->result->rooms[0];
  const PoolSpec *prefill = room->roomiest[PHASE_PREFILL];
  const PoolSpec *decode = room->roomiest[PHASE_DECODE];
  switch (why) {
  case REJECTED_CONTEXT:
    if (several) return "whose prompt leaves no room in the context of their model";
    return arena_printf(arena,
                        "whose prompt leaves no room in the context of %lld tokens (max_model_len)",
                        (long long)self->config->sim.model.max_model_len);
  case REJECTED_KV_MEMORY:
    if (several) return "that need more KV memory than any instance of their model has";
    if (!prefill || !decode) return "that need more KV memory than any instance has";
    return arena_printf(arena, "that need more KV memory than %s%s%s",
                        room_of(room, PHASE_PREFILL, arena), prefill == decode ? "" : " and ",
                        prefill == decode ? "" : room_of(room, PHASE_DECODE, arena));
  case REJECTED_STORE:
    return arena_printf(arena, "whose prompt the CPU store of a group cannot hold (%lld tokens)",
                        (long long)room->store_tokens);
  case REJECTED_ADMISSION:
    return "beyond the limits of their class or tenant";
  case REJECTED_LOST:
    return "that were lost with failed instances and had no retry left";
  case REJECTED_NOT:
  case REJECTIONS:
    break;
  }
  assert(!"a reason");
  return "";
}

int report_check_served(const Report *self, Diag *diag) {
  const Metrics *metrics = &self->result->metrics;
  const Node *warm = node_find(self->config->root, "warm");
  if (warm && metrics->asked.requests == 0)
    return diag_error(diag, warm->at, "all requests belong to the warm-up, so none is counted");
  if (metrics->rejected == 0 || metrics->rejected < metrics->asked.requests) return 0;
  for (Rejection why = REJECTED_NOT + 1; why < REJECTIONS; why++)
    if (metrics->rejected_for[why] > 0)
      diag_error(diag, place_of_file(self->config->path), "no request can be served: %llu %s",
                 (unsigned long long)metrics->rejected_for[why],
                 report_rejection(self, why, &diag->arena));
  return -1;
}

double report_value(const Report *self, const char *name) {
  const double *value = (const double *)&self->run;
  for (const Figure *figure = report_figures; figure->name; figure++) {
    if (figure->level != LEVEL_RUN) continue;
    if (strcmp(figure->name, name) == 0) return *value;
    value++;
  }
  assert(!"a figure of this name");
  return NAN;
}

double report_latency(const Report *self, const char *name, const char *statistic) {
  int i = 0, at = 0;
  while (strcmp(self->latencies[i].name, name) != 0)
    i++;
  while (strcmp(report_statistics[at], statistic) != 0)
    at++;
  assert(i < self->n_latencies && at < REPORT_STATISTICS);
  return self->latencies[i].values[at];
}

static void visit_distribution(const Distribution *distribution, const char *scope,
                               ReportVisit visit, void *context) {
  for (int k = 0; k < REPORT_STATISTICS; k++)
    visit(context, scope, distribution->name, report_statistics[k], distribution->values[k],
          distribution->unit);
  for (int k = 0; k < REPORT_STATISTICS; k++)
    if (!isnan(distribution->half_widths[k]))
      visit(context, scope, distribution->name, report_half_widths[k], distribution->half_widths[k],
            distribution->unit);
}

/* `values` is the struct of the level. */
static void visit_level(Level level, const void *values, const char *scope, ReportVisit visit,
                        void *context) {
  const double *value = values;
  for (const Figure *figure = report_figures; figure->name; figure++)
    if (figure->level == level)
      visit(context, scope, figure->name, "value", *value++, figure->unit);
}

void report_visit(const Report *self, ReportVisit visit, void *context) {
  visit_level(LEVEL_RUN, &self->run, "run", visit, context);
  visit_level(LEVEL_MACHINE, &self->machines, "run", visit, context);
  for (int i = 0; i < self->n_latencies; i++)
    visit_distribution(&self->latencies[i], "run", visit, context);
  visit_level(LEVEL_EXTRAPOLATED, &self->extrapolated, "extrapolated", visit, context);
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    const PoolReport *pool = &self->pools[i];
    visit_level(LEVEL_POOL, &pool->figures, pool->scope, visit, context);
    visit_level(LEVEL_MACHINE, &pool->machines, pool->scope, visit, context);
#define POOL_HISTOGRAM(field, unit, scale, meaning)                                                \
  visit_distribution(&pool->field, pool->scope, visit, context);
#include "sim/books/metrics.def"
  }
  for (uint32_t i = 0; i < self->result->n_components; i++) {
    const ComponentReport *component = &self->components[i];
    visit_level(LEVEL_COMPONENT, &component->figures, component->scope, visit, context);
#define COMPONENT_HISTOGRAM(field, unit, scale, meaning)                                           \
  visit_distribution(&component->field, component->scope, visit, context);
#include "sim/books/metrics.def"
  }
  for (uint32_t i = 0; i < self->config->sim.n_groups; i++)
    visit_level(LEVEL_GROUP, &self->groups[i].figures, self->groups[i].scope, visit, context);
}
