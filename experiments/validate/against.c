/* A simulation beside a log, request by request. */
#include "experiments/base/progress.h"
#include "experiments/campaign/campaign.h"
#include "experiments/validate/errors.h"
#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <inttypes.h>
#include <math.h>

/* ---- Requests of the log as a workload ---- */

typedef struct LogSource {
  TraceSource source; // first member
  const EngineLog *log;
  size_t next;
} LogSource;

static int next_row(TraceSource *source, TraceRow *ret_row, Diag *diag) {
  LogSource *self = (LogSource *)source;
  (void)diag;
  if (self->next == self->log->n_requests) return 0;
  const BenchmarkRequest *request = &self->log->requests[self->next++];
  *ret_row = (TraceRow){.at = request->sent,
                        .prompt_tokens = request->prompt_tokens,
                        .output_tokens = request->output_tokens};
  return 1;
}

const char *validate_against_workload(const EngineLog *log, Arena *arena) {
  return arena_printf(arena,
                      "workload={lengths: {prompt: {constant: 1}, output: {constant: 1}}, "
                      "arrivals: {process: at_once}, requests: %zu}",
                      log->n_requests);
}

/* ---- Simulating ---- */

/* What became of each request; NAN: it was turned away. */
typedef struct Latencies {
  double of[AGAINST_FIGURES];
} Latencies;

typedef struct Listener {
  Latencies *latencies; // [n_requests]
  size_t n;
  Progress progress;
} Listener;

static void set_latencies(Latencies *self, double ttft, double e2e, int64_t output_tokens) {
  self->of[AGAINST_TTFT] = ttft;
  self->of[AGAINST_E2E] = e2e;
  self->of[AGAINST_TPOT] = output_tokens > 1 ? (e2e - ttft) / (double)(output_tokens - 1) : NAN;
}

static int take_record(void *context, const RequestRecord *record, const Metrics *so_far,
                       Diag *diag) {
  Listener *self = context;
  (void)so_far, (void)diag;
  if (record->id >= self->n || record->rejected || record->last_token_at < 0) return 0;
  set_latencies(&self->latencies[record->id],
                tick_seconds(record->first_token_at - record->arrived_at),
                tick_seconds(record->last_token_at - record->arrived_at), record->output_tokens);
  return 0;
}

static int simulate(Against *self, Config *config, const EngineLog *log, Latencies *ret_simulated,
                    Arena *arena, Diag *diag) {
  LogSource source = {.source = {.next = next_row, .status = 1}, .log = log};
  Listener listener = {.latencies = ret_simulated, .n = log->n_requests};
  SimResult result;
  Report *report = ARENA_NEW(arena, Report);
  for (size_t i = 0; i < log->n_requests; i++)
    ret_simulated[i] = (Latencies){{NAN, NAN, NAN}};
  config->sim.trace = &source.source;
  config->source = NULL;
  progress_init(&listener.progress, &config->workload);
  SimConfig sim = config->sim;
  sim.on_progress = progress_update;
  sim.on_progress_context = &listener.progress;
  sim.on_request = take_record;
  sim.on_request_context = &listener;
  const int status = config_simulate(config, &sim, &result, report, arena, diag);
  progress_done(&listener.progress);
  if (status) return -1;
  self->extrapolated = report->extrapolated.time_share;
  return 0;
}

/* ---- Errors ---- */

static const char *const FIGURES[AGAINST_FIGURES] = {"ttft_s", "tpot_s", "e2e_s"};
static const char *const STATISTICS[AGAINST_STATISTICS] = {"mean", "p50", "p90", "p99"};
static const double QUANTILES[AGAINST_STATISTICS] = {NAN, 0.5, 0.9, 0.99};

static double statistic_of(const double *sorted, size_t n, int statistic) {
  if (n == 0) return NAN;
  if (statistic == 0) return gsl_stats_mean(sorted, 1, n);
  return gsl_stats_quantile_from_sorted_data(sorted, 1, n, QUANTILES[statistic]);
}

/* A figure of the requests that have it on both sides. */
static void compare_figure(Against *self, int figure, const Latencies *simulated,
                           const Latencies *logged, Arena *arena) {
  const size_t n_all = self->n_requests;
  double *errors = ARENA_ARRAY(arena, double, n_all);
  double *sides[] = {ARENA_ARRAY(arena, double, n_all), ARENA_ARRAY(arena, double, n_all)};
  size_t n = 0;
  for (size_t i = 0; i < n_all; i++) {
    const double here = simulated[i].of[figure], there = logged[i].of[figure];
    errors[i] = there > 0 ? here / there - 1 : NAN;
    if (isnan(errors[i])) continue;
    sides[0][n] = here;
    sides[1][n++] = there;
  }
  self->requests[figure] = validate_summary(errors, n_all);
  for (int i = 0; i < 2; i++)
    gsl_sort(sides[i], 1, n);
  for (int k = 0; k < AGAINST_STATISTICS; k++) {
    const double here = statistic_of(sides[0], n, k), there = statistic_of(sides[1], n, k);
    self->latencies[figure * AGAINST_STATISTICS + k] =
        (ValidateLatency){FIGURES[figure], STATISTICS[k], here, there, here / there - 1, NAN};
  }
}

static void judge(Against *self) {
  self->verdict = VALIDATE_MET;
  for (int i = 0; i < AGAINST_FIGURES * AGAINST_STATISTICS; i++) {
    const ValidateLatency *latency = &self->latencies[i];
    if (isnan(latency->error)) continue;
    if (!self->worst || fabs(latency->error) > fabs(self->worst->error)) self->worst = latency;
  }
  if (!self->worst || fabs(self->worst->error) > self->within) self->verdict = VALIDATE_NOT_MET;
}

/* ---- Steps ---- */

static void compare_steps(Against *self, const Config *config, const EngineLog *log, Arena *arena) {
  const PerfModel *model = config->sim.pools[0].perfmodel;
  ValidateIteration *iterations = ARENA_ARRAY(arena, ValidateIteration, log->n_steps + 1);
  size_t n = 0;
  self->n_steps = log->n_steps;
  for (size_t i = 0; i < log->n_steps; i++) {
    const LoggedStep *step = &log->steps[i];
    Extrapolation extrapolation;
    if (step->batch.decode_seqs > model->max_decode_seqs) {
      self->n_larger++;
      continue;
    }
    const Tick predicted = perfmodel_iteration(model, &step->batch, &extrapolation);
    iterations[n++] = (ValidateIteration){.shape = step->batch,
                                          .measured = step->seconds,
                                          .predicted = tick_seconds(predicted),
                                          .extrapolated = extrapolation != EXTRAPOLATION_NONE};
  }
  validate_iteration_errors(iterations, n, self->iterations, arena);
}

int validate_against(Against *self, Config *config, const EngineLog *log, double within,
                     Arena *arena, Diag *diag) {
  const size_t n = log->n_requests;
  Latencies *logged = ARENA_ARRAY(arena, Latencies, n),
            *simulated = ARENA_ARRAY(arena, Latencies, n);
  *self = (Against){.log = log->path,
                    .kind = log->kind,
                    .n_requests = n,
                    .n_failed = log->n_failed,
                    .cached = log->cached_tokens / log->prompt_tokens,
                    .within = within};
  if (simulate(self, config, log, simulated, arena, diag)) return -1;
  for (size_t i = 0; i < n; i++) {
    const BenchmarkRequest *request = &log->requests[i];
    set_latencies(&logged[i], tick_seconds(request->ttft), tick_seconds(request->e2e),
                  request->output_tokens);
    self->n_unserved += isnan(simulated[i].of[AGAINST_E2E]);
  }
  for (int figure = 0; figure < AGAINST_FIGURES; figure++)
    compare_figure(self, figure, simulated, logged, arena);
  compare_steps(self, config, log, arena);
  judge(self);
  return 0;
}
