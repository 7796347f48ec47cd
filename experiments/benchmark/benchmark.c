/* See benchmark.h. The latencies of a result with details are those of vLLM's client: a request's
 * E2E is its TTFT and its gaps, its TPOT those gaps over the tokens after the first. */
#include "experiments/benchmark/benchmark.h"
#include "base/hash.h"
#include "base/json.h"
#include <math.h>
#include <string.h>

enum { REQUESTS_MAX = 100000000, SECONDS_MAX = 9000000 };

/* ---- What a result may say ---- */

/* What the run was, kept as its configuration. */
static const char *const facts[] = {"date",       "backend",        "label",
                                    "model_id",   "tokenizer_id",   "request_rate",
                                    "burstiness", "max_concurrency"};
enum { MODEL_ID = 3 };
/* Totals, and what we call them. */
static const struct {
  const char *key, *name, *unit;
} totals[] = {{"duration", "duration_s", "s"},
              {"num_prompts", "requests", ""},
              {"completed", "completed", ""},
              {"failed", "rejected", ""},
              {"total_input_tokens", "prompt_tokens", ""},
              {"total_output_tokens", "output_tokens", ""},
              {"request_throughput", "throughput_rps", "/s"},
              {"output_throughput", "output_tokens_per_s", "/s"}};
static const struct {
  const char *key, *name;
} latencies[BENCHMARK_LATENCIES] = {
    {"ttft", "ttft_s"}, {"tpot", "tpot_s"}, {"itl", "tbt_s"}, {"e2el", "e2e_s"}};
static const struct {
  const char *key, *statistic;
} statistics[] = {
    {"mean", "mean"}, {"median", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}};
static const char *const lists[] = {"input_lens", "output_lens", "ttfts",
                                    "itls",       "start_times", "errors"};
enum { INPUT_LENS, OUTPUT_LENS, TTFTS, ITLS, START_TIMES, ERRORS };
enum { TTFT, TPOT, TBT, E2E };

enum {
  N_FACTS = sizeof facts / sizeof *facts,
  N_TOTALS = sizeof totals / sizeof *totals,
  N_STATISTICS = sizeof statistics / sizeof *statistics,
  N_LISTS = sizeof lists / sizeof *lists,
  N_MS = BENCHMARK_LATENCIES * N_STATISTICS,
  N_KEYS = N_FACTS + N_TOTALS + N_MS + N_LISTS,
};

/* The object that is read, and the values of its keys, in the order above. */
typedef struct Reading {
  const Line *line;
  Field values[N_KEYS];
  Benchmark *benchmark;
  Arena *arena;
  Diag *diag;
} Reading;

static const Field *list_at(const Reading *self, int list) {
  return &self->values[N_FACTS + N_TOTALS + N_MS + list];
}

static bool is_there(const Field *value) {
  return value->text && !field_is(*value, "null");
}

/* Without the quotes of a text. */
static Field text_of(Field value) {
  const bool quoted = value.length >= 2 && value.text[0] == '"';
  return quoted ? (Field){value.text + 1, value.length - 2} : value;
}

/* ---- Totals and statistics ---- */

/* measured: {by: vllm bench serve, model_id: "…", …}. Texts keep their quotes, and their escapes,
 * which are those of YAML. */
static const char *describe(const Reading *self) {
  const char *text = "measured: {by: vllm bench serve";
  for (int i = 0; i < N_FACTS; i++) {
    const Field *value = &self->values[i];
    if (!is_there(value)) continue;
    text = arena_printf(self->arena, "%s, %s: %.*s", text, facts[i], value->length, value->text);
  }
  return arena_printf(self->arena, "%s}", text);
}

static int add_figure(Reading *self, EngineFigure *figures, const char *key, const Field *value,
                      EngineFigure figure, double scale) {
  if (!is_there(value)) return 0;
  if (!field_number(*value, 1e15, &figure.value))
    return field_error(self->line, *value, key, "a number from 0 to 1e15", self->diag);
  figure.value *= scale;
  figures[self->benchmark->run.n_figures++] = figure;
  return 0;
}

static int read_totals(Reading *self, EngineFigure *figures) {
  const Field *value = &self->values[N_FACTS];
  int status = 0;
  for (int i = 0; i < N_TOTALS; i++, value++)
    status |= add_figure(self, figures, totals[i].key, value,
                         (EngineFigure){totals[i].name, "value", totals[i].unit, 0}, 1);
  return status;
}

static int read_statistics(Reading *self, EngineFigure *figures) {
  const Field *value = &self->values[N_FACTS + N_TOTALS];
  int status = 0;
  for (int i = 0; i < BENCHMARK_LATENCIES; i++)
    for (int k = 0; k < N_STATISTICS; k++, value++)
      status |=
          add_figure(self, figures, latencies[i].key, value,
                     (EngineFigure){latencies[i].name, statistics[k].statistic, "s", 0}, 1e-3);
  return status;
}

/* ---- Details ---- */

/* The lists, element by element; those that are not there have none. */
typedef struct Details {
  JsonScanner scanners[N_LISTS];
  Field values[N_LISTS]; // of the next request
  Histogram *seen;       // [BENCHMARK_LATENCIES]
} Details;

/* 1 and the next request's values, 0 after the last, which all lists have together, or -1. */
static int next_request(Reading *self, Details *details) {
  int any = -1;
  for (int i = 0; i < N_LISTS; i++) {
    if (!is_there(list_at(self, i))) continue;
    const int more = json_element(&details->scanners[i], &details->values[i]);
    if (more < 0) return -1;
    if (any >= 0 && more != any)
      return diag_error(self->diag, line_place(self->line, *list_at(self, i)),
                        "'%s' and '%s' differ in the number of requests", lists[i], lists[0]);
    any = more;
  }
  return any;
}

static int read_seconds(const Reading *self, Field field, const char *key, double most,
                        double *ret_s) {
  return field_number(field, most, ret_s)
             ? 0
             : field_error(self->line, field, key, "a number of seconds, at least 0", self->diag);
}

static int read_tokens(const Reading *self, Field field, const char *key, int32_t *ret_tokens) {
  double value = 0;
  if (!field_number(field, INT32_MAX, &value) || value != floor(value))
    return field_error(self->line, field, key, "a number of tokens", self->diag);
  *ret_tokens = (int32_t)value;
  return 0;
}

/* The gaps of one request: booked, and their sum. */
static int read_gaps(Reading *self, Details *details, double *ret_sum) {
  JsonScanner gaps = json_scanner(self->line, details->values[ITLS], self->diag);
  Field field;
  int more = 0;
  *ret_sum = 0;
  while ((more = json_element(&gaps, &field)) > 0) {
    double gap = 0;
    if (read_seconds(self, field, "itls", SECONDS_MAX, &gap)) return -1;
    histogram_add(&details->seen[TBT], tick_from_seconds(gap), 1);
    *ret_sum += gap;
  }
  if (more == 0 && *ret_sum > SECONDS_MAX)
    return field_error(self->line, details->values[ITLS], "itls", "less than 9e6 s", self->diag);
  return more;
}

static void book(Details *details, const BenchmarkRequest *request) {
  const Tick after = request->e2e - request->ttft;
  histogram_add(&details->seen[TTFT], request->ttft, 1);
  histogram_add(&details->seen[E2E], request->e2e, 1);
  if (request->output_tokens > 1)
    histogram_add(&details->seen[TPOT], after / (request->output_tokens - 1), 1);
}

/* `sent_s` by the client's clock. */
static int read_request(Reading *self, Details *details, BenchmarkRequest *request,
                        double *sent_s) {
  double ttft = 0, gaps = 0;
  const Field *values = details->values;
  if (read_tokens(self, values[INPUT_LENS], "input_lens", &request->prompt_tokens) ||
      read_tokens(self, values[OUTPUT_LENS], "output_lens", &request->output_tokens) ||
      read_seconds(self, values[TTFTS], "ttfts", SECONDS_MAX, &ttft) ||
      (is_there(&values[START_TIMES]) &&
       read_seconds(self, values[START_TIMES], "start_times", 1e12, sent_s)) ||
      read_gaps(self, details, &gaps))
    return -1;
  request->failed = text_of(values[ERRORS]).length > 0 || (ttft == 0 && gaps == 0);
  request->ttft = tick_from_seconds(ttft);
  request->e2e = tick_from_seconds(ttft + gaps);
  if (!request->failed) book(details, request);
  return 0;
}

/* From the client's clock to times after the first. */
static int place_in_time(const Reading *self, BenchmarkRequest *requests, const double *sent_s,
                         size_t n) {
  double first = INFINITY, last = 0;
  for (size_t i = 0; i < n; i++) {
    first = fmin(first, sent_s[i]);
    last = fmax(last, sent_s[i]);
  }
  if (n > 0 && last - first > SECONDS_MAX)
    return field_error(self->line, *list_at(self, START_TIMES), "start_times",
                       "within 9e6 s of the others", self->diag);
  for (size_t i = 0; i < n; i++)
    requests[i].sent = tick_from_seconds(sent_s[i] - first);
  return 0;
}

static int read_requests(Reading *self, Details *details) {
  BenchmarkRequest *requests = NULL;
  double *sent_s = NULL;
  size_t n = 0, capacity = 0, capacity_sent = 0;
  int more = 0;
  while (n < REQUESTS_MAX && (more = next_request(self, details)) > 0) {
    ARENA_RESERVE(self->arena, requests, capacity, n + 1);
    ARENA_RESERVE(self->arena, sent_s, capacity_sent, n + 1);
    requests[n] = (BenchmarkRequest){.sent = -1};
    sent_s[n] = 0;
    if (read_request(self, details, &requests[n], &sent_s[n])) return -1;
    n++;
  }
  self->benchmark->requests = requests;
  self->benchmark->n_requests = n;
  if (more < 0) return -1;
  return is_there(list_at(self, START_TIMES)) ? place_in_time(self, requests, sent_s, n) : 0;
}

static int read_details(Reading *self) {
  Details details = {.seen = ARENA_ARRAY(self->arena, Histogram, BENCHMARK_LATENCIES)};
  Distribution *told = ARENA_ARRAY(self->arena, Distribution, BENCHMARK_LATENCIES);
  for (int i = 0; i < N_LISTS; i++)
    if (is_there(list_at(self, i)))
      details.scanners[i] = json_scanner(self->line, *list_at(self, i), self->diag);
  for (int i = 0; i < BENCHMARK_LATENCIES; i++)
    histogram_init(&details.seen[i], self->arena);
  if (read_requests(self, &details)) return -1;
  for (int i = 0; i < BENCHMARK_LATENCIES; i++)
    told[i] =
        distribution_make(latencies[i].name, "s", (double)TICKS_PER_SECOND, "", &details.seen[i]);
  self->benchmark->run.latencies = told;
  self->benchmark->run.n_latencies = BENCHMARK_LATENCIES;
  return 0;
}

static bool has_details(const Reading *self) {
  for (int i = INPUT_LENS; i <= ITLS; i++)
    if (!is_there(list_at(self, i))) return false;
  return true;
}

/* ---- A result ---- */

static const char *const *all_keys(Arena *arena) {
  const char **keys = ARENA_ARRAY(arena, const char *, N_KEYS);
  int n = 0;
  for (int i = 0; i < N_FACTS; i++)
    keys[n++] = facts[i];
  for (int i = 0; i < N_TOTALS; i++)
    keys[n++] = totals[i].key;
  for (int i = 0; i < BENCHMARK_LATENCIES; i++)
    for (int k = 0; k < N_STATISTICS; k++)
      keys[n++] = arena_printf(arena, "%s_%s_ms", statistics[k].key, latencies[i].key);
  for (int i = 0; i < N_LISTS; i++)
    keys[n++] = lists[i];
  return keys;
}

static int check_object(const Reading *self, Field object) {
  const Field *ttft = &self->values[N_FACTS + N_TOTALS];
  const Place at = line_place(self->line, (Field){object.text, 1});
  if (is_there(&self->values[N_FACTS]) && (is_there(ttft) || has_details(self))) return 0;
  diag_error(self->diag, at,
             "the file is not a result of 'vllm bench serve': it has no duration or no TTFT");
  return diag_hint(self->diag,
                   "'--save-result' writes one, with '--save-detailed' request by request");
}

static int read_object(Reading *self, Field object) {
  EngineRun *run = &self->benchmark->run;
  EngineFigure *figures = ARENA_ARRAY(self->arena, EngineFigure, BENCHMARK_FIGURES);
  JsonScanner scanner = json_scanner(self->line, object, self->diag);
  memset(self->values, 0, sizeof self->values);
  if (json_object(&scanner, all_keys(self->arena), N_KEYS, self->values) ||
      check_object(self, object))
    return -1;
  run->name = self->line->path;
  run->text = describe(self);
  run->digest = hash_bytes(object.text, (size_t)object.length);
  run->figures = figures;
  if (read_totals(self, figures)) return -1;
  run->wall_s = figures[0].value;
  const Field model = text_of(self->values[MODEL_ID]);
  self->benchmark->model =
      model.text ? arena_copy(self->arena, model.text, (size_t)model.length) : "a model";
  return has_details(self) ? read_details(self) : read_statistics(self, figures);
}

/* ---- A file ---- */

/* The object that begins the text, which is `length` long; so much of it as there is, and the
 * reader says what is wrong with that. */
static int object_length(const char *text, int length) {
  int depth = 0;
  bool quoted = false;
  for (int i = 0; i < length; i++) {
    if (quoted && text[i] == '\\')
      i++;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && (text[i] == '{' || text[i] == '['))
      depth++;
    else if (!quoted && (text[i] == '}' || text[i] == ']') && --depth == 0)
      return i + 1;
  }
  return length;
}

/* Objects may go over several lines: ends of lines, which strings cannot hold, become spaces. */
static Field whole_text(LineReader *reader) {
  for (size_t i = reader->begin; i < reader->end; i++)
    if (reader->buffer[i] == '\n' || reader->buffer[i] == '\r') reader->buffer[i] = ' ';
  return field_trim((Field){reader->buffer + reader->begin, (int)(reader->end - reader->begin)});
}

int benchmark_load(const char *path, Benchmark **ret_results, size_t *ret_n, Arena *arena,
                   Diag *diag) {
  LineReader reader;
  if (line_reader_load(&reader, path, arena, diag)) return -1;
  Field rest = whole_text(&reader);
  const Line line = {rest.text, rest.length, 1, path};
  Benchmark *results = NULL;
  size_t n = 0, capacity = 0;
  if (rest.length == 0) return diag_error(diag, place_of_file(path), "the file is empty");
  while (rest.length > 0) {
    const Field object = {rest.text, object_length(rest.text, rest.length)};
    ARENA_RESERVE(arena, results, capacity, n + 1);
    results[n] = (Benchmark){0};
    Reading reading = {.line = &line, .benchmark = &results[n], .arena = arena, .diag = diag};
    if (read_object(&reading, object)) return -1;
    n++;
    rest = field_trim((Field){rest.text + object.length, rest.length - object.length});
  }
  *ret_results = results;
  *ret_n = n;
  return 0;
}

/* ---- Into a database ---- */

static int store_requests(const Benchmark *self, Results *results, Diag *diag) {
  for (size_t i = 0; i < self->n_requests; i++) {
    const BenchmarkRequest *request = &self->requests[i];
    const Tick sent = request->sent;
    RequestRecord record = {.id = i,
                            .prompt_tokens = request->prompt_tokens,
                            .output_tokens = request->output_tokens,
                            .generated_tokens = request->output_tokens,
                            .prefill_instance = INSTANCE_NONE,
                            .decode_instance = INSTANCE_NONE,
                            .arrived_at = sent,
                            .prefill_began_at = -1,
                            .first_token_at = request->failed ? -1 : sent + request->ttft,
                            .decode_began_at = -1,
                            .last_token_at = request->failed ? -1 : sent + request->e2e,
                            .cancelled_at = -1,
                            .computing_ticks = -1};
    record.rejected = request->failed ? REJECTIONS : REJECTED_NOT;
    if (results_add_request(results, &record, diag)) return -1;
  }
  return 0;
}

int benchmark_store(const Benchmark *self, Results *results, Arena *arena, Diag *diag) {
  const bool timed = self->n_requests > 0 && self->requests[0].sent >= 0;
  if (timed && store_requests(self, results, diag)) return -1;
  return results_add_measured(results, &self->run, arena, diag);
}
