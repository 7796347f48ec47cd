/* Which pools a row of InferenceX is of.
 *
 * Degrees were put into these columns in four ways, of which three are not what they say:
 *   tp 64, moe_tp 8, ep 8          8 GPUs: InferenceX's tp 8 and ep 8, multiplied
 *   tp 1, attention_dp 64, moe_tp 8, ep 8    the same 8 with attention data parallel
 *   tp 4, attention_dp 4, ep 16    4 GPUs: its tp is the GPUs, each with attention of its own
 *   tp 72, moe_tp 72 of a GB200    all GPUs of a split cluster, even where it is said to be none
 * vLLM's script for MiniMax in fp8 does not hand attention data parallelism on (rows with it and
 * without differ by less than 1%), and up to vLLM 0.17 always spread whole experts.
 * SGLang 0.5.5 on GB200 took no degrees from there: its script spreads whole experts over the GPUs
 * of an instance with attention data parallelism, whatever ep is written (1).
 * A split cluster is told of twice where its numbers of workers were left out the first time: the
 * row with the same times has them, and the degrees that they were measured with. Where there is
 * no such row, what the columns then have is GPUs of an instance (decode: tp; its ep is that of
 * prefill), or a 1 for all, and the deployment is found by them (inferencex_recipes.c).
 * Recipes of TensorRT-LLM in fp8 for prompts of 8192 tokens (srt-slurm, recipes/trtllm) share each
 * expert of a prefill instance among its GPUs on B200, and have no attention data parallelism there
 * on H200; columns of February 2026 say otherwise, those of March do not, for the same times.
 * Elsewhere tp × attention_dp = moe_tp × ep are the GPUs of an instance; dense models leave moe_tp
 * and ep at 1, and an empty cell or 0 is 1.
 * Rows of DeepSeek without an image are of November 2025 and have its degrees as those of experts
 * alone; which ran follows from the scripts of then (benchmarks/, *dsr1*), by the clients. */
#include "experiments/measured/inferencex.h"
#include <string.h>

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

static Degrees read_pool(Measured *self, MeasuredPoint *point, const DegreeCells *cells,
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
  return written;
}

/* What the columns leave out: the script's choice by lengths and clients (see above). */
static void read_deepseek(MeasuredPoint *point, const InferenceXRow *row, MeasuredPool *pool) {
  if (*row->image || strncmp(row->system, "gb", 2) == 0 || !strstr(row->model_path, "DeepSeek"))
    return;
  const int64_t gpus = pool->tensor * pool->attention, clients = point->clients;
  const bool fp4 = strcmp(row->precision, "fp4") == 0, trtllm = row_is(row, "trtllm", "");
  const bool long_prompts = point->prompt_tokens.written == 8192;
  const bool long_outputs = point->output_tokens.written == 8192;
  const int64_t few = gpus == 4 ? 32 : long_prompts ? 32 : long_outputs ? 16 : 8;
  const bool attention = trtllm && (long_prompts ? clients > 32
                                    : fp4        ? clients >= 256
                                                 : clients > 64);
  const bool expert = trtllm ? !fp4 || attention || clients > few : fp4;
  if (!trtllm && !fp4) return;
  pool->attention = attention ? gpus : 1;
  pool->tensor = gpus / pool->attention;
  pool->expert = expert ? gpus : 1;
}

static void read_minimax(const InferenceXRow *row, MeasuredPool *pool) {
  if (!row_is(row, "vllm", "MiniMax") || strcmp(row->precision, "fp8") != 0) return;
  pool->tensor *= pool->attention;
  pool->attention = 1;
  if (strncmp(row->backend_version, "0.17", 4) == 0) pool->expert = pool->tensor;
}

static void read_workers(Measured *self, MeasuredPoint *point, const char *column, const char *text,
                         MeasuredPool *pool) {
  pool->workers = 0; // unknown
  if (*text) measured_count(self, point, column, text, MEASURED_DEGREE_MAX, 0, &pool->workers);
}

/* Prefill of long prompts in TensorRT-LLM's recipes for fp8 (see above). */
static void read_recipe(const MeasuredPoint *point, const InferenceXRow *row, MeasuredPool *pool) {
  if (!row_is(row, "trtllm", "DeepSeek") || strcmp(row->precision, "fp8") != 0 ||
      point->prompt_tokens.written != 8192)
    return;
  if (strcmp(row->system, "b200_sxm") == 0) pool->expert = 1;
  if (strcmp(row->system, "h200_sxm") != 0) return;
  pool->tensor *= pool->attention;
  pool->attention = 1;
}

enum { TENSOR_MOST = 8 }; // that an instance of a rack was served with, unless attention is apart

/* Those of a split row as it has them, for which instances are looked for. */
static InferenceXWritten written_of(const Degrees *prefill, const Degrees *decode) {
  InferenceXWritten ret = {.prefill_gpus = prefill->tp * prefill->dp,
                           .prefill_expert = prefill->ep,
                           .decode_gpus = decode->tp * decode->dp};
  if (ret.prefill_gpus == ret.decode_gpus && ret.prefill_gpus > TENSOR_MOST)
    ret.gpus = ret.prefill_gpus;
  return ret;
}

/* What SGLang's script of then has in place of the columns. */
static void read_sglang(const InferenceXRow *row, MeasuredPool *pool) {
  if (row_is(row, "sglang", "DeepSeek") && strcmp(row->system, "gb200") == 0 &&
      strncmp(row->backend_version, "0.5.5", 5) == 0 && pool->attention > 1)
    pool->expert = pool->tensor * pool->attention;
}

static void read_split(Measured *self, MeasuredPoint *point, const InferenceXRow *row) {
  MeasuredPool *prefill = &point->pools[MEASURED_PREFILL], *decode = &point->pools[MEASURED_DECODE];
  const Degrees before = read_pool(self, point, &row->prefill, prefill);
  const Degrees after = read_pool(self, point, &row->decode, decode);
  read_sglang(row, prefill);
  read_sglang(row, decode);
  read_workers(self, point, "prefill_num_workers", row->prefill.num_workers, prefill);
  read_workers(self, point, "decode_num_workers", row->decode.num_workers, decode);
  if (point->why || (prefill->workers > 0 && decode->workers > 0)) return;
  const InferenceXWritten written = written_of(&before, &after);
  point->unsolved = inferencex_solve(point, row, &written);
}

/* An aggregated row of a rack whose `tp` is beyond any that a model was served with. */
static bool is_whole_cluster(const MeasuredPoint *point, const InferenceXRow *row) {
  return strncmp(point->gpu, "gb", 2) == 0 && point->pools[0].tensor > TENSOR_MOST &&
         strcmp(row->serve.tp_size, row->serve.moe_tp_size) == 0;
}

/* Of NVIDIA's deployments batch_size is that of a GPU, of however many instances there were. */
static void read_instances(Measured *self, MeasuredPoint *point, const InferenceXRow *row,
                           MeasuredPool *pool) {
  int64_t batch;
  if (!inferencex_is_deployment(row) ||
      !measured_count(self, point, "batch_size", row->batch_size, MEASURED_CLIENTS_MAX, 1, &batch))
    return;
  const int64_t each = batch * pool->tensor * pool->attention * pool->pipeline;
  if (point->clients % each == 0 && point->clients > each) pool->workers = point->clients / each;
}

static void read_whole_cluster(Measured *self, MeasuredPoint *point, const InferenceXRow *row) {
  const InferenceXWritten written = {.gpus = point->pools[MEASURED_SERVE].tensor};
  const char *unsolved = inferencex_solve(point, row, &written);
  point->split = true;
  if (unsolved)
    measured_refuse(
        point,
        arena_printf(self->arena, "its tp_size counts all GPUs of a split cluster: %s", unsolved));
}

void inferencex_read_pools(Measured *self, MeasuredPoint *point, const InferenceXRow *row) {
  if (point->split) {
    read_split(self, point, row);
    read_recipe(point, row, &point->pools[MEASURED_PREFILL]);
    return;
  }
  MeasuredPool *pool = &point->pools[MEASURED_SERVE];
  read_pool(self, point, &row->serve, pool);
  read_minimax(row, pool);
  read_deepseek(point, row, pool);
  read_instances(self, point, row, pool);
  if (!point->why && is_whole_cluster(point, row)) read_whole_cluster(self, point, row);
}
