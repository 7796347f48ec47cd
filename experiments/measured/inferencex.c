/* InferenceX (once InferenceMAX) and NVIDIA's runs of the same form: a row per deployment and
 * concurrency, as AIConfigurator collects them.
 *
 * The client: as many closed loops as `concurrency`, ten requests for each, all at once in the
 * beginning. InferenceX draws lengths from 0.8 to 1.0 of isl and osl, whole and even. In NVIDIA's
 * gap analysis, whose client is not known, prompts are of one length; what is seen of outputs is
 * that clients of SGLang stay in step, so that they are of one length too, and those of the others
 * do not: 0.9 to 1.1 of osl. With TensorRT-LLM one client of them always waits: TTFT is that of the
 * prompt and a request's time over the clients.
 *
 * Degrees were put into these columns in four ways, of which three are not what they say:
 *   tp 64, moe_tp 8, ep 8          8 GPUs: InferenceX's tp 8 and ep 8, multiplied
 *   tp 1, attention_dp 64, moe_tp 8, ep 8    the same 8 with attention data parallel
 *   tp 4, attention_dp 4, ep 16    4 GPUs: its tp is the GPUs, each with attention of its own
 *   tp 72, moe_tp 72 of an aggregated GB200  all GPUs of a split cluster, its pools not given
 * vLLM's script for MiniMax in fp8 does not hand attention data parallelism on (rows with it and
 * without differ by less than 1%), and up to vLLM 0.17 always spread whole experts.
 * A split cluster is told of twice where its numbers of workers were left out the first time: the
 * row with the same times has them, and the degrees that they were measured with.
 * Elsewhere tp × attention_dp = moe_tp × ep are the GPUs of an instance; dense models leave moe_tp
 * and ep at 1, and an empty cell or 0 is 1. */
#include "experiments/measured/set.h"
#include "sim/base/csv.h"
#include "sim/base/hash.h"
#include "sim/base/key_map.h"
#include <math.h>
#include <string.h>

typedef struct DegreeCells {
  const char *num_workers, *tp_size, *pp_size, *attention_dp_size, *moe_tp_size, *moe_ep_size;
} DegreeCells;

typedef struct Row {
  const char *id, *silicon_data_source, *concurrency, *backend, *backend_version, *model_path,
      *system, *precision, *mode, *isl, *osl, *silicon_ttft_ms, *silicon_tpot_ms;
  DegreeCells serve, prefill, decode;
} Row;

#define TEXT(field, may_miss_)                                                                     \
  {                                                                                                \
    .name = #field, .type = CSV_TEXT, .offset = offsetof(Row, field), .may_be_empty = true,        \
    .may_miss = may_miss_                                                                          \
  }
#define DEGREE(pool, prefix, field)                                                                \
  {                                                                                                \
    .name = prefix #field, .type = CSV_TEXT, .offset = offsetof(Row, pool.field),                  \
    .may_be_empty = true                                                                           \
  }
#define DEGREES(pool, prefix)                                                                      \
  DEGREE(pool, prefix, tp_size), DEGREE(pool, prefix, pp_size),                                    \
      DEGREE(pool, prefix, attention_dp_size), DEGREE(pool, prefix, moe_tp_size),                  \
      DEGREE(pool, prefix, moe_ep_size)

static const CsvColumn columns[] = {TEXT(id, false),
                                    TEXT(silicon_data_source, true),
                                    TEXT(concurrency, false),
                                    TEXT(backend, false),
                                    TEXT(backend_version, true),
                                    TEXT(model_path, false),
                                    TEXT(system, false),
                                    TEXT(precision, true),
                                    TEXT(mode, false),
                                    TEXT(isl, false),
                                    TEXT(osl, false),
                                    TEXT(silicon_ttft_ms, false),
                                    TEXT(silicon_tpot_ms, false),
                                    DEGREES(serve, ""),
                                    DEGREES(prefill, "prefill_"),
                                    DEGREES(decode, "decode_"),
                                    DEGREE(prefill, "prefill_", num_workers),
                                    DEGREE(decode, "decode_", num_workers),
                                    {0}};

/* ---- Degrees ---- */

typedef struct Degrees {
  int64_t tp, dp, moe_tp, ep;
  bool dp_written;
} Degrees;

/* What the columns mean, in the GPUs of one instance. */
static void untangle(const Degrees *written, MeasuredPool *pool) {
  int64_t gpus = written->tp * written->dp;
  bool attention_parallel = written->dp > 1;
  pool->attention = written->dp;
  pool->expert = written->ep;
  if (gpus != written->moe_tp * written->ep) {
    pool->expert = 1; // of a dense model
  } else if (written->dp_written && written->moe_tp > 1 && written->moe_tp == written->ep) {
    gpus = written->moe_tp; // the products of two
    pool->attention = attention_parallel ? gpus : 1;
  } else if (written->tp == written->dp && written->dp > 1 && written->moe_tp == 1) {
    gpus = pool->attention = pool->expert = written->tp;
  }
  pool->tensor = gpus / pool->attention;
}

static void read_pool(Measured *self, MeasuredPoint *point, const DegreeCells *cells,
                      MeasuredPool *pool) {
  const int64_t most = MEASURED_DEGREE_MAX;
  Degrees written = {.dp_written = *cells->attention_dp_size != '\0'};
  pool->workers = 1;
  if (measured_count(self, point, "tp_size", cells->tp_size, most, 1, &written.tp) &&
      measured_count(self, point, "pp_size", cells->pp_size, most, 1, &pool->pipeline) &&
      measured_count(self, point, "attention_dp_size", cells->attention_dp_size, most, 1,
                     &written.dp) &&
      measured_count(self, point, "moe_tp_size", cells->moe_tp_size, most, 1, &written.moe_tp) &&
      measured_count(self, point, "moe_ep_size", cells->moe_ep_size, most, 1, &written.ep))
    untangle(&written, pool);
}

/* Of vLLM's script for it, see above. */
static bool is_minimax_fp8(const Row *row) {
  return strcmp(row->backend, "vllm") == 0 && strcmp(row->precision, "fp8") == 0 &&
         strstr(row->model_path, "MiniMax") != NULL;
}

static void read_workers(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                         MeasuredPool *pool) {
  pool->workers = 0; // unknown
  if (*text) measured_count(self, point, column, text, MEASURED_DEGREE_MAX, 0, &pool->workers);
}

/* An aggregated row of a rack whose `tp` is beyond any that a model was served with. */
static bool is_whole_cluster(const MeasuredPoint *point, const Row *row) {
  enum { TENSOR_MOST = 8 };
  return strncmp(point->gpu, "gb", 2) == 0 && point->pools[0].tensor > TENSOR_MOST &&
         strcmp(row->serve.tp_size, row->serve.moe_tp_size) == 0;
}

static void read_pools(Measured *self, MeasuredPoint *point, const Row *row) {
  if (point->split) {
    read_pool(self, point, &row->prefill, &point->pools[MEASURED_PREFILL]);
    read_pool(self, point, &row->decode, &point->pools[MEASURED_DECODE]);
    read_workers(self, point, "prefill_num_workers", row->prefill.num_workers,
                 &point->pools[MEASURED_PREFILL]);
    read_workers(self, point, "decode_num_workers", row->decode.num_workers,
                 &point->pools[MEASURED_DECODE]);
    return;
  }
  MeasuredPool *pool = &point->pools[MEASURED_SERVE];
  read_pool(self, point, &row->serve, pool);
  if (is_minimax_fp8(row)) {
    pool->tensor *= pool->attention;
    pool->attention = 1;
    if (strncmp(row->backend_version, "0.17", 4) == 0) pool->expert = pool->tensor;
  }
  if (is_whole_cluster(point, row))
    measured_refuse(point, "its tp_size is all GPUs of a split cluster, whose pools are not given");
}

/* ---- Load and measurements ---- */

/* NVIDIA's own runs, another client. */
static bool is_gap_analysis(const Row *row) {
  return !*row->precision || strstr(row->silicon_data_source, "gap-analysis");
}

static bool is_engine(const MeasuredPoint *point, const char *name) {
  return strcmp(point->engine, name) == 0;
}

static void draw_lengths(MeasuredPoint *point, const Row *row) {
  const bool alike = is_engine(point, "sglang");
  if (is_gap_analysis(row)) {
    measured_draw(&point->prompt_tokens, 1, 1);
    measured_draw(&point->output_tokens, alike ? 1 : 0.9, alike ? 1 : 1.1);
  } else {
    measured_draw(&point->prompt_tokens, 0.8, 1);
    measured_draw(&point->output_tokens, 0.8, 1);
  }
}

static void read_load(Measured *self, MeasuredPoint *point, const Row *row) {
  if (!*row->concurrency) measured_refuse(point, "'concurrency' is empty");
  measured_count(self, point, "concurrency", row->concurrency, MEASURED_CLIENTS_MAX, 0,
                 &point->clients);
  point->requests = 10 * point->clients;
  measured_count(self, point, "isl", row->isl, MEASURED_TOKENS_MAX, 0,
                 &point->prompt_tokens.written);
  measured_count(self, point, "osl", row->osl, MEASURED_TOKENS_MAX, 0,
                 &point->output_tokens.written);
  draw_lengths(point, row);
}

/* ---- Scripts ---- */

/* What InferenceX's scripts (benchmarks/ of its repository) start engines with, beside as many
 * max_num_seqs as there are clients. Parts of names, NULL for any; the first that fits counts. */
typedef struct Script {
  const char *engine, *gpu, *model;
  const char *kv_cache_dtype;
  int64_t max_num_batched_tokens;
  int64_t prompts; // or what so many of the longest prompts have, where that is less
} Script;

static const Script scripts[] = {
    {"vllm", "b200", "MiniMax", "fp8", .max_num_batched_tokens = 8192, .prompts = 2},
    {"vllm", "b200", NULL, "fp8", .max_num_batched_tokens = 8192},
    {"trtllm", "b200", "gpt-oss", "fp8", .max_num_batched_tokens = 20000},
    {"trtllm", "b200", NULL, "fp8", .max_num_batched_tokens = 16384},
    {"trtllm", "h200", NULL, "fp8", .max_num_batched_tokens = 16384},
    {.max_num_batched_tokens = 8192},
};

static bool fits(const char *part, const char *text) {
  return !part || strstr(text, part) != NULL;
}

static void read_script(MeasuredPoint *point, const Row *row) {
  const Script *script = scripts;
  while (!fits(script->engine, point->engine) || !fits(script->gpu, point->gpu) ||
         !fits(script->model, point->model))
    script++;
  const bool one_waits = is_gap_analysis(row) && is_engine(point, "trtllm") && point->clients > 1;
  point->script = (MeasuredScript){.kv_cache_dtype = script->kv_cache_dtype,
                                   .max_num_batched_tokens = script->max_num_batched_tokens,
                                   .max_num_seqs = point->clients - one_waits};
  const int64_t tokens = script->prompts * point->prompt_tokens.written;
  if (tokens > 0 && tokens < point->script.max_num_batched_tokens)
    point->script.max_num_batched_tokens = tokens;
}

static void read_times(Measured *self, MeasuredPoint *point, const Row *row) {
  const double most = 1e9; // ms
  double ttft, tpot;
  if (measured_number(self, point, "silicon_ttft_ms", row->silicon_ttft_ms, 1e-9, most, NAN, &ttft))
    point->measured[MEASURED_TTFT] = ttft / 1e3;
  if (measured_number(self, point, "silicon_tpot_ms", row->silicon_tpot_ms, 1e-9, most, NAN, &tpot))
    point->measured[MEASURED_TPOT] = tpot / 1e3;
}

/* Where the engine takes fewer requests at a time than there are clients, the others wait for most
 * of the time that a request takes. */
static void check_waiting(MeasuredPoint *point, const Row *row) {
  const double ttft = point->measured[MEASURED_TTFT], tpot = point->measured[MEASURED_TPOT];
  if (!point->split && !is_gap_analysis(row) &&
      ttft > 3 * tpot * 0.9 * (double)point->output_tokens.written && point->clients > 1)
    measured_refuse(point, "its requests waited three times as long as they were decoded: the "
                           "engine took fewer at a time than there are clients, how many is not "
                           "given");
}

static void take_row(Measured *self, const MeasuredSet *set, const Row *row) {
  MeasuredPoint *point = measured_add(self, set);
  point->id = row->id;
  point->engine = row->backend;
  point->version = row->backend_version;
  point->model = row->model_path;
  point->gpu = row->system;
  point->precision = *row->precision ? row->precision : "bf16";
  point->split = strcmp(row->mode, "disagg") == 0;
  if (!point->split && strcmp(row->mode, "agg") != 0)
    measured_refuse(
        point, arena_printf(self->arena, "the mode '%s' is neither agg nor disagg", row->mode));
  read_load(self, point, row);
  read_script(point, row);
  read_pools(self, point, row);
  read_times(self, point, row);
  check_waiting(point, row);
}

/* ---- Split clusters that were told of twice ---- */

static bool knows_workers(const MeasuredPoint *point) {
  return point->pools[MEASURED_PREFILL].workers > 0 && point->pools[MEASURED_DECODE].workers > 0;
}

static uint64_t times_key(const MeasuredPoint *point) {
  const struct {
    double ttft, tpot;
    int64_t clients, prompt, output;
  } key = {point->measured[MEASURED_TTFT], point->measured[MEASURED_TPOT], point->clients,
           point->prompt_tokens.written, point->output_tokens.written};
  const uint64_t hash = hash_bytes(&key, sizeof key);
  return hash ? hash : 1;
}

static void take_pools(MeasuredPoint *point, const MeasuredPoint *other) {
  if (strcmp(point->engine, other->engine) != 0 || strcmp(point->gpu, other->gpu) != 0) return;
  memcpy(point->pools, other->pools, sizeof point->pools);
}

/* Points from `first` on are of one file. */
static void find_workers(Measured *self, size_t first) {
  KeyMap map = {0};
  for (size_t i = first; i < self->n_points; i++)
    if (self->points[i].split && !self->points[i].why && knows_workers(&self->points[i]))
      *key_map_put(&map, times_key(&self->points[i]), self->arena) = (uint32_t)i + 1;
  for (size_t i = first; i < self->n_points; i++) {
    MeasuredPoint *point = &self->points[i];
    if (!point->split || point->why || knows_workers(point)) continue;
    const uint32_t *other = key_map_find(&map, times_key(point));
    if (other) take_pools(point, &self->points[*other - 1]);
    if (!knows_workers(point))
      measured_refuse(point, "a split cluster: how many instances prefill and decode is not given");
  }
}

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  Csv csv;
  Row row = {0};
  if (csv_open(&csv, path, self->arena, diag) || csv_header(&csv, columns, false, diag)) return -1;
  const size_t first = self->n_points;
  int status, failed = 0;
  while ((status = csv_next(&csv, &row, diag)) != 0)
    if (status > 0)
      take_row(self, set, &row);
    else
      failed = -1;
  find_workers(self, first);
  for (size_t i = first; i < self->n_points; i++) {
    MeasuredPoint *point = &self->points[i];
    if (!point->why)
      point->measured[MEASURED_THROUGHPUT] = measured_loop_throughput(point, point->measured);
  }
  return failed;
}

const MeasuredSet measured_inferencex = {
    .name = "inferencex", .file = "e2e/inferencex.csv.gz", .load = load};
