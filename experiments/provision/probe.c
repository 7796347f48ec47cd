/* See probe.h. */
#include "experiments/provision/probe.h"
#include "experiments/base/writer.h"
#include <inttypes.h>
#include <string.h>

const ProbeFigure probe_figures[PROBE_FIGURES] = {
#define PROBE_FIGURE(scope, name) {#scope, #name},
#include "experiments/provision/figures.def"
};

/* The number of the domain that is down in the run, and how many runs there are; UINT32_MAX: none
 * is. */
static uint32_t find_down(ProbeRun *self, const Provision *study) {
  const Config *config = &self->trial.config;
  const DomainLevel *level = config_find_level(config, study->survive);
  uint32_t n = 0;
  const uint32_t *worst = config_worst_domains(config, level, &n, &self->trial.arena);
  if (n > 0) self->n_domains = (int)n;
  return self->domain < (int)n ? worst[self->domain] : UINT32_MAX;
}

void probe_run_load(ProbeRun *self, const Provision *study, const Design *design, int seed,
                    double error_shift, const TermShifts *apart) {
  Trial *trial = &self->trial;
  trial_init(trial);
  self->has_trial = true;
  self->n_domains = 1;
  ConfigChanges changes = provision_changes(study, design, &self->probe, seed, &trial->arena);
  changes.error_shift = error_shift;
  if (apart) changes.apart = *apart;
  self->failed = trial_load(trial, study->base, &changes) != 0;
  const uint32_t down = self->failed || !study->survive ? UINT32_MAX : find_down(self, study);
  if (down != UINT32_MAX) { // which only the whole configuration says
    trial_done(trial);
    trial_init(trial);
    changes = provision_changes_without(study, design, &self->probe, seed, down, &trial->arena);
    changes.error_shift = error_shift;
    if (apart) changes.apart = *apart;
    self->failed = trial_load(trial, study->base, &changes) != 0;
  }
  if (!study->offline) { // of one that is, any key may change from choice to choice
    self->end.cache = &study->base->cache;
    self->end.key = arena_printf(&trial->arena, "demands of design %td, seed %d, rate %" PRId64,
                                 design - study->designs, seed, self->probe.rate);
  }
  self->measured = !self->failed;
  for (uint32_t i = 0; self->measured && i < trial->config.sim.n_pools; i++)
    self->measured = trial->config.sim.pools[i].perfmodel->measured;
}

/* ---- On a thread of its own ---- */

static bool may_stop(const ProbeRun *self) {
  return self->early_stop && early_end_may(&self->trial);
}

static bool meets_all(const ProbeRun *self) {
  bool met = true;
  for (int i = 0; i < self->n_slos; i++)
    met &= self->slos[i].met;
  return met;
}

int probe_run_recount(ProbeRun *self) {
  return may_stop(self) && !meets_all(self) ? early_end_count(&self->end, &self->trial) : 0;
}

void probe_run_simulate(void *context) {
  ProbeRun *self = context;
  if (may_stop(self) && early_end_set(&self->end, &self->trial)) return;
  // A length that is found hangs on the ranges; else those who read a database look at them.
  self->trial.config.sim.without_ranges = !self->kept && !self->trial.config.length.automatic;
  trial_run(&self->trial);
}

/* ---- Back on the caller's ---- */

static void copy_outcomes(ProbeRun *self, Arena *arena) {
  const Report *report = &self->trial.report;
  self->n_slos = report->config->slo->n_specs;
  self->slos = ARENA_ARRAY(arena, SloOutcome, self->n_slos);
  for (int i = 0; i < self->n_slos; i++)
    self->slos[i] = report->outcomes[i];
}

/* Fits ReportVisit. */
static void keep_figure(void *context, const char *scope, const char *name, const char *statistic,
                        double value, const char *unit) {
  (void)statistic; // none of these has but one
  (void)unit;
  ProbeRun *self = context;
  for (int i = 0; i < PROBE_FIGURES; i++)
    if (strcmp(scope, probe_figures[i].scope) == 0 && strcmp(name, probe_figures[i].name) == 0)
      self->figures[i] = value;
}

/* Objectives outlive the trial that they were read from. */
static void keep_specs(ProbeRun *self, Arena *arena) {
  for (int i = 0; i < self->n_slos; i++) {
    SloSpec *spec = ARENA_NEW(arena, SloSpec);
    *spec = *self->slos[i].spec;
    spec->name = arena_copy(arena, spec->name, strlen(spec->name));
    self->slos[i].spec = spec;
  }
}

void probe_run_take(ProbeRun *self, Arena *arena) {
  const Trial *trial = &self->trial;
  if (!self->reused) {
    self->failed = trial->diag.n_entries > 0;
    if (self->failed) return;
    const Metrics *metrics = &trial->result.metrics;
    const double finished = (double)metrics_ended(metrics);
    self->stopped = trial->result.stopped;
    self->outcomes = trial->result.digest;
    self->events = (double)trial->result.events;
    if (self->stopped)
      self->saved_events = self->events * ((double)self->end.demands->of->requests / finished - 1);
    copy_outcomes(self, arena);
    self->served = run_served(&trial->report);
    report_visit(&trial->report, keep_figure, self);
  }
  keep_specs(self, arena);
  self->verdict = !self->stopped && meets_all(self) ? PROBE_HOLDS : PROBE_FAILS;
}

void probe_run_release(ProbeRun *self) {
  if (self->has_trial) trial_done(&self->trial);
  self->has_trial = false;
}

RunServed run_served(const Report *report) {
  const Metrics *metrics = &report->result->metrics;
  const double arrivals_s = tick_seconds(metrics->last_arrival_at - metrics->first_arrival_at);
  return (RunServed){.known = true,
                     .saturated = report->saturated,
                     .met = report_met(report),
                     .throughput_rps = report_value(report, "throughput_rps"),
                     .output_tokens_per_s = report_value(report, "output_tokens_per_s"),
                     .gpus = report_value(report, "gpus"),
                     .tpot_s = report_latency(report, "tpot_s", "mean"),
                     .cost = report_value(report, "cost_per_million_output_tokens"),
                     .joules = report_value(report, "j_per_output_token"),
                     .offered_tokens = report_value(report, "output_tokens") / arrivals_s};
}

RunKept probe_run_kept(const ProbeRun *self) {
  const double *of = self->figures, tokens = of[FIGURE_output_tokens_per_s],
               outputs = of[FIGURE_output_tokens];
  const double cost = of[FIGURE_cost_per_hour] * of[FIGURE_duration_s] / 3600;
  return (RunKept){.served = self->served,
                   .output_tokens_per_s = tokens,
                   .tokens_per_s =
                       outputs > 0 ? tokens * (1 + of[FIGURE_prompt_tokens] / outputs) : 0,
                   .unpaid = cost > 0 ? 1 - of[FIGURE_cost_usd] / cost : 0,
                   .carbon = of[FIGURE_carbon_g_per_million_output_tokens],
                   .extrapolated = of[FIGURE_time_share],
                   .far = of[FIGURE_far_time_share],
                   .perfmodel_error = of[FIGURE_perfmodel_error],
                   .measured = self->measured,
                   .config_digest = self->trial.config_digest,
                   .outcomes = self->outcomes};
}

KvPressure probe_run_pressure(const ProbeRun *self) {
  const double requests = self->figures[FIGURE_requests];
  return requests > 0 ? (KvPressure){self->figures[FIGURE_kv_waits] / requests,
                                     self->figures[FIGURE_recomputes] / requests}
                      : (KvPressure){0, 0};
}

/* A run that was stopped knows of the requests that had ended; of prompts beyond the context all
 * are known where the workload was read through. */
const char *probe_run_rejections(const ProbeRun *self, double *ret_share, Arena *arena) {
  const Demands *demands = self->end.demands;
  const bool counted = demands && demands->beyond_of->requests > 0;
  const double ended = self->figures[FIGURE_requests];
  const double context =
      counted ? (double)demands->beyond_of->requests : self->figures[FIGURE_rejected_context];
  const double memory = self->figures[FIGURE_rejected_kv_memory];
  const double of = counted ? (double)demands->of->requests : ended;
  char n[32], all[32], tokens[32];
  *ret_share = 0;
  if (!(context > 0) && !(memory > 0)) return NULL;
  if (context > 0) {
    *ret_share = context / of;
    return arena_printf(arena, "%s of %s prompts exceed the context%s%s", format_count(context, n),
                        format_count(of, all), counted ? " of " : "",
                        counted ? format_count((double)demands->context, tokens) : "");
  }
  *ret_share = memory / ended;
  return arena_printf(arena, "%s of %s%s requests do not fit into the KV memory of one instance",
                      format_count(memory, n), self->stopped ? "the first " : "",
                      format_count(ended, all));
}

const SloOutcome *probe_run_binding(const ProbeRun *self) {
  const SloOutcome *least = NULL;
  for (int i = 0; i < self->n_slos; i++)
    if (!least ||
        (!least->unmeasured && (self->slos[i].unmeasured || self->slos[i].margin < least->margin)))
      least = &self->slos[i];
  return least;
}

const char *probe_limit_lost(const SloOutcome *slo, const char *where, Arena *arena) {
  const char *unit = slo_unit(slo->spec);
  return arena_printf(arena, "'%s', limit %.4g%s%s, is %s%s%s%s", slo->spec->name, slo->spec->limit,
                      *unit ? " " : "", unit, slo_status(slo), where, slo->unmeasured ? ": " : "",
                      slo->unmeasured ? slo->unmeasured : "");
}

/* Why a run that ended is no answer; NULL: it is one. */
static const char *explain(const ProbeRun *self, Arena *arena) {
  const double left_out = self->figures[FIGURE_requests] - self->figures[FIGURE_completed];
  if (left_out > 0)
    return arena_printf(arena, "%.0f of %.0f requests are rejected or never finish", left_out,
                        self->figures[FIGURE_requests]);
  if (self->verdict == PROBE_HOLDS) return NULL;
  return probe_limit_lost(probe_run_binding(self), "", arena);
}

Measurement probe_run_measurement(const ProbeRun *self, Arena *arena) {
  return (Measurement){.throughput_rps = self->figures[FIGURE_throughput_rps],
                       .run = probe_run_kept(self),
                       .why_not = explain(self, arena)};
}
