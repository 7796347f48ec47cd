/* The figures of a run as a table for people. */
#include "experiments/base/cells.h"
#include "experiments/base/version.h"
#include "experiments/fleet/fleet.h"
#include "experiments/report/report.h"
#include "experiments/report/uptime.h"
#include "perfmodel/power.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const report_moves[MOVES] = {"shorter", "longer"};

/* A figure as `format` says, or `unknown` in its place. */
static const char *known(double value, const char *format, const char *unknown, char text[32]) {
  if (isnan(value))
    snprintf(text, 32, "%s", unknown);
  else
    snprintf(text, 32, format, value);
  return text;
}

/* Requests that were not served as they came, and why. */
static void table_limits(const Report *self, FILE *out) {
  const Metrics *metrics = &self->result->metrics;
  char count[32];
  Arena arena;
  arena_init(&arena);
  for (Rejection why = REJECTED_NOT + 1; why < REJECTIONS; why++)
    if (metrics->rejected_for[why] > 0)
      fprintf(out, "rejected     %s %s\n", format_count((double)metrics->rejected_for[why], count),
              report_rejection(self, why, &arena));
  if (metrics->cancelled > 0)
    fprintf(
        out, "cancelled    %s whose clients gave up, %s of them without a first token in time\n",
        format_count((double)metrics->cancelled, count),
        arena_printf(&arena, "%llu", (unsigned long long)metrics->cancelled_for[CANCELLED_TTFT]));
  if (metrics->cut_outputs > 0)
    fprintf(out, "cut          %s outputs, where the context of %s tokens ends (max_model_len)\n",
            format_count((double)metrics->cut_outputs, count),
            arena_printf(&arena, "%lld", (long long)self->config->sim.model.max_model_len));
  arena_done(&arena);
}

/* What runs, on what, and what that costs. */
static void table_bill(const Report *self, FILE *out) {
  const RunFigures *run = &self->run;
  Arena arena;
  arena_init(&arena);
  int n_lots = 0;
  const Lot *lots = lots_of_config(self->config, &n_lots, &arena);
  fprintf(out, "machines     %.0f instance%s on %.0f GPU%s: ", run->instances,
          run->instances == 1 ? "" : "s", run->gpus, run->gpus == 1 ? "" : "s");
  lots_print_machines(lots, n_lots, ", ", out);
  putc('\n', out);
  arena_done(&arena);
  if (isnan(run->cost_per_hour)) return;
  char output[32], all[32];
  fprintf(out, "price        %.6g $/h; %s $ per million output tokens, %s counting prompts\n",
          run->cost_per_hour, known(run->cost_per_million_output_tokens, "%.3g", "-", output),
          known(run->cost_per_million_tokens, "%.3g", "-", all));
  if (!(run->cost_per_million_output_tokens < run->cost_per_million_output_tokens_at_max)) return;
  fprintf(out,
          "at max       %.3g $ per million output tokens, %.3g counting prompts, had all instances "
          "been on throughout\n",
          run->cost_per_million_output_tokens_at_max, run->cost_per_million_tokens_at_max);
}

/* A time so that the third digit of `span` shows. */
static const char *moment(double seconds, double span, char text[32]) {
  const double step = pow(10, floor(log10(span)) - 2);
  snprintf(text, 32, "%.15g s",
           span > 0 && step < 1 ? round(seconds / step) * step : round(seconds));
  return text;
}

/* The time that all figures of the run are of. */
static void table_window(const Report *self, FILE *out) {
  const RunFigures *run = &self->run;
  char from[32], until[32], span[32];
  fprintf(
      out, "window       from %s to %s, %s\n", moment(run->counted_from_s, run->duration_s, from),
      moment(run->counted_until_s, run->duration_s, until), format_duration(run->duration_s, span));
}

/* What the building drew, and what that emitted. */
static void table_energy(const Report *self, FILE *out) {
  const RunFigures *run = &self->run;
  if (isnan(run->building_kwh)) return;
  fprintf(out, "building     %.4g kWh at a PUE of %.4g", run->building_kwh,
          self->config->energy.pue);
  if (!isnan(run->carbon_kg))
    fprintf(out, "; %.4g kg of CO2, %.4g g a request, %.4g g per million tokens", run->carbon_kg,
            run->carbon_g_per_request, run->carbon_g_per_million_tokens);
  putc('\n', out);
}

/* What broke, and what became of it. */
static void table_failures(const Report *self, FILE *out) {
  if (self->config->sim.n_faults == 0) return;
  char failures[32], losses[32], rejected[32], tokens[32];
  const double away = self->machines.down_s / (self->result->n_instances * self->run.duration_s);
  fprintf(out,
          "failures     %s, instances down %.3g%% of the time; %s requests lost with them, %s for "
          "good, and %s tokens\n",
          format_count(self->machines.failures, failures), 100 * away,
          format_count(self->run.losses, losses), format_count(self->run.rejected_lost, rejected),
          format_count(self->run.lost_tokens, tokens));
  uptime_print(self, out);
}

/* How many instances there were, of those that there may be. */
static void table_scaling(const Report *self, FILE *out) {
  bool scaled = false;
  for (uint32_t i = 0; i < self->config->sim.n_pools; i++)
    scaled |= self->config->sim.pools[i].scaling.max > 0;
  if (!scaled || self->run.duration_s == 0) return;
  char hours[32], ups[32], downs[32], up[32];
  fprintf(out, "scaling      %.4g instances on average, %s instance hours; %s starts",
          self->run.instance_hours / (self->run.duration_s / 3600),
          format_count(self->run.instance_hours, hours),
          format_count(self->machines.scale_ups, ups));
  if (self->machines.scale_ups > 0)
    fprintf(out, " of %s", format_duration(self->run.scale_up_s, up));
  fprintf(out, ", %s stops\n", format_count(self->machines.scale_downs, downs));
}

/* Who had to wait in front, or was given less. */
static void table_admission(const Report *self, FILE *out) {
  if (self->config->sim.n_classes == 0) return;
  char held[32], degraded[32];
  fprintf(out, "admission    %s requests held, %s outputs cut; fairness among %u tenants %.3f\n",
          format_count(self->run.held, held), format_count(self->run.degraded, degraded),
          self->result->n_tenants, self->run.fairness);
}

/* What power is from, and of which part of the machine. */
static void table_power(const Report *self, FILE *out) {
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    const PoolSpec *pool = self->pools[i].pool;
    const PowerModel *power = pool->perfmodel->power;
    if (!power) continue;
    fprintf(out, "power        %.4g kW in the mean, %.3g J per output token",
            self->run.mean_power_kw, self->run.j_per_output_token);
    if (power->cap < power->limit) fprintf(out, "; GPUs capped at %.0f W", power->cap);
    fprintf(out, "\n             %s%s", power->text,
            pool->prefill_power > 0 ? "" : "; of the GPUs alone");
    if (!isnan(power->error)) fprintf(out, "; error %.0f%%", 100 * power->error);
    putc('\n', out);
    return; // of pools that differ, that of the first
  }
}

/* What of the prompts was loaded from tiers under the prefix cache, and what was moved for it. */
static void table_kv_tiers(const Report *self, FILE *out) {
  const char *const names[] = {"CPU memory", "SSDs", "the remote store"};
  const double tokens[] = {self->machines.cpu_hit_tokens, self->machines.ssd_hit_tokens,
                           self->machines.remote_hit_tokens};
  const double read[] = {self->machines.cpu_read_bytes, self->machines.ssd_read_bytes,
                         self->machines.remote_read_bytes};
  const double written[] = {self->machines.cpu_written_bytes, self->machines.ssd_written_bytes,
                            self->machines.remote_written_bytes};
  char first[32], second[32];
  fprintf(out, "tiers        %s loads, %s each in the mean\n",
          format_count(self->machines.kv_loads, first),
          format_duration(self->machines.kv_load_s / self->machines.kv_loads, second));
  for (int i = 0; i < 3; i++)
    if (written[i] > 0)
      fprintf(out, "             %.1f%% of prompt tokens from %s, %s GB read, %s GB written\n",
              100 * tokens[i] / self->machines.queried_tokens, names[i],
              format_count(read[i] / 1e9, first), format_count(written[i] / 1e9, second));
}

static void table_head(const Report *self, FILE *out) {
  char requests[32], rejected[32], unfinished[32], span[32], cpu[32];
  write_cell(self->config->path, 0, out);
  fprintf(out, ": %s requests in %s of simulated time, %s of CPU\n\n",
          format_count(self->run.requests, requests), format_duration(self->run.duration_s, span),
          format_duration(self->run.cpu_s, cpu));
  fprintf(out, "requests     %s completed, %s rejected, %s unfinished\n",
          format_count(self->run.completed, requests), format_count(self->run.rejected, rejected),
          format_count(self->run.unfinished, unfinished));
  table_limits(self, out);
  table_window(self, out);
  fprintf(out, "throughput   %.2f requests/s, %s output tokens/s", self->run.throughput_rps,
          format_count(self->run.output_tokens_per_s, requests));
  if (self->run.offered_rps > 0) fprintf(out, "; %.2f requests/s offered", self->run.offered_rps);
  putc('\n', out);
  fprintf(
      out, "resources    %s, %s, %s\n",
      known(self->run.energy_kwh, "%.4g kWh", "energy unknown", requests),
      known(self->run.cost_usd, "$%.2f", "price unknown", rejected),
      known(self->run.provisioned_power_kw, "%.4g kW provisioned", "power unknown", unfinished));
  table_energy(self, out);
  table_bill(self, out);
  table_power(self, out);
  fprintf(out, "memory       %s preemptions", format_count(self->run.preemptions, requests));
  if (self->run.preemptions > 0)
    fprintf(out, ", %s of them recomputed",
            format_count(self->run.recomputes + self->run.restarted_prefills, rejected));
  fprintf(out, ", %s transfers of KV (%s GB)\n", format_count(self->run.transfers, unfinished),
          format_count(self->run.transferred_bytes / 1e9, span));
  if (self->machines.cached_tokens + self->machines.refound_tokens + self->machines.evictions > 0)
    fprintf(out, "cache        %.1f%% of prompt tokens found, %s blocks evicted\n",
            100 * self->machines.cached_share, format_count(self->machines.evictions, requests));
  if (self->machines.kv_loads > 0) table_kv_tiers(self, out);
  if (self->machines.draft_tokens > 0)
    fprintf(out, "drafts       %s verified, %.1f%% of them accepted: %.2f tokens a step\n",
            format_count(self->machines.draft_tokens, requests),
            100 * self->machines.accepted_tokens / self->machines.draft_tokens,
            self->machines.acceptance_length);
  if (self->result->metrics.asked.sessions > 0)
    fprintf(out, "sessions     %s began, %s completed, %s of them within all limits\n",
            format_count(self->run.sessions, requests),
            format_count(self->run.sessions_completed, rejected),
            format_count(self->run.sessions_good, unfinished));
  if (self->result->metrics.role_changes > 0)
    fprintf(out, "roles        %s changes, %s of them flips\n",
            format_count(self->run.role_changes, requests),
            format_count(self->run.flips, rejected));
  table_admission(self, out);
  table_scaling(self, out);
  table_failures(self, out);
  if (self->result->totals.swaps_out == 0) return;
  const double bytes = self->machines.swapped_in_bytes + self->machines.swapped_out_bytes;
  fprintf(out, "swapping     %s swaps to CPU memory (%s GB there and back), %s stalled\n",
          format_count(self->machines.swaps, requests), format_count(bytes / 1e9, rejected),
          format_duration(self->machines.stall_s, span));
}

/* The same run with iteration times moved down and up: Report.moved. */
static void table_moved(const Report *self, FILE *out) {
  if (!self->ranged) return;
  fputs("range        ", out);
  if (!self->moved[0]) {
    fputs("none: the error of the iteration times is unknown\n", out);
    return;
  }
  const Report *shorter = self->moved[0], *longer = self->moved[1];
  fprintf(out, "with times up to %.1f%% shorter and longer: %.2f and %.2f requests/s",
          100 * self->extrapolated.perfmodel_error, shorter->run.throughput_rps,
          longer->run.throughput_rps);
  if (!isnan(self->run.cost_usd))
    fprintf(out, ", $%.2f and $%.2f", shorter->run.cost_usd, longer->run.cost_usd);
  for (int i = 0; i < MOVES; i++)
    if (self->moved[i]->saturated != self->saturated)
      fprintf(out, "; with %s times %s", report_moves[i],
              self->saturated ? "not saturated" : "SATURATED");
  putc('\n', out);
}

static int wider(int width, const char *name) {
  return (int)strlen(name) > width ? (int)strlen(name) : width;
}

/* Halves of the 95% ranges of a row, as shares of its figures. */
static void table_ranges(const Distribution *latency, int width, FILE *out) {
  bool any = false;
  for (int k = 0; k < REPORT_STATISTICS; k++)
    any |= !isnan(latency->half_widths[k]);
  if (!any) return;
  fprintf(out, "%-*s", width, "  +-");
  for (int k = 0; report_half_widths[k]; k++) {
    const double share =
        latency->values[k] > 0 ? 100 * latency->half_widths[k] / latency->values[k] : NAN;
    char text[32];
    fprintf(out, " %9s", known(share, share < 9.95 ? "%.1f%%" : "%.0f%%", "?", text));
  }
  putc('\n', out);
}

/* Those of the same run with iteration times moved. */
static void table_moved_latency(const Report *self, int latency, int width, FILE *out) {
  for (int i = 0; i < MOVES && self->moved[i]; i++) {
    char name[32], text[32];
    snprintf(name, sizeof name, "  %s", report_moves[i]);
    fprintf(out, "%-*s", width, name);
    for (int k = 0; k < REPORT_STATISTICS; k++)
      fprintf(out, " %9s", format_duration(self->moved[i]->latencies[latency].values[k], text));
    putc('\n', out);
  }
}

static void table_latencies(const Report *self, FILE *out) {
  int width = (int)strlen("latency");
  for (int i = 0; i < self->n_latencies; i++) // "_s" is left out
    width = wider(width, self->latencies[i].name + strlen("_s"));
  fprintf(out, "\n%-*s", width, "latency");
  for (int k = 0; k < REPORT_STATISTICS; k++)
    fprintf(out, " %9s", report_statistics[k]);
  putc('\n', out);
  for (int i = 0; i < self->n_latencies; i++) {
    const Distribution *latency = &self->latencies[i];
    if (latency->histogram->total == 0) continue;
    fprintf(out, "%-*.*s", width, (int)(strlen(latency->name) - strlen("_s")), latency->name);
    for (int k = 0; k < REPORT_STATISTICS; k++) {
      char text[32];
      fprintf(out, " %9s", format_duration(latency->values[k], text));
    }
    fprintf(out, "  %s\n", latency->meaning);
    table_ranges(latency, width, out);
    table_moved_latency(self, i, width, out);
  }
}

static void table_pools(const Report *self, FILE *out) {
  int width = (int)strlen("pool");
  for (uint32_t i = 0; i < self->result->n_pools; i++)
    width = wider(width, self->pools[i].pool->name);
  fprintf(out, "\n%-*s  role     machine         instances  GPUs   used       kWh   iterations\n",
          width, "pool");
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    const PoolReport *report = &self->pools[i];
    char energy[32], iterations[32];
    fprintf(out, "%-*s  %-7s  %-15s %9.0f %5.0f %5.1f%% %9s %12s\n", width, report->pool->name,
            role_name(report->pool->role), report->pool->machine, report->figures.instances,
            report->figures.gpus, 100 * report->figures.utilization,
            known(report->figures.energy_kwh, "%.4g", "-", energy),
            format_count(report->machines.iterations, iterations));
  }
}

/* What became of each component of a mix. */
static void table_components(const Report *self, FILE *out) {
  const uint32_t n = self->result->n_components;
  if (n == 0) return;
  bool limited = false;
  int width = (int)strlen("component");
  for (uint32_t i = 0; i < n; i++) {
    limited |= goodput_limits_given(sim_good_limits(&self->config->sim, i));
    width = wider(width, self->components[i].component->name);
  }
  fprintf(out,
          "\n%-*s     requests  rejected  ttft p50       p99  tpot p50       p99   e2e p99%s\n",
          width, "component", limited ? "    good" : "");
  for (uint32_t i = 0; i < n; i++) {
    const ComponentReport *report = &self->components[i];
    const double times[] = {report->ttft.values[1], report->ttft.values[4], report->tpot.values[1],
                            report->tpot.values[4], report->e2e.values[4]};
    char requests[32], rejected[32], time[32];
    fprintf(out, "%-*s %12s %9s", width, report->component->name,
            format_count(report->figures.requests, requests),
            format_count(report->figures.rejected, rejected));
    for (int k = 0; k < 5; k++)
      fprintf(out, " %9s", isnan(times[k]) ? "-" : format_duration(times[k], time));
    if (limited) fprintf(out, " %6.2f%%", 100 * report->figures.good_share);
    putc('\n', out);
  }
}

/* What groups did, activities as shares of the time of all replicas. */
static void table_groups(const Report *self, FILE *out) {
  const uint32_t n = self->config->sim.n_groups;
  if (n == 0) return;
  int width = (int)strlen("group");
  for (uint32_t i = 0; i < n; i++)
    width = wider(width, self->groups[i].group->name);
  fprintf(out, "\n%-*s  turns", width, "group");
  for (int i = 0; i < GROUP_ACTIVITIES; i++)
    fprintf(out, " %8s", group_activity_name((GroupActivity)i));
  fputs("    GB out     GB in  store used\n", out);
  for (uint32_t g = 0; g < n; g++) {
    const GroupFigures *figures = &self->groups[g].figures;
    const double time = figures->replicas * self->run.duration_s;
    fprintf(out, "%-*s %6.0f", width, self->groups[g].group->name, figures->turns);
    for (int i = 0; i < GROUP_ACTIVITIES; i++)
      fprintf(out, " %7.1f%%",
              time > 0 ? 100 * tick_seconds(self->groups[g].totals.ticks[i]) / time : 0);
    fprintf(out, " %9.4g %9.4g %10.1f%%\n", figures->copied_out_bytes / 1e9,
            figures->copied_in_bytes / 1e9,
            100 * figures->most_stored_blocks / figures->store_blocks);
  }
  for (uint32_t g = 0; g < n; g++) {
    const GroupFigures *figures = &self->groups[g].figures;
    if (figures->store_blocks < figures->decode_gpu_blocks)
      fprintf(out,
              "%s: its store holds %.3g times the KV of its GPUs in decode, so they change shape "
              "for few prompts ('cpu_memory'; 'min_room' and 'finish' of the pool policy)\n",
              self->groups[g].group->name, figures->store_blocks / figures->decode_gpu_blocks);
  }
}

/* What tiers that move KV did. */
static void table_tiers(const Report *self, FILE *out) {
  for (uint32_t i = 0; i < self->result->n_pools; i++) {
    const char *name = self->pools[i].pool->name;
    const PoolFigures *pool = &self->pools[i].figures;
    const MachineFigures *machines = &self->pools[i].machines;
    if (machines->swaps > 0) continue; // told above
    if (machines->swapped_in_bytes == 0 && machines->expansions == 0) continue;
    char in[32], to[32], most[32];
    units_format(in, sizeof in, DIM_BYTES, machines->swapped_in_bytes);
    units_format(to, sizeof to, DIM_BYTES, machines->swapped_out_bytes);
    units_format(most, sizeof most, DIM_BYTES, pool->max_cpu_kv_bytes);
    fprintf(out,
            "\n%s: KV memory x%.3f on average, x%.3f at most with %s on the CPU, %.0f larger, %.0f "
            "smaller\n%s: %s to the GPUs, %s to the CPU, %.1f%% of busy time waited for copies\n",
            name, pool->mean_expansion, pool->max_expansion, most, machines->expansions,
            machines->contractions, name, in, to, 100 * machines->stall_s / machines->busy_s);
  }
}

/* A value or limit in the unit that people read it in. */
static const char *slo_text(const SloSpec *spec, double value, char text[32]) {
  if (isnan(value)) return "-";
  if (*slo_unit(spec) && isfinite(value)) return format_duration(value, text);
  const bool share = slo_is_share(spec);
  snprintf(text, 32, share ? "%.4g%%" : "%.3f", share ? 100 * value : value);
  return text;
}

/* Whether the 95% range that chance leaves of a value holds its limit; false: or is unknown. */
static bool is_of_chance(const SloOutcome *outcome) {
  return fabs(outcome->value - outcome->spec->limit) <= outcome->half_width;
}

static void put_moved_slo(const Report *self, int limit, FILE *out) {
  if (!self->moved[0]) return;
  const SloOutcome *shorter = &self->moved[0]->outcomes[limit];
  const SloOutcome *longer = &self->moved[1]->outcomes[limit];
  const bool met = self->outcomes[limit].met;
  char low[32], high[32];
  fprintf(out, "; %s to %s%s", format_margin(longer->margin, 0, low),
          format_margin(shorter->margin, 0, high),
          shorter->met != met || longer->met != met ? ": undecided" : "");
}

/* What is not met stands out. */
static const char *shown_status(const SloOutcome *outcome) {
  return outcome->unmeasured ? "NOT MEASURED" : outcome->met ? "met" : "MISSED";
}

static void table_slo(const Report *self, FILE *out) {
  const SloSet *slo = self->config->slo;
  if (slo->n_specs == 0) return;
  int width = 18;
  for (int i = 0; i < slo->n_specs; i++)
    width = wider(width, slo->specs[i].name);
  fprintf(out, "\n%-*s %9s %9s  margin          (%s: %d of %d met", width, "slo", "value", "limit",
          slo->name, slo->n_specs - self->n_missed - self->n_unmeasured, slo->n_specs);
  if (self->n_unmeasured > 0) fprintf(out, ", %d not measured", self->n_unmeasured);
  fputs(")\n", out);
  for (int i = 0; i < slo->n_specs; i++) {
    const SloOutcome *outcome = &self->outcomes[i];
    char value[32], limit[32], margin[32];
    fprintf(out, "%-*s %9s %9s %7s  %s%s%s", width, outcome->spec->name,
            slo_text(outcome->spec, outcome->value, value),
            slo_text(outcome->spec, outcome->spec->limit, limit),
            format_margin(outcome->margin, 0, margin), shown_status(outcome),
            self->saturated ? ", saturated" : "",
            is_of_chance(outcome) ? ", undecided by chance" : "");
    if (outcome->unmeasured) fprintf(out, ": %s", outcome->unmeasured);
    put_moved_slo(self, i, out);
    putc('\n', out);
  }
}

static void table_foot(const Report *self, FILE *out) {
  char events[32], iterations[32];
  putc('\n', out);
  report_print_times(self, out);
  fprintf(out, "digest       %016" PRIx64 " of %s iterations in %s events\n", self->result->digest,
          format_count(self->machines.iterations, iterations),
          format_count(self->run.events, events));
}

static void print_table(const Report *self, FILE *out) {
  table_head(self, out);
  report_print_steadiness(self, out);
  table_moved(self, out);
  table_latencies(self, out);
  table_pools(self, out);
  table_components(self, out);
  table_groups(self, out);
  table_tiers(self, out);
  table_slo(self, out);
  table_foot(self, out);
}

void report_print(const Report *self, OutputFormat format, FILE *out) {
  static void (*const printers[])(const Report *, FILE *) = {[OUTPUT_TABLE] = print_table,
                                                             [OUTPUT_CSV] = report_print_csv,
                                                             [OUTPUT_JSON] = report_print_json};
  printers[format](self, out);
}
