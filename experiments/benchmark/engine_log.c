/* Logs of requests of three kinds as one. */
#include "base/csv.h"
#include "base/sort.h"
#include "experiments/benchmark/benchmark.h"
#include <math.h>
#include <stdlib.h>

enum {
  REQUESTS_MAX = 10 * 1000 * 1000,
  LOGGED_STEPS_MAX = 1 << 23,
  SECONDS_MAX = 9000000,
  TOKENS_MAX = 1 << 20,
};

typedef struct Loading {
  EngineLog *log;
  size_t capacity, steps_capacity;
  double *arrived_s; // [capacity]
  size_t arrived_capacity;
  Arena *arena;
  Diag *diag;
} Loading;

/* `arrived_s` by the log's clock. */
static int add_request(Loading *self, const BenchmarkRequest *request, double arrived_s, Place at) {
  EngineLog *log = self->log;
  if (log->n_requests == REQUESTS_MAX)
    return diag_error(self->diag, at, "the log has more than %d requests", REQUESTS_MAX);
  if (request->prompt_tokens > TOKENS_MAX || request->output_tokens > TOKENS_MAX)
    return diag_error(self->diag, at, "the request has more than %d tokens", TOKENS_MAX);
  ARENA_RESERVE(self->arena, log->requests, self->capacity, log->n_requests + 1);
  ARENA_RESERVE(self->arena, self->arrived_s, self->arrived_capacity, log->n_requests + 1);
  self->arrived_s[log->n_requests] = arrived_s;
  log->requests[log->n_requests++] = *request;
  log->prompt_tokens += request->prompt_tokens;
  return 0;
}

/* ---- requests.csv ---- */

typedef struct CsvRow {
  int64_t input_tokens, output_tokens;
  double arrival_s, queued_s, first_token_s, last_token_s;
} CsvRow;

static const CsvColumn columns[] = {CSV_FIELD(CsvRow, input_tokens, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(CsvRow, output_tokens, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(CsvRow, arrival_s, CSV_REAL, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(CsvRow, queued_s, CSV_REAL, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(CsvRow, first_token_s, CSV_REAL, CSV_POSITIVE),
                                    CSV_FIELD(CsvRow, last_token_s, CSV_REAL, CSV_POSITIVE),
                                    {0}};

static int check_row(const CsvRow *row, const Csv *csv, Diag *diag) {
  if (row->input_tokens > TOKENS_MAX || row->output_tokens > TOKENS_MAX)
    return diag_error(diag, csv_place(csv, NULL), "the request has more than %d tokens",
                      TOKENS_MAX);
  if (row->last_token_s < row->first_token_s || row->last_token_s > SECONDS_MAX ||
      row->arrival_s > SECONDS_MAX || row->queued_s > SECONDS_MAX)
    return diag_error(diag, csv_place(csv, NULL),
                      "the last token of the request is before its first, or later than 9e6 s");
  return 0;
}

/* Latencies as if it had arrived at 0: when that was is known once all rows are. */
static int take_rows(Loading *self, Csv *csv, double *ret_clocks_differ_s) {
  CsvRow row = {0};
  int error = 0;
  for (int status; (status = csv_next(csv, &row, self->diag)) != 0;) {
    if (status < 0 || check_row(&row, csv, self->diag)) {
      error = -1;
      continue;
    }
    const BenchmarkRequest request = {.prompt_tokens = (int32_t)row.input_tokens,
                                      .output_tokens = (int32_t)row.output_tokens,
                                      .ttft = tick_from_seconds(row.first_token_s),
                                      .e2e = tick_from_seconds(row.last_token_s)};
    *ret_clocks_differ_s = fmin(*ret_clocks_differ_s, row.queued_s - row.arrival_s);
    if (add_request(self, &request, row.arrival_s, csv_place(csv, NULL))) return -1;
  }
  return error;
}

static int load_csv(Loading *self, const char *path) {
  EngineLog *log = self->log;
  Csv csv;
  double clocks_differ_s = INFINITY;
  log->kind = "requests of vLLM, as its engine logged them";
  if (csv_open(&csv, path, self->arena, self->diag) ||
      csv_header(&csv, columns, false, self->diag) || take_rows(self, &csv, &clocks_differ_s))
    return -1;
  for (size_t i = 0; i < log->n_requests; i++) {
    self->arrived_s[i] = fmax(0, self->arrived_s[i] + clocks_differ_s);
    const Tick arrived = tick_from_seconds(self->arrived_s[i]);
    if (log->requests[i].ttft < arrived)
      return diag_error(self->diag, place_of_file(path),
                        "the first token of request %zu is before its arrival", i);
    log->requests[i].ttft -= arrived;
    log->requests[i].e2e -= arrived;
  }
  return 0;
}

/* ---- Steps ---- */

static int take_step(Loading *self, const StepLine *line, Place at) {
  EngineLog *log = self->log;
  if (line->speculative) return 0;
  if (log->n_steps == LOGGED_STEPS_MAX)
    return diag_error(self->diag, at, "the log has more than %d steps", LOGGED_STEPS_MAX);
  ARENA_RESERVE(self->arena, log->steps, self->steps_capacity, log->n_steps + 1);
  log->steps[log->n_steps++] = (LoggedStep){line->batch, 1e-6 * line->us};
  return 0;
}

static const char *kind_of_steps(Loading *self, const char *engine) {
  return arena_printf(self->arena, "steps and requests of %s, as its scheduler logged them",
                      engine);
}

static int take_line(Loading *self, const Line *line) {
  StepLine said;
  const Place at = line_place(line, (Field){0});
  if (step_line_read(&said, line, self->arena, self->diag)) return -1;
  if (said.kind == STEP_LINE_HEAD) {
    if (said.head.engine) self->log->kind = kind_of_steps(self, said.head.engine);
    return 0;
  }
  if (said.kind == STEP_LINE_STEP) return take_step(self, &said, at);
  const ServedRequest *served = &said.request;
  const int64_t longest_us = served->last_token_us - served->arrived_us;
  if (longest_us > INT64_C(1000000) * SECONDS_MAX)
    return diag_error(self->diag, at, "the request took longer than 9e6 s");
  const BenchmarkRequest request = {
      .prompt_tokens = (int32_t)served->prompt_tokens,
      .output_tokens = (int32_t)served->output_tokens,
      .ttft = tick_from_seconds(1e-6 * (double)(served->first_token_us - served->arrived_us)),
      .e2e = tick_from_seconds(1e-6 * (double)longest_us)};
  self->log->cached_tokens += (double)served->cached_tokens;
  return add_request(self, &request, 1e-6 * (double)served->arrived_us, at);
}

static int load_steps(Loading *self, const char *path) {
  LineReader reader;
  Line line;
  self->log->kind = kind_of_steps(self, "an engine");
  if (line_reader_open(&reader, path, self->arena, self->diag)) return -1;
  int status = 0, error = 0;
  while (error == 0 && (status = line_reader_next(&reader, &line, self->diag)) > 0)
    if (!step_line_torn(&line, &reader)) error = take_line(self, &line);
  line_reader_close(&reader);
  return status < 0 ? -1 : error;
}

/* ---- Results of a benchmark ---- */

static int load_benchmark(Loading *self, const char *path) {
  Benchmark *runs = NULL;
  size_t n = 0;
  const Place at = place_of_file(path);
  self->log->kind = "a result of 'vllm bench serve'";
  if (benchmark_load(path, &runs, &n, self->arena, self->diag)) return -1;
  const Benchmark *run = &runs[n - 1];
  if (run->n_requests == 0 || run->requests[0].sent < 0) {
    diag_error(self->diag, at, "the file has no times at which requests were sent and answered");
    return diag_hint(
        self->diag,
        "'vllm bench serve --save-result --save-detailed' of vLLM 0.11 and later saves them");
  }
  for (size_t i = 0; i < run->n_requests; i++) {
    const BenchmarkRequest *request = &run->requests[i];
    const bool empty = request->prompt_tokens < 1 || request->output_tokens < 1;
    if (request->failed || empty)
      self->log->n_failed++;
    else if (add_request(self, request, tick_seconds(request->sent), at))
      return -1;
  }
  return 0;
}

/* ---- Any ---- */

static int compare_requests(const void *a, const void *b) {
  const BenchmarkRequest *left = a, *right = b;
  const int64_t pairs[][2] = {
      {left->sent, right->sent}, {left->ttft, right->ttft}, {left->e2e, right->e2e}};
  return compare_pairs(pairs, 3);
}

static int put_in_order(Loading *self) {
  EngineLog *log = self->log;
  double first = INFINITY, last = 0;
  for (size_t i = 0; i < log->n_requests; i++) {
    first = fmin(first, self->arrived_s[i]);
    last = fmax(last, self->arrived_s[i]);
  }
  const Place at = place_of_file(log->path);
  if (log->n_requests == 0)
    return diag_error(self->diag, at, "the log has no request that was served");
  if (last - first > SECONDS_MAX)
    return diag_error(self->diag, at, "the arrivals of the log are more than 9e6 s apart");
  for (size_t i = 0; i < log->n_requests; i++)
    log->requests[i].sent = tick_from_seconds(self->arrived_s[i] - first);
  qsort(log->requests, log->n_requests, sizeof *log->requests, compare_requests);
  return 0;
}

/* What the first line of the file looks like. */
static int begins_as(const char *path, bool *ret_json, bool *ret_steps, Arena *arena, Diag *diag) {
  LineReader reader;
  Line line;
  if (line_reader_open(&reader, path, arena, diag)) return -1;
  const int status = line_reader_next(&reader, &line, diag);
  *ret_json = status > 0 && line.text[0] == '{';
  *ret_steps = *ret_json && step_line_is(&line);
  line_reader_close(&reader);
  if (status == 0) diag_error(diag, place_of_file(path), "the file is empty");
  return status > 0 ? 0 : -1;
}

int engine_log_load(EngineLog *self, const char *path, Arena *arena, Diag *diag) {
  *self = (EngineLog){.path = path};
  Loading loading = {.log = self, .arena = arena, .diag = diag};
  bool json = false, steps = false;
  if (begins_as(path, &json, &steps, arena, diag)) return -1;
  const int status = steps  ? load_steps(&loading, path)
                     : json ? load_benchmark(&loading, path)
                            : load_csv(&loading, path);
  return status ? -1 : put_in_order(&loading);
}
