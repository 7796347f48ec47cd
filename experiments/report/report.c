/* Figures of a run, from its result. */
#include "experiments/report/report.h"
#include <assert.h>
#include <math.h>
#include <string.h>

const char *const report_statistics[REPORT_STATISTICS] = {"mean", "p50", "p90",
                                                          "p95",  "p99", "max"};

static const double JOULES_PER_KWH = 3.6e6;

static double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

static Distribution make_distribution(const char *name, const char *unit, double scale,
                                      const Histogram *histogram) {
  static const double quantiles[] = {0.50, 0.90, 0.95, 0.99};
  Distribution made = {.name = name, .unit = unit, .histogram = histogram, .scale = scale};
  for (int i = 0; i < REPORT_STATISTICS; i++)
    made.values[i] = NAN;
  if (histogram->total == 0) return made;
  made.values[0] = histogram_mean(histogram) / scale;
  for (int i = 0; i < 4; i++)
    made.values[1 + i] = histogram_quantile(histogram, quantiles[i]) / scale;
  made.values[REPORT_STATISTICS - 1] = (double)histogram->max / scale;
  return made;
}

static Distribution make_latency(const char *name, const Histogram *histogram) {
  return make_distribution(name, "s", (double)TICKS_PER_SECOND, histogram);
}

static double iterations_of(const MachineTotals *totals) {
  return (double)(totals->prefill_iterations + totals->decode_iterations);
}

uint64_t report_extrapolated(const MachineTotals *totals) {
  return (uint64_t)(totals->extrapolated_iterations[EXTRAPOLATION_NEAR] +
                    totals->extrapolated_iterations[EXTRAPOLATION_FAR]);
}

/* NAN when a fact that it rests on is 0: the machine file does not say it, since no machine costs
 * or draws nothing. */
static double if_known(double value, double fact) {
  return fact > 0 ? value : NAN;
}

static PoolReport make_pool(const PoolResult *result, Arena *arena) {
  const MachineTotals *totals = &result->totals;
  return (PoolReport){
      .pool = result->pool,
      .scope = arena_printf(arena, "pool.%s", result->pool->name),
      .scalars = {{"utilization", "", result->utilization},
                  {"energy_kwh", "kWh",
                   if_known(result->energy_j / JOULES_PER_KWH, result->pool->prefill_power)},
                  {"iterations", "", iterations_of(totals)},
                  {"busy_s", "s", total_seconds(machine_busy_ticks(totals))},
                  {"prefill_s", "s", total_seconds(totals->prefill_ticks - totals->mixed_ticks)},
                  {"decode_s", "s", total_seconds(totals->decode_ticks)},
                  {"mixed_s", "s", total_seconds(totals->mixed_ticks)},
                  {"prefill_tokens", "", (double)totals->prefill_tokens},
                  {"padding_tokens", "", (double)totals->padding_tokens},
                  {"decode_tokens", "", (double)totals->decode_tokens},
                  {"stall_s", "s", total_seconds(totals->stall_ticks)},
                  {"swapped_in_bytes", "B", (double)totals->swapped_in_bytes},
                  {"swapped_out_bytes", "B", (double)totals->swapped_out_bytes},
                  {"expansions", "", (double)totals->expansions},
                  {"contractions", "", (double)totals->contractions},
                  {"mean_expansion", "", result->mean_expansion},
                  {"max_expansion", "", result->max_expansion},
                  {"max_kv_bytes", "B",
                   (double)totals->max_kv_blocks * (double)result->pool->kv_block_bytes},
                  {"max_cpu_kv_bytes", "B",
                   (double)totals->max_cpu_blocks * (double)result->pool->kv_block_bytes}},
      .batch_tokens = make_distribution("batch_tokens", "", 1, result->batch_tokens),
  };
}

/* What all pools take together, in the units of the run. */
typedef struct Resources {
  double energy_kwh, cost_usd, provisioned_kw; // NAN: unknown
} Resources;

static Resources resources_of(const SimConfig *config, const SimResult *result) {
  Resources sum = {.energy_kwh = result->energy_j / JOULES_PER_KWH, .cost_usd = result->cost_usd};
  for (uint32_t i = 0; i < result->n_pools; i++) {
    const PoolSpec *pool = result->pools[i].pool;
    sum.energy_kwh = if_known(sum.energy_kwh, pool->prefill_power);
    sum.cost_usd = if_known(sum.cost_usd, pool->cost_per_hour);
    if (!sim_is_second_shape(config, i))
      sum.provisioned_kw +=
          if_known(pool->count * pool->provisioned_power / 1000, pool->provisioned_power);
  }
  return sum;
}

/* NAN when there is no window. */
static double window_rps(const Metrics *metrics) {
  const Tick length = metrics->window.to - metrics->window.from;
  return if_known((double)metrics->in_window / tick_seconds(length), (double)metrics->window.to);
}

static void fill_scalars(Report *self, double cpu_s, double wall_s) {
  const SimResult *result = self->result;
  const Metrics *metrics = &result->metrics;
  const MachineTotals *totals = &result->totals;
  const double asked = (double)metrics->asked.requests;
  const bool any = metrics->completed > 0;
  const double served_s =
      any ? tick_seconds(metrics->last_finish_at - metrics->first_arrival_at) : 0;
  const double iterations = iterations_of(totals);
  const double busy = total_seconds(machine_busy_ticks(totals));
  const double outside_s = total_seconds(totals->extrapolated_ticks[EXTRAPOLATION_NEAR] +
                                         totals->extrapolated_ticks[EXTRAPOLATION_FAR]);
  const double far = (double)totals->extrapolated_iterations[EXTRAPOLATION_FAR];
  const Resources resources = resources_of(&self->config->sim, result);
  const Scalar scalars[] = {
      {"requests", "", asked},
      {"completed", "", (double)metrics->completed},
      {"rejected", "", (double)metrics->rejected},
      {"rejected_context", "", (double)metrics->rejected_for[REJECTED_CONTEXT]},
      {"rejected_kv_memory", "", (double)metrics->rejected_for[REJECTED_KV_MEMORY]},
      {"rejected_store", "", (double)metrics->rejected_for[REJECTED_STORE]},
      {"cut_outputs", "", (double)metrics->cut_outputs},
      {"unfinished", "", (double)result->unfinished},
      {"duration_s", "s", tick_seconds(result->span)},
      {"throughput_rps", "/s", ratio((double)metrics->completed, served_s)},
      {"window_rps", "/s", window_rps(metrics)},
      {"output_tokens_per_s", "/s", ratio((double)metrics->output_tokens, served_s)},
      {"energy_kwh", "kWh", resources.energy_kwh},
      {"cost_usd", "$", resources.cost_usd},
      {"provisioned_power_kw", "kW", resources.provisioned_kw},
      {"preemptions", "", (double)metrics->preemptions},
      {"evictions", "", (double)metrics->evictions},
      {"swaps", "", (double)totals->swaps_out},
      {"transfers", "", (double)metrics->transfers},
      {"transferred_bytes", "B", (double)metrics->transferred_bytes},
      {"role_changes", "", (double)metrics->role_changes},
      {"flips", "", (double)metrics->flips},
      {"flip_s", "s", ratio(total_seconds(metrics->flip_ticks), (double)metrics->flips)},
      {"predicted_right", "", ratio((double)metrics->predicted_right, asked)},
      {"stall_s", "s", total_seconds(totals->stall_ticks)},
      {"swapped_in_bytes", "B", (double)totals->swapped_in_bytes},
      {"swapped_out_bytes", "B", (double)totals->swapped_out_bytes},
      {"iterations", "", iterations},
      {"events", "", (double)result->events},
      {"cpu_s", "s", cpu_s},
      {"wall_s", "s", wall_s},
  };
  _Static_assert(sizeof scalars == sizeof self->scalars, "one row each");
  memcpy(self->scalars, scalars, sizeof scalars);
  const Scalar extrapolated[] = {
      {"iterations_share", "", ratio((double)report_extrapolated(totals), iterations)},
      {"time_share", "", ratio(outside_s, busy)},
      {"far_iterations_share", "", ratio(far, iterations)},
  };
  _Static_assert(sizeof extrapolated == sizeof self->extrapolated, "one row each");
  memcpy(self->extrapolated, extrapolated, sizeof extrapolated);
}

void report_init(Report *self, const Config *config, const SimResult *result, double cpu_s,
                 double wall_s, Arena *arena) {
  const Metrics *metrics = &result->metrics;
  *self = (Report){
      .config = config,
      .result = result,
      .latencies = {make_latency("ttft_s", &metrics->ttft), make_latency("tbt_s", &metrics->tbt),
                    make_latency("tpot_s", &metrics->tpot), make_latency("e2e_s", &metrics->e2e),
                    make_latency("queue_s", &metrics->queue),
                    make_latency("second_token_s", &metrics->second_token),
                    make_latency("kv_transfer_s", &metrics->kv_transfer),
                    make_latency("queue_token_s", &metrics->queue_token),
                    make_latency("compute_token_s", &metrics->compute_token)},
      .pools = ARENA_ARRAY(arena, PoolReport, result->n_pools),
      .groups = ARENA_ARRAY(arena, GroupReport, config->sim.n_groups),
      .outcomes = ARENA_ARRAY(arena, SloOutcome, config->slo->n_specs),
  };
  fill_scalars(self, cpu_s, wall_s);
  for (uint32_t i = 0; i < result->n_pools; i++)
    self->pools[i] = make_pool(&result->pools[i], arena);
  for (uint32_t i = 0; i < config->sim.n_groups; i++)
    self->groups[i] = report_group(result, &config->sim.groups[i], arena);
  slo_eval(config->slo, metrics, self->outcomes);
  for (int i = 0; i < config->slo->n_specs; i++)
    self->n_missed += !self->outcomes[i].met;
}

static const char *room_of(const SimResult *result, Phase phase, Arena *arena) {
  return arena_printf(arena, "%lld tokens on a machine of '%s'",
                      (long long)result->room_tokens[phase], result->roomiest[phase]->name);
}

const char *report_rejection(const Report *self, Rejection why, Arena *arena) {
  const SimResult *result = self->result;
  const PoolSpec *prefill = result->roomiest[PHASE_PREFILL];
  const PoolSpec *decode = result->roomiest[PHASE_DECODE];
  switch (why) {
  case REJECTED_CONTEXT:
    return arena_printf(arena,
                        "whose prompt leaves no room in the context of %lld tokens "
                        "(max_model_len)",
                        (long long)self->config->sim.max_model_len);
  case REJECTED_KV_MEMORY:
    if (!prefill || !decode) return "that need more KV memory than any machine has";
    return arena_printf(arena, "that need more KV memory than %s%s%s",
                        room_of(result, PHASE_PREFILL, arena), prefill == decode ? "" : " and ",
                        prefill == decode ? "" : room_of(result, PHASE_DECODE, arena));
  case REJECTED_STORE:
    return arena_printf(arena, "whose prompt the CPU store of a group cannot hold (%lld tokens)",
                        (long long)result->store_tokens);
  case REJECTED_NOT:
  case REJECTIONS:
    break;
  }
  assert(!"a reason");
  return "";
}

int report_check_served(const Report *self, Diag *diag) {
  const Metrics *metrics = &self->result->metrics;
  if (metrics->rejected == 0 || metrics->rejected < metrics->asked.requests) return 0;
  for (Rejection why = REJECTED_NOT + 1; why < REJECTIONS; why++)
    if (metrics->rejected_for[why] > 0)
      diag_error(diag, place_of_file(self->config->path), "no request can be served: %llu %s",
                 (unsigned long long)metrics->rejected_for[why],
                 report_rejection(self, why, &diag->arena));
  return -1;
}

double report_value(const Report *self, const char *name) {
  for (int i = 0; i < REPORT_SCALARS; i++)
    if (strcmp(self->scalars[i].name, name) == 0) return self->scalars[i].value;
  assert(!"a scalar of this name");
  return NAN;
}

static void visit_distribution(const Distribution *distribution, const char *scope,
                               ReportVisit visit, void *context) {
  for (int k = 0; k < REPORT_STATISTICS; k++)
    visit(context, scope, distribution->name, report_statistics[k], distribution->values[k],
          distribution->unit);
}

static void visit_scalars(const Scalar *scalars, int n, const char *scope, ReportVisit visit,
                          void *context) {
  for (int i = 0; i < n; i++)
    visit(context, scope, scalars[i].name, "value", scalars[i].value, scalars[i].unit);
}

void report_visit(const Report *self, ReportVisit visit, void *context) {
  visit_scalars(self->scalars, REPORT_SCALARS, "run", visit, context);
  for (int i = 0; i < REPORT_LATENCIES; i++)
    visit_distribution(&self->latencies[i], "run", visit, context);
  visit_scalars(self->extrapolated, REPORT_EXTRAPOLATED, "extrapolated", visit, context);
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    const PoolReport *pool = &self->pools[i];
    visit_scalars(pool->scalars, REPORT_POOL_SCALARS, pool->scope, visit, context);
    visit_distribution(&pool->batch_tokens, pool->scope, visit, context);
  }
  for (uint32_t i = 0; i < self->config->sim.n_groups; i++)
    visit_scalars(self->groups[i].scalars, REPORT_GROUP_SCALARS, self->groups[i].scope, visit,
                  context);
}
