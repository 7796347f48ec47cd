/* The clients of InferenceX and NVIDIA, and how engines were started. */
#include "experiments/measured/inferencex.h"
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

static int64_t budget_of(const Script *script, const MeasuredPoint *point) {
  const int64_t prompt = point->prompt_tokens.written;
  const int64_t whole = script->prompts * prompt;
  if (script->one_prompt) return prompt + point->clients + 64;
  return whole > 0 && whole < script->max_num_batched_tokens ? whole
                                                             : script->max_num_batched_tokens;
}

/* What scripts choose by the load (dsr1_fp4_b200.sh, dsr1_fp8_b200.sh, dsr1_fp8_b200_trt.sh,
 * 70b_fp8_b200_trt_slurm.sh, 70b_fp4_b200_trt_slurm.sh). */
static const char *batcher_of(const MeasuredPoint *point, const InferenceXRow *row) {
  const bool equal = point->prompt_tokens.written == 1024 && point->output_tokens.written == 1024;
  const int64_t clients = point->clients;
  if (point->split || strcmp(point->gpu, "b200_sxm") != 0) return NULL;
  if (row_is(row, "sglang", "DeepSeek"))
    return clients >= 16 ? ", scheduler_recv_interval: 30" : ", scheduler_recv_interval: 10";
  if (row_is(row, "trtllm", "Llama-3.1-70B") && equal && strcmp(row->serve.tp_size, "8") != 0)
    return ", batch_wait_timeout_iters: 20, batch_wait_max_tokens_ratio: 0.9";
  if (row_is(row, "trtllm", "DeepSeek") && strcmp(point->precision, "fp8") == 0 && equal &&
      clients >= 64 && point->pools[MEASURED_SERVE].attention == 1)
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
      .launches_free = script->launches_free,
      .weights = strcmp(row->gemm_quant_mode, "fp8_block") == 0 ? row->gemm_quant_mode : NULL,
      .kv_cache_dtype = script->kv_cache_dtype,
      .max_num_batched_tokens = budget_of(script, point),
      .max_num_seqs = point->clients - one_waits,
      .batcher = batcher_of(point, row)};
}
