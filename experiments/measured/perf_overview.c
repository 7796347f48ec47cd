/* NVIDIA's table of TensorRT-LLM (docs/source/performance/perf-overview.md): trtllm-bench, all
 * requests at once, all of one length, output tokens per second of the instance.
 *
 * trtllm-bench picks how many requests and tokens an iteration may hold by itself
 * (tensorrt_llm/bench/build/tuning.py, calc_engine_setting and finetune_setting of v1.0): as many
 * whole requests as there is KV memory for, rounded up. KV is fp8 in these checkpoints. */
#include "experiments/config/config.h"
#include "experiments/measured/set.h"
#include <math.h>
#include <string.h>

typedef struct Row {
  const char *model, *gpu, *tp, *pp, *weights, *isl, *osl, *num_requests, *output_tokens_per_s;
} Row;

#define TEXT(field)                                                                                \
  { .name = #field, .type = CSV_TEXT, .offset = offsetof(Row, field), .may_be_empty = true }

static const CsvColumn columns[] = {TEXT(model), TEXT(gpu),          TEXT(tp),
                                    TEXT(pp),    TEXT(weights),      TEXT(isl),
                                    TEXT(osl),   TEXT(num_requests), TEXT(output_tokens_per_s),
                                    {0}};

static double round_up(double value, double step) {
  return step * ceil(value / step);
}

/* trtllm-bench's limits for whole requests that KV memory has room for. Prompts are whole, so that
 * one must fit beside all that decode, or it would never begin. */
static MeasuredScript tune(double requests, double prompt, double output) {
  enum { SEQS_MOST = 4096, TOKENS_MOST = 32768 };
  const double whole = fmin(requests, SEQS_MOST);
  const double filled = fmin(whole * (1 + prompt / output), TOKENS_MOST);
  const double seqs_step = whole < 256 ? 32 : whole < 1024 ? 128 : 256;
  const double tokens_step = filled < 4096 ? 256 : filled < 8192 ? 512 : 1024;
  const double seqs = fmax(64, round_up(whole, seqs_step));
  const double tokens = fmax(2048, round_up(filled, tokens_step));
  return (MeasuredScript){.engine = "trtllm-1.3",
                          .kv_cache_dtype = "fp8",
                          .max_num_seqs = (int64_t)seqs,
                          .max_num_batched_tokens = (int64_t)fmax(prompt + seqs, tokens)};
}

/* The memory that is left when the parameters are in as many bytes as `weights` says, of which it
 * takes nine tenths. */
static void read_script(MeasuredPoint *point, Arena *arena) {
  const char *root = arena_printf(arena, "%s/perfmodel", config_data_root());
  const char *name = llm_name_of(point->model, root, arena);
  const char *machine = measured_machine_name(point->gpu);
  Diag diag; // what is not found is told of with the configuration
  diag_init(&diag);
  Llm llm;
  Hardware hardware;
  if (name && machine && llm_load(&llm, name, root, place_of_file(NULL), arena, &diag) == 0 &&
      hardware_load(&hardware, machine, root, place_of_file(NULL), arena, &diag) == 0) {
    const MeasuredPool *pool = &point->pools[MEASURED_SERVE];
    const double gpus = (double)(pool->tensor * pool->pipeline);
    const double bytes = strcmp(point->precision, "fp4") == 0 ? 0.5 : 1;
    const double left =
        gpus * (double)hardware.gpu_memory_bytes - bytes * (double)llm_parameters(&llm);
    const double kv = (double)(2 * llm.num_hidden_layers * llm.num_key_value_heads * llm.head_dim);
    const double prompt = (double)point->prompt_tokens.written;
    const double output = (double)point->output_tokens.written;
    point->script = tune(0.9 * left / kv / (prompt + output), prompt, output);
  }
  diag_done(&diag);
}

static const char *precision_of(const char *weights) {
  return strcmp(weights, "FP8") == 0 ? "fp8" : strcmp(weights, "FP4") == 0 ? "fp4" : weights;
}

static bool read_row(Measured *self, MeasuredPoint *point, const Row *row) {
  MeasuredPool *pool = &point->pools[MEASURED_SERVE];
  double rate;
  const int64_t tokens = MEASURED_TOKENS_MAX, degree = MEASURED_DEGREE_MAX;
  if (!measured_count(self, point, "tp", row->tp, degree, 1, &pool->tensor) ||
      !measured_count(self, point, "pp", row->pp, degree, 1, &pool->pipeline) ||
      !measured_count(self, point, "isl", row->isl, tokens, 0, &point->prompt_tokens.written) ||
      !measured_count(self, point, "osl", row->osl, tokens, 0, &point->output_tokens.written) ||
      !measured_count(self, point, "num_requests", row->num_requests, MEASURED_CLIENTS_MAX, 0,
                      &point->requests) ||
      !measured_number(self, point, "output_tokens_per_s", row->output_tokens_per_s, 1e-9, 1e12,
                       NAN, &rate))
    return false;
  measured_draw(&point->prompt_tokens, 1, 1);
  measured_draw(&point->output_tokens, 1, 1);
  point->measured[MEASURED_THROUGHPUT] = rate / (double)measured_gpus(point);
  return true;
}

static void take_row(Measured *self, MeasuredPoint *point, const void *row_) {
  const Row *row = row_;
  point->id = arena_printf(self->arena, "%s_%s_tp%s_%s_%sx%s", row->model, row->gpu, row->tp,
                           row->weights, row->isl, row->osl);
  point->engine = "trtllm";
  point->version = "1.0.0";
  point->model = row->model;
  point->gpu = row->gpu;
  point->precision = precision_of(row->weights);
  point->script = tune(1, 1, 1); // where the model or the machine is not known, which is told later
  if (read_row(self, point, row)) read_script(point, self->arena);
}

static int load(Measured *self, const MeasuredSet *set, const char *path, Diag *diag) {
  Row row = {0};
  return measured_add_rows(self, set, path, columns, &row, take_row, diag);
}

const MeasuredSet measured_perf_overview = {
    .name = "perf_overview", .file = "e2e/trtllm_perf_overview_v1.0.csv", .load = load};
