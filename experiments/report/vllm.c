/* A run in the words of `vllm bench serve` (vLLM 0.9 to 0.33, vllm/benchmarks/serve.py), so that
 * whatever reads a measurement reads a simulation: its block of lines, and its JSON of
 * --save-result, both with --percentile-metrics ttft,tpot,itl,e2el. What it takes second by second,
 * the peaks of tokens and of requests in flight, is left out. */
#include "experiments/base/version.h"
#include "experiments/report/report.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 50 };

/* The latencies that it tells, under its names; the column is ours. */
static const struct {
  const char *column, *key, *name, *title;
} told[] = {
    {"ttft_s", "ttft", "TTFT", "Time to First Token"},
    {"tpot_s", "tpot", "TPOT", "Time per Output Token (excl. 1st token)"},
    {"tbt_s", "itl", "ITL", "Inter-token Latency"},
    {"e2e_s", "e2el", "E2EL", "End-to-end Latency"},
};
enum { TOLD = sizeof told / sizeof *told };

/* What it tells beside latencies. */
typedef struct Totals {
  double completed, failed, clients, rate, duration_s; // clients, rate: 0: as many as come
  double prompt_tokens, output_tokens, tokens_per_s;
  double goodput; // requests/s within the limits of slo.goodput; NAN: it has none
} Totals;

static Totals totals_of(const Report *self) {
  const RunFigures *run = &self->run;
  const WorkloadConfig *workload = &self->config->workload;
  const ClosedLoopConfig *loop = &workload->closed_loop;
  const double duration_s = run->duration_s;
  const GoodputLimits *limits = &self->config->sim.good_limits;
  const bool asks_good = limits->ttft > 0 || limits->tpot > 0 || limits->e2e > 0;
  const double tokens = run->prompt_tokens + run->output_tokens;
  return (Totals){.completed = run->completed,
                  .failed = run->requests - run->completed,
                  .clients = (double)loop->clients,
                  .rate = loop->clients == 0 || loop->timed ? workload->rate : 0,
                  .duration_s = duration_s,
                  .prompt_tokens = run->prompt_tokens,
                  .output_tokens = run->output_tokens,
                  .tokens_per_s = duration_s > 0 ? tokens / duration_s : 0,
                  .goodput = !asks_good       ? NAN
                             : duration_s > 0 ? run->good / duration_s
                                              : 0};
}

static const Distribution *latency_of(const Report *self, const char *column) {
  int i = 0;
  while (strcmp(self->latencies[i].name, column) != 0)
    i++;
  return &self->latencies[i];
}

static double value_of(const Distribution *latency, const char *statistic) {
  int i = 0;
  while (strcmp(report_statistics[i], statistic) != 0)
    i++;
  return isnan(latency->values[i]) ? 0 : 1e3 * latency->values[i]; // as it has it: 0 of none
}

/* ---- The block ---- */

static void put_title(const char *title, char rule, FILE *out) {
  const int free = WIDTH - (int)strlen(title);
  for (int i = 0; i < free / 2; i++)
    putc(rule, out);
  fputs(title, out);
  for (int i = 0; i < free - free / 2; i++)
    putc(rule, out);
  putc('\n', out);
}

static void put_line(const char *label, int decimals, double value, FILE *out) {
  fprintf(out, "%-40s %-10.*f\n", label, decimals, value);
}

static void put_latency(const Report *self, int i, FILE *out) {
  static const struct {
    const char *word, *statistic;
  } lines[] = {{"Mean", "mean"}, {"Median", "p50"}, {"P90", "p90"}, {"P99", "p99"}};
  const Distribution *latency = latency_of(self, told[i].column);
  put_title(told[i].title, '-', out);
  for (int k = 0; k < 4; k++) {
    char label[64];
    snprintf(label, sizeof label, "%s %s (ms):", lines[k].word, told[i].name);
    put_line(label, 2, value_of(latency, lines[k].statistic), out);
  }
}

void report_print_vllm(const Report *self, FILE *out) {
  const Totals totals = totals_of(self);
  put_title(" Serving Benchmark Result ", '=', out);
  put_line("Successful requests:", 0, totals.completed, out);
  put_line("Failed requests:", 0, totals.failed, out);
  if (totals.clients > 0) put_line("Maximum request concurrency:", 0, totals.clients, out);
  if (totals.rate > 0) put_line("Request rate configured (RPS):", 2, totals.rate, out);
  put_line("Benchmark duration (s):", 2, totals.duration_s, out);
  put_line("Total input tokens:", 0, totals.prompt_tokens, out);
  put_line("Total generated tokens:", 0, totals.output_tokens, out);
  put_line("Request throughput (req/s):", 2, self->run.throughput_rps, out);
  if (!isnan(totals.goodput)) put_line("Request goodput (req/s):", 2, totals.goodput, out);
  put_line("Output token throughput (tok/s):", 2, self->run.output_tokens_per_s, out);
  put_line("Total token throughput (tok/s):", 2, totals.tokens_per_s, out);
  for (int i = 0; i < TOLD; i++)
    put_latency(self, i, out);
  put_title("", '=', out);
}

/* ---- JSON ---- */

static void put_json_latency(const Report *self, int i, FILE *out) {
  static const struct {
    const char *word, *statistic;
  } values[] = {
      {"mean", "mean"}, {"median", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}};
  const Distribution *latency = latency_of(self, told[i].column);
  for (int k = 0; k < 5; k++) {
    char key[32];
    snprintf(key, sizeof key, "%s_%s_ms", values[k].word, told[i].key);
    write_json_value(", ", key, value_of(latency, values[k].statistic), out);
    if (k > 0) continue;
    const double spread = latency->histogram->total > 0 ? histogram_stddev(latency->histogram) : 0;
    snprintf(key, sizeof key, "std_%s_ms", told[i].key);
    write_json_value(", ", key, 1e3 * spread / (double)TICKS_PER_SECOND, out);
  }
}

/* Of gamma gaps it is their shape; Poisson arrivals have 1, and where no rate is asked for 1 is its
 * default; others have none. */
static double burstiness_of(const WorkloadConfig *workload, double rate) {
  if (rate == 0) return 1;
  if (workload->trace || workload->pattern.given || workload->n_components > 0) return NAN;
  return workload->arrivals == ARRIVAL_POISSON ? 1
         : workload->arrivals == ARRIVAL_GAMMA ? 1 / (workload->cv * workload->cv)
                                               : NAN;
}

void report_print_vllm_json(const Report *self, FILE *out) {
  const Totals totals = totals_of(self);
  Arena arena;
  arena_init(&arena);
  const char *model = config_model_name(self->config, &arena);
  write_json_text("{", "endpoint_type", "tandem", out);
  write_json_text(", ", "backend", "tandem", out);
  write_json_text(", ", "label", tandem_version, out);
  write_json_text(", ", "model_id", model, out);
  write_json_text(", ", "tokenizer_id", model, out);
  arena_done(&arena);
  write_json_value(", ", "num_prompts", self->run.requests, out);
  if (totals.rate > 0)
    write_json_value(", ", "request_rate", totals.rate, out);
  else
    write_json_text(", ", "request_rate", "inf", out);
  write_json_value(", ", "burstiness", burstiness_of(&self->config->workload, totals.rate), out);
  write_json_value(", ", "max_concurrency", totals.clients > 0 ? totals.clients : NAN, out);
  write_json_value(", ", "duration", totals.duration_s, out);
  write_json_value(", ", "completed", totals.completed, out);
  write_json_value(", ", "failed", totals.failed, out);
  write_json_value(", ", "total_input_tokens", totals.prompt_tokens, out);
  write_json_value(", ", "total_output_tokens", totals.output_tokens, out);
  write_json_value(", ", "request_throughput", self->run.throughput_rps, out);
  write_json_value(", ", "request_goodput", totals.goodput, out);
  write_json_value(", ", "output_throughput", self->run.output_tokens_per_s, out);
  write_json_value(", ", "total_token_throughput", totals.tokens_per_s, out);
  for (int i = 0; i < TOLD; i++)
    put_json_latency(self, i, out);
  fputs("}\n", out);
}
