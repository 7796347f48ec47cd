/* Logs of vLLM 0.19 that LLMServingSim's authors keep (casys-kaist/LLMServingSim): a folder
 * GPU_MODEL with what the engine noted of each request, and with how it was started.
 *
 *   requests.csv    request,arrival_s,input_tokens,output_tokens,queued_s,…,last_token_s
 *   vllm_meta.json  engine_kwargs, and in newer ones the kv_cache that the engine found room for
 *
 * A request is a point; those of a log are one run, with the arrivals that there were. The client's
 * clock is the engine's but for the least of queued_s − arrival_s, because requests are queued
 * between steps, up to a step late (traces/llmservingsim.c). Latencies count from that arrival, so
 * that nothing passes before the engine has a request. Requests of a log share no prefix. */
#include "base/folder.h"
#include "base/units.h"
#include "base/yaml.h"
#include "experiments/measured/set.h"
#include <math.h>
#include <string.h>

typedef struct Log {
  const char *name;   // of its folder
  const char *path;   // of requests.csv
  MeasuredPoint told; // what all its points have
  double *arrivals_s; // of each
  size_t n, capacity;
  double clocks_differ_s;
} Log;

typedef struct Row {
  int64_t request, input_tokens, output_tokens;
  double arrival_s, queued_s, first_token_s, last_token_s;
  Log *log;
} Row;

static const CsvColumn columns[] = {CSV_FIELD(Row, request, CSV_INT, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(Row, input_tokens, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(Row, output_tokens, CSV_INT, CSV_POSITIVE),
                                    CSV_FIELD(Row, arrival_s, CSV_REAL, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(Row, queued_s, CSV_REAL, CSV_NOT_NEGATIVE),
                                    CSV_FIELD(Row, first_token_s, CSV_REAL, CSV_POSITIVE),
                                    CSV_FIELD(Row, last_token_s, CSV_REAL, CSV_POSITIVE),
                                    {0}};

/* ---- vllm_meta.json ---- */

/* A whole number; `absent` where there is none. */
static int64_t count_of(const Node *map, const char *key, int64_t most, int64_t absent) {
  const Node *node = map ? node_find(map, key) : NULL;
  double number;
  if (!node || node->kind != NODE_SCALAR || !units_parse(node->text, DIM_NONE, &number) ||
      !(number >= 1 && number <= (double)most) || number != floor(number))
    return absent;
  return (int64_t)number;
}

static const char *text_of(const Node *map, const char *key, const char *absent) {
  const Node *node = map ? node_find(map, key) : NULL;
  return node && node->kind == NODE_SCALAR ? node->text : absent;
}

static int read_meta(Log *self, const char *path, Arena *arena, Diag *diag) {
  const Node *meta = yaml_load(path, arena, diag);
  if (!meta) return -1;
  const Node *given = node_find(meta, "engine_kwargs"), *kv_cache = node_find(meta, "kv_cache");
  if (!given || given->kind != NODE_MAP)
    return diag_error(diag, place_of_file(path), "'engine_kwargs' is missing");
  MeasuredPoint *point = &self->told;
  point->model = text_of(given, "model", "");
  point->version = text_of(meta, "vllm_version", "");
  MeasuredPool *pool = &point->pools[MEASURED_SERVE];
  pool->tensor = count_of(given, "tensor_parallel_size", MEASURED_DEGREE_MAX, 1);
  pool->attention = count_of(given, "data_parallel_size", MEASURED_DEGREE_MAX, 1);
  if (strcmp(text_of(given, "enable_expert_parallel", ""), "true") == 0)
    pool->expert = pool->tensor * pool->attention;
  enum { BLOCKS_MAX = 1 << 30 };
  pool->blocks = count_of(kv_cache, "num_gpu_blocks", BLOCKS_MAX, 0);
  point->script =
      (MeasuredScript){.engine = "vllm-0.24",
                       .max_num_batched_tokens =
                           count_of(given, "max_num_batched_tokens", MEASURED_TOKENS_MAX, 2048),
                       .max_num_seqs = count_of(given, "max_num_seqs", MEASURED_CLIENTS_MAX, 256),
                       .prefix_caching = true};
  return 0;
}

/* ---- requests.csv ---- */

static void take_row(Measured *self, MeasuredPoint *point, const void *row_) {
  const Row *row = row_;
  Log *log = row->log;
  point->id = arena_printf(self->arena, "%s/%lld", log->name, (long long)row->request);
  point->request = row->request;
  point->prompt_tokens.written = row->input_tokens;
  point->output_tokens.written = row->output_tokens;
  measured_draw(&point->prompt_tokens, 1, 1);
  measured_draw(&point->output_tokens, 1, 1);
  if (row->request != (int64_t)log->n || row->output_tokens > MEASURED_TOKENS_MAX ||
      row->input_tokens > MEASURED_TOKENS_MAX || row->last_token_s < row->first_token_s)
    measured_refuse(point, "requests must count from 0, with tokens in their order of time");
  point->measured[MEASURED_TTFT] = row->first_token_s;
  point->measured[MEASURED_E2E] = row->last_token_s;
  if (row->output_tokens > 1)
    point->measured[MEASURED_TPOT] =
        (row->last_token_s - row->first_token_s) / (double)(row->output_tokens - 1);
  log->clocks_differ_s = fmin(log->clocks_differ_s, row->queued_s - row->arrival_s);
  ARENA_RESERVE(self->arena, log->arrivals_s, log->capacity, log->n + 1);
  log->arrivals_s[log->n++] = row->arrival_s;
}

/* A log is one run: without one of its requests it is another. */
static const char *reason(const Measured *self, const Log *log, size_t first) {
  for (size_t i = first; i < first + log->n; i++)
    if (self->points[i].why) return self->points[i].why;
  return NULL;
}

/* What all points of the log have, and when each came. */
static void tell(Measured *self, const Log *log, size_t first) {
  const char *why = reason(self, log, first);
  for (size_t i = 0; i < log->n; i++) {
    MeasuredPoint *point = &self->points[first + i];
    const double arrived_s = fmax(0, log->arrivals_s[i] + log->clocks_differ_s);
    point->measured[MEASURED_TTFT] -= arrived_s;
    point->measured[MEASURED_E2E] -= arrived_s;
    point->engine = "vllm";
    point->precision = "bf16";
    point->gpu = log->told.gpu;
    point->model = log->told.model;
    point->version = log->told.version;
    point->pools[MEASURED_SERVE] = log->told.pools[MEASURED_SERVE];
    point->script = log->told.script;
    point->log = log->path;
    if (why) measured_refuse(point, why);
  }
}

static int load_log(Measured *self, const MeasuredSet *set, const char *folder, const char *name,
                    Diag *diag) {
  Arena *arena = self->arena;
  const char *end = strchr(name, '_');
  Log log = {.name = name,
             .path = arena_printf(arena, "%s/%s/requests.csv", folder, name),
             .told = {.gpu = end ? arena_copy(arena, name, (size_t)(end - name)) : name,
                      .pools = {{1, 1, 1, 1, 1, 0}}},
             .clocks_differ_s = INFINITY};
  Row row = {.log = &log};
  const size_t first = self->n_points;
  if (read_meta(&log, arena_printf(arena, "%s/%s/vllm_meta.json", folder, name), arena, diag) ||
      measured_add_rows(self, set, log.path, columns, &row, take_row, diag))
    return -1;
  tell(self, &log, first);
  return 0;
}

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  const char *const *name = folder_names(path, "*", self->arena);
  if (!*name) return diag_environment(diag, place_of_file(path), "no logs in '%s'", path);
  int status = 0;
  for (; *name; name++)
    status |= load_log(self, set, path, *name, diag);
  return status;
}

const MeasuredSet measured_vllm_logs = {
    .name = "vllm_logs", .file = "llmservingsim/vllm", .load = load};
