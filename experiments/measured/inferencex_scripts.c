/* The clients of InferenceX and NVIDIA, and how engines were started. */
#include "experiments/measured/inferencex.h"
#include <math.h>
#include <string.h>

/* ---- Clients ---- */

bool inferencex_is_gap_analysis(const InferenceXRow *row) {
  return !*row->precision;
}

static void draw_lengths(MeasuredPoint *point, const InferenceXRow *row) {
  const bool alike = strcmp(point->engine, "sglang") == 0;
  if (inferencex_is_gap_analysis(row)) {
    measured_draw(&point->prompt_tokens, 1, 1);
    measured_draw(&point->output_tokens, alike ? 1 : 0.9, alike ? 1 : 1.1);
  } else {
    measured_draw(&point->prompt_tokens, 0.8, 1);
    measured_draw(&point->output_tokens, 0.8, 1);
  }
}

void inferencex_read_load(Measured *self, MeasuredPoint *point, const InferenceXRow *row) {
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
  const char *engine, *gpu, *model, *precision;
  const char *kv_cache_dtype;
  const char *row; // of engines.def
  double request_ms;
  int64_t max_num_batched_tokens;
  int64_t prompts; // or what so many of the longest prompts have, where that is less
  bool launches_free;
  bool one_prompt; // at least a prompt and a token of each client
} Script;

/* `.field = value` for all that follows the names, `.precision` among them. What is before TTFT is
 * fitted (fitted.def), or 5 ms, which is assumed. */
#define SCRIPT(engine_, gpu_, model_, ...)                                                         \
  { .engine = engine_, .gpu = gpu_, .model = model_, __VA_ARGS__ }
#define VLLM(before, ...)                                                                          \
  .row = "vllm-0.24", .max_num_batched_tokens = 8192, .request_ms = before,                        \
  .kv_cache_dtype = __VA_ARGS__
#define TRTLLM(before, ...) .row = "trtllm-1.3", .request_ms = before, .kv_cache_dtype = __VA_ARGS__
#define SGLANG(before, ...) .row = "sglang-0.5", .request_ms = before, .kv_cache_dtype = __VA_ARGS__

static const Script scripts[] = {
    SCRIPT("vllm", "b200", "MiniMax", VLLM(37, "fp8", .prompts = 2)),
    SCRIPT("vllm", "b200", "gpt-oss", VLLM(37, "fp8")),
    SCRIPT("vllm", "b200", NULL, VLLM(60, "fp8")),
    SCRIPT("vllm", NULL, "Qwen3-32B", .row = "vllm-0.12", .request_ms = 50,
           .max_num_batched_tokens = 8192),
    SCRIPT("vllm", "h100", "gpt-oss", VLLM(37, NULL)),
    SCRIPT("vllm", "h100", "MiniMax", VLLM(37, NULL)),
    SCRIPT("vllm", NULL, NULL, VLLM(5, NULL)),
    // Its prompts of 128 tokens join faster than the launches of 94 layers took elsewhere: seen in
    // these rows, so that they are no test of it.
    SCRIPT("trtllm", "h100", "Qwen3-235B",
           TRTLLM(120, NULL, .max_num_batched_tokens = 8192, .launches_free = true)),
    SCRIPT("trtllm", "h100", NULL, .row = "trtllm-1.0", .request_ms = 5,
           .max_num_batched_tokens = 8192),
    SCRIPT("trtllm", "b200", "gpt-oss", TRTLLM(5, "fp8", .max_num_batched_tokens = 20000)),
    SCRIPT("trtllm", NULL, "DeepSeek", TRTLLM(165, "fp8", .one_prompt = true)),
    SCRIPT("trtllm", NULL, NULL, TRTLLM(5, "fp8", .max_num_batched_tokens = 16384)),
    SCRIPT("sglang", "b200", "DeepSeek",
           SGLANG(165, "fp8", .max_num_batched_tokens = 32768, .precision = "fp8")),
    SCRIPT("sglang", "b200", "DeepSeek", SGLANG(165, "fp8", .max_num_batched_tokens = 16384)),
    SCRIPT("sglang", NULL, "DeepSeek", SGLANG(165, NULL, .max_num_batched_tokens = 32768)),
    SCRIPT("sglang", NULL, NULL, SGLANG(5, NULL, .max_num_batched_tokens = 8192)),
    SCRIPT(NULL, NULL, NULL, .row = NULL),
};

static bool fits(const char *part, const char *text) {
  return !part || strstr(text, part) != NULL;
}

/* ---- What scripts of DeepSeek and gpt-oss choose by the load ---- */

typedef struct Load {
  bool short_prompts, short_outputs, long_prompts; // 1024, 1024 and 8192 tokens
  int64_t clients, gpus, ranks;                    // of attention data parallelism
} Load;

static Load load_of(const MeasuredPoint *point) {
  const MeasuredPool *pool = &point->pools[MEASURED_SERVE];
  return (Load){.short_prompts = point->prompt_tokens.written == 1024,
                .short_outputs = point->output_tokens.written == 1024,
                .long_prompts = point->prompt_tokens.written == 8192,
                .clients = point->clients,
                .gpus = pool->tensor * pool->attention,
                .ranks = pool->attention};
}

/* Whether it ran after the scripts of DeepSeek on TensorRT-LLM had 8192 tokens at least for a step,
 * in January 2026. */
static bool has_least_tokens(const InferenceXRow *row) {
  return strcmp(row->measured_at, "2026-01-15") > 0;
}

static bool is_release(const InferenceXRow *row, const char *engine, const char *version) {
  return strcmp(row->backend, engine) == 0 &&
         strncmp(row->backend_version, version, strlen(version)) == 0;
}

/* num_nextn_predict_layers: of a split row that of its deployment, else of TensorRT-LLM's scripts
 * for MTP (dsr1_*_trt_mtp.sh), of which all that follows of other rows with drafts is, too. */
static int64_t drafts_of(const MeasuredPoint *point, const InferenceXRow *row) {
  if (point->split) return point->script.drafts;
  if (!inferencex_has_prediction(point, row)) return 0;
  return load_of(point).ranks > 1 ? 1 : 3;
}

/* max_batch_size of a rank. */
static int64_t rank_seqs(const MeasuredPoint *point, const InferenceXRow *row) {
  const Load load = load_of(point);
  const bool quarters =
      strcmp(point->precision, "fp4") == 0 && is_release(row, "trtllm", "1.2.0rc6");
  const int64_t ranks = load.ranks > 1 && quarters ? 4 : load.ranks;
  return load.clients < ranks ? load.clients : load.clients / ranks;
}

/* Tokens of all decodes and a prompt, in 64s. */
static int64_t room_for_prompt(int64_t prompt, int64_t decodes) {
  return (prompt + decodes + 64 + 63) / 64 * 64;
}

static int64_t budget_of(const Script *script, const MeasuredPoint *point,
                         const InferenceXRow *row) {
  const int64_t prompt = point->prompt_tokens.written, most = script->max_num_batched_tokens;
  const int64_t whole = script->prompts * prompt;
  if (!script->one_prompt) return whole > 0 && whole < most ? whole : most;
  const int64_t drafts = drafts_of(point, row);
  if (drafts > 0 && !point->split)
    return room_for_prompt(prompt, (1 + drafts) * rank_seqs(point, row));
  const int64_t tokens = room_for_prompt(prompt, (1 + drafts) * point->clients);
  return has_least_tokens(row) && tokens < 8192 ? 8192 : tokens;
}

/* max_num_tokens of prefill instances of Dynamo (srt-slurm, recipes/trtllm), of each rank; and
 * chunked_prefill_size of SGLang's on racks (recipes/gb200-fp8: 131072 for 8 ranks; gb200-fp4:
 * 65536 for 4), of which each rank has its share. */
static int64_t prefill_tokens_of(const MeasuredPoint *point, const InferenceXRow *row) {
  if (point->split && row_is(row, "sglang", "DeepSeek") && strncmp(point->gpu, "gb", 2) == 0)
    return point->pools[MEASURED_PREFILL].attention > 1 ? 16384 : 0;
  const bool is_b200_fp8 =
      strcmp(point->gpu, "b200_sxm") == 0 && strcmp(point->precision, "fp8") == 0;
  if (!point->split || !row_is(row, "trtllm", "DeepSeek")) return 0;
  if (point->prompt_tokens.written == 8192) return is_b200_fp8 ? 8320 : 16640;
  return is_b200_fp8 ? 16384 : 8192;
}

static bool drafts_have_graphs(const Load *load, bool fp4) {
  const int64_t clients = load->clients;
  if (fp4 && load->short_prompts && load->short_outputs)
    return clients == 32 || clients == 64 || (clients == 128 && load->ranks == 1);
  if (fp4) return load->short_prompts && clients == 64;
  return load->ranks == 1 && clients > (load->long_prompts ? 16 : load->short_outputs ? 4 : 8);
}

/* Whether graphs of all sizes are captured for iterations with prefill, too. */
static bool has_prefill_graphs(const MeasuredPoint *point, const InferenceXRow *row) {
  const Load load = load_of(point);
  const int64_t clients = load.clients, drafts = drafts_of(point, row);
  if (point->split || !is_release(row, "trtllm", "1.2.0rc6") || !row_is(row, "trtllm", "DeepSeek"))
    return false;
  if (drafts > 0) return drafts_have_graphs(&load, strcmp(point->precision, "fp4") == 0);
  if (strcmp(point->precision, "fp4") == 0)
    return load.short_prompts && load.short_outputs && clients == 64 && load.gpus == 8;
  return load.long_prompts ? clients >= 64
                           : clients >= (load.short_outputs ? 64 : 128) && clients < 256;
}

/* mem_fraction_static of SGLang on H100 where it is not told: as of the engine, but in these
 * releases graphs are as large whatever max_num_seqs is. */
static double sglang_memory(int64_t gpus) {
  const double all = 81559, graphs = gpus < 4 ? 256 : 512; // MiB
  const double kept = 512 + 1.5 * 8192 + 2 * graphs + 1024.0 / 8 * (double)gpus;
  return round(1000 * (all - kept) / all) / 1000;
}

static double trtllm_memory(const MeasuredPoint *point, const InferenceXRow *row) {
  const Load load = load_of(point);
  const bool b200 = strcmp(point->gpu, "b200_sxm") == 0;
  if (row_is(row, "trtllm", "gpt-oss")) return b200 ? 0.85 : 0;
  if (!row_is(row, "trtllm", "DeepSeek") || strncmp(point->gpu, "gb", 2) == 0) return 0;
  if (!b200) return 0.75;
  if (strcmp(point->precision, "fp4") == 0 || !is_release(row, "trtllm", "1.2.0rc6")) return 0.8;
  if (drafts_of(point, row) > 0) return load.ranks > 1 ? 0.7 : 0.8;
  return load.long_prompts ? (load.gpus == 4 ? 0.75 : 0.8) : load.clients >= 256 ? 0.7 : 0.8;
}

/* Recipes of split instances set it beside chunks of their own: as much is assumed. */
static const double SPLIT_MEMORY = 0.88;

/* --mem-fraction-static of SGLang, free_gpu_memory_fraction of TensorRT-LLM; 0: the default. */
static double memory_of(const MeasuredPoint *point, const InferenceXRow *row) {
  const int64_t gpus = load_of(point).gpus;
  const bool sglang = strcmp(row->backend, "sglang") == 0;
  if (point->split) return sglang ? SPLIT_MEMORY : 0;
  if (strcmp(row->backend, "trtllm") == 0) return trtllm_memory(point, row);
  if (!sglang) return 0;
  if (strcmp(point->gpu, "h100_sxm") == 0) return sglang_memory(gpus);
  if (!row_is(row, "sglang", "DeepSeek")) return 0;
  if (strcmp(point->gpu, "b200_sxm") != 0) return 0.82;
  return strcmp(point->precision, "fp4") == 0 ? 0.85 : gpus == 4 ? 0.95 : 0.82;
}

/* The rest, for the batcher (dsr1_fp4_b200.sh, dsr1_fp8_b200.sh, dsr1_fp8_b200_trt.sh,
 * 70b_fp8_b200_trt_slurm.sh, 70b_fp4_b200_trt_slurm.sh). */
static const char *batcher_of(const MeasuredPoint *point, const InferenceXRow *row) {
  const Load load = load_of(point);
  const bool equal = load.short_prompts && load.short_outputs;
  const int64_t clients = load.clients;
  if (point->split) return NULL;
  if (row_is(row, "trtllm", "DeepSeek") && load.ranks > 1)
    return ", attention_dp_timeout_iters: 60";
  if (drafts_of(point, row) > 0) return NULL;
  if (strcmp(point->gpu, "b200_sxm") != 0) return NULL;
  if (row_is(row, "sglang", "DeepSeek"))
    return clients >= 16 ? ", scheduler_recv_interval: 30" : ", scheduler_recv_interval: 10";
  if (row_is(row, "trtllm", "Llama-3.1-70B") && equal && load.gpus != 8)
    return ", batch_wait_timeout_iters: 20, batch_wait_max_tokens_ratio: 0.9";
  if (row_is(row, "trtllm", "DeepSeek") && strcmp(point->precision, "fp8") == 0 && equal &&
      is_release(row, "trtllm", "1.2.0rc6") && clients >= 64 && clients < 256)
    return ", batch_wait_timeout_iters: 40, batch_wait_max_tokens_ratio: 0.8";
  return NULL;
}

/* Of rows that name none: what was released when they were measured. */
static const char *version_of(const InferenceXRow *row) {
  if (*row->backend_version || strcmp(row->backend, "vllm") != 0) return row->backend_version;
  return *row->measured_at && strncmp(row->measured_at, "2025-12", 7) < 0 ? "0.11.0" : "";
}

void inferencex_read_script(MeasuredPoint *point, const InferenceXRow *row) {
  const Script *script = scripts;
  while (!fits(script->engine, point->engine) || !fits(script->gpu, point->gpu) ||
         !fits(script->model, point->model) || !fits(script->precision, point->precision))
    script++;
  const bool one_waits =
      inferencex_is_gap_analysis(row) && strcmp(point->engine, "trtllm") == 0 && point->clients > 1;
  point->version = version_of(row);
  point->script = (MeasuredScript){
      .engine = script->row,
      .request_s = script->request_ms / 1e3,
      .launches_free = script->launches_free || has_prefill_graphs(point, row),
      .weights = strcmp(row->gemm_quant_mode, "fp8_block") == 0 ? row->gemm_quant_mode : NULL,
      .kv_cache_dtype = script->kv_cache_dtype,
      .memory = memory_of(point, row),
      .max_num_batched_tokens = budget_of(script, point, row),
      .prefill_tokens = prefill_tokens_of(point, row),
      .max_num_seqs = point->clients - one_waits,
      .drafts = drafts_of(point, row),
      .batcher = batcher_of(point, row)};
}
