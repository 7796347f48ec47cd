/* What is best, from its name or from what the configuration has. */
#include "experiments/tune/tune.h"
#include <math.h>
#include <string.h>

/* Figures of a run that have a name here. */
static const TuneObjective figures[] = {
    {TUNE_FIGURE, "throughput", "requests/s", .figure = "throughput_rps"},
    {TUNE_FIGURE, "tokens", "output tokens/s", .figure = "output_tokens_per_s"},
    {TUNE_FIGURE, "energy", "J per output token", .figure = "j_per_output_token", .lower = true},
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* Whether a load can be so many times as high. */
static bool has_load(const WorkloadConfig *workload) {
  if (workload_waits(workload) || workload->rate_scale != 1) return false;
  if (!workload->trace && workload->arrivals == ARRIVAL_AT_ONCE && workload->n_components == 0)
    return false;
  return workload->trace || workload_has_rate(workload);
}

static int find_rate(Tuning *self) {
  const WorkloadConfig *workload = &self->config.workload;
  const Place at = place_of_file("--objective");
  if (self->config.slo->n_specs == 0) {
    diag_error(self->diag, at, "the objective 'rate' needs limits, and the configuration has none");
    return diag_hint(self->diag, "give them, such as --slo 'ttft.p99<2s,tpot.p99<50ms'");
  }
  if (!has_load(workload)) {
    diag_error(self->diag, at,
               "the workload has no single rate to search for the objective 'rate'");
    return diag_hint(self->diag, "--objective goodput and tokens are of the load as it is");
  }
  const bool rated = workload_has_rate(workload) && workload->rate > 0;
  self->load.base = &self->base;
  self->load.rate_key = workload->trace ? "workload.rate" : "workload.arrivals.rate";
  self->load.base_rate = rated ? workload->rate : 0;
  self->objective =
      (TuneObjective){TUNE_RATE, "rate", rated ? "requests/s" : "times the rate of the trace"};
  return 0;
}

static int find_goodput(Tuning *self) {
  const Config *config = &self->config;
  self->objective = (TuneObjective){TUNE_GOODPUT, "goodput", "good requests/s"};
  for (int i = 0; i < config->slo->n_specs; i++)
    if (slo_is_share(&config->slo->specs[i])) return 0; // its limits are in the configuration
  if (plan_request_limits(&self->goodput, config, self->arena)) return 0;
  diag_error(self->diag, place_of_file("--objective"),
             "the objective 'goodput' needs limits that a request can keep");
  return diag_hint(self->diag, "limits on ttft, tpot and e2e are, such as --slo 'ttft.p99<2s'");
}

/* "ttft_p99" or "ttft.p99": 0, or 1 when it is something else. */
static int find_latency(Tuning *self, const char *name) {
  const char *end = strpbrk(name, "._");
  for (; end; end = strpbrk(end + 1, "._")) {
    SloSpec spec = {.name = name, .limit = INFINITY};
    spec.metric = slo_metric_find(name, (size_t)(end - name));
    if (!spec.metric || !spec.metric->column ||
        !slo_parse_statistic(end + 1, &spec.statistic, &spec.quantile))
      continue;
    self->objective = (TuneObjective){.kind = TUNE_LATENCY,
                                      .name = name,
                                      .unit = spec.metric->unit,
                                      .latency = spec,
                                      .lower = true};
    return 0;
  }
  return 1;
}

static const char *usual(const Config *config) {
  const WorkloadConfig *workload = &config->workload;
  if (config->slo->n_specs > 0 && has_load(workload)) return "rate";
  if (config->slo->n_specs > 0 && !workload_waits(workload)) return "goodput";
  return has_load(workload) ? "e2e_mean" : "tokens";
}

int objective_find(Tuning *self, const char *given) {
  static const char *const names[] = {"rate",     "goodput",  "throughput", "tokens",   "energy",
                                      "ttft_p99", "tpot_p99", "e2e_p99",    "e2e_mean", NULL};
  const char *name = given ? given : usual(&self->config);
  if (strcmp(name, "rate") == 0) return find_rate(self);
  if (strcmp(name, "goodput") == 0) return find_goodput(self);
  for (int i = 0; i < FIGURES; i++)
    if (strcmp(name, figures[i].name) == 0) {
      self->objective = figures[i];
      return 0;
    }
  if (find_latency(self, name) == 0) return 0;
  diag_error(self->diag, place_of_file("--objective"), "unknown objective '%s'", name);
  return diag_hint_choices(self->diag, name, names, "tandem tune --help");
}

const char *objective_text(const TuneObjective *self, double value, Arena *arena) {
  return arena_printf(arena, "%.4g%s%s", value, *self->unit ? " " : "", self->unit);
}
