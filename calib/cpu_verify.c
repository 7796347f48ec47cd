/* Terms are compared with a run of the reference, single operators with their formulas. Large
 * models have the same operators, so what costs the reference much is kept small: two layers, some
 * of the columns. */
#include "calib/cpu_verify.h"
#include "calib/cpu_gemm.h"
#include "calib/cpu_reference.h"
#include <math.h>
#include <string.h>

enum { LAYERS = 2, COLUMNS = 64 }; // that are compared

static double *numbers(Arena *arena, int64_t n, const float *from) {
  double *out = ARENA_ARRAY(arena, double, n);
  for (int64_t i = 0; from && i < n; i++)
    out[i] = from[i];
  return out;
}

/* Of every step-th number. */
static double compare(const float *out, const double *reference, int64_t n, int64_t step) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < n; i += step) {
    difference += (out[i] - reference[i]) * (out[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  const double error = norm > 0 ? sqrt(difference / norm) : difference > 0 ? INFINITY : 0;
  return isfinite(error) ? error : INFINITY;
}

static double compare_columns(const float *out, const double *reference, int64_t rows,
                              int64_t columns, int64_t step) {
  double worst = 0;
  for (int64_t r = 0; r < rows; r++)
    worst = fmax(worst, compare(out + r * columns, reference + r * columns, columns, step));
  return worst;
}

/* --- terms: prompts with and without a past, decodes within a page, at its end and after it. */
static const CalibSequence SEQUENCES[] = {{129, 45}, {17, 0}, {1, 0},   {3, 300}, {1, 15},
                                          {1, 16},   {1, 0},  {1, 613}, {1, 255}};
enum { N_SEQUENCES = sizeof SEQUENCES / sizeof *SEQUENCES, N_PREFILLS = 4 };

static int parts_of(CalibOp op) {
  switch (op) {
  case CALIB_LINEAR:
    return CPU_LINEAR;
  case CALIB_PREFILL_ATTENTION:
    return CPU_PREFILL;
  case CALIB_DECODE_ATTENTION:
    return CPU_DECODE;
  case CALIB_HEAD:
    return CPU_HEAD;
  default:
    return CPU_ALL;
  }
}

/* Rows of products cost the reference much, so there are fewer of them, in large models few. */
static CalibBatch terms_batch(const CpuModel *model, int parts) {
  const bool is_large = model->weight_floats > 200 * INT64_C(1000000);
  const int32_t skipped = parts & CPU_LINEAR ? is_large ? N_PREFILLS - 1 : 1 : 0;
  const int32_t n = N_SEQUENCES - skipped;
  return (CalibBatch){.sequences = SEQUENCES + skipped,
                      .n_prefills = N_PREFILLS - skipped,
                      .n_decodes = N_SEQUENCES - N_PREFILLS,
                      .n_logits = n - 1};
}

static CalibStatus verify_terms(CpuModel *model, CalibOp op, int64_t available_bytes, Arena *arena,
                                double *ret_error, char *error) {
  const int parts = parts_of(op);
  const CalibBatch batch = terms_batch(model, parts);
  CpuBatch rows;
  CalibStatus status = cpu_batch_init(&rows, model, &batch, false, available_bytes, arena, error);
  if (status) return status;
  const CpuRun run = {.parts = parts,
                      .layers = model->n_layers < LAYERS ? model->n_layers : LAYERS};
  const int64_t step = 1 + model->vocab / COLUMNS;
  ReferenceResult reference;
  reference_run(&reference, model, &rows, &run, step, arena);
  cpu_run(model, &rows, &run, 0);
  const CpuActivations *room = &model->activations;
  const int64_t hidden = model->shape.hidden_size;
  const int64_t heads = (int64_t)model->query_heads * model->kv.head_dim;
  double worst = 0;
  worst = fmax(worst, compare_columns(room->attention, reference.attention, rows.tokens, heads, 1));
  worst = fmax(worst, compare_columns(room->residual, reference.residual, rows.tokens, hidden, 1));
  worst = fmax(worst, compare_columns(room->delta, reference.delta, rows.tokens, hidden, 1));
  if (parts & CPU_HEAD)
    worst = fmax(
        worst, compare_columns(room->logits, reference.logits, rows.n_logits, model->vocab, step));
  *ret_error = worst;
  return CALIB_OK;
}

/* --- single operators, on so many tokens */
typedef struct Trial {
  CpuModel *model;
  CpuBatch rows; // one prompt of `tokens`
  int64_t tokens;
  Arena *arena;
} Trial;

static const int64_t TOKENS[] = {1, 2, 17, 129};
enum { N_TOKENS = sizeof TOKENS / sizeof *TOKENS };

static float *floats(const Trial *trial, int64_t n) {
  return cpu_model_numbers(trial->model, trial->arena, n, 0.1, 1);
}

static double try_gemm(const Trial *trial, const float *weights, const float *bias, int64_t n,
                       int64_t k) {
  const int64_t step = 1 + n / COLUMNS;
  float *in = floats(trial, trial->tokens * k), *out = floats(trial, trial->tokens * n);
  double *reference = numbers(trial->arena, trial->tokens * n, NULL);
  cpu_threads_run(trial->model->threads, cpu_gemm,
                  &(CpuGemm){.blas = trial->model->blas,
                             .out = out,
                             .in = in,
                             .weights = weights,
                             .bias = bias,
                             .tokens = trial->tokens,
                             .n = n,
                             .k = k});
  reference_gemm(reference, numbers(trial->arena, trial->tokens * k, in), weights, bias,
                 trial->tokens, n, k, step);
  return compare_columns(out, reference, trial->tokens, n, step);
}

static double try_product(const Trial *trial, CalibOp op) {
  const CpuModel *model = trial->model;
  const CpuLayer *layer = &model->layers[0];
  const int64_t hidden = model->shape.hidden_size;
  switch (op) {
  case CALIB_GEMM_QKV:
    return try_gemm(trial, layer->qkv, layer->qkv_bias, model->qkv_columns, hidden);
  case CALIB_GEMM_O:
    return try_gemm(trial, layer->o, layer->o_bias, hidden,
                    (int64_t)model->query_heads * model->kv.head_dim);
  case CALIB_GEMM_UP:
    return try_gemm(trial, layer->up, layer->up_bias, model->up_columns, hidden);
  case CALIB_GEMM_DOWN:
    return try_gemm(trial, layer->down, layer->down_bias, hidden, model->ffn);
  default:
    return try_gemm(trial, model->head, NULL, model->vocab, hidden);
  }
}

static double try_norm(const Trial *trial) {
  const CpuModel *model = trial->model;
  const int64_t hidden = model->shape.hidden_size, n = trial->tokens * hidden;
  float *out = floats(trial, n), *residual = floats(trial, n), *x = floats(trial, n);
  double *reference = numbers(trial->arena, n, NULL);
  double *reference_residual = numbers(trial->arena, n, residual);
  reference_norm(model->shape.norm, reference, reference_residual, numbers(trial->arena, n, x),
                 model->final_norm, model->final_norm_bias, trial->tokens, hidden);
  cpu_threads_run(model->threads, cpu_norm,
                  &(CpuNorm){.norm = model->shape.norm,
                             .out = out,
                             .residual = residual,
                             .x = x,
                             .weight = model->final_norm,
                             .bias = model->final_norm_bias,
                             .tokens = trial->tokens,
                             .hidden = hidden});
  return fmax(compare(out, reference, n, 1), compare(residual, reference_residual, n, 1));
}

/* The rotated rows, and then whether the pages hold the same numbers. */
static double try_rope_append(const Trial *trial) {
  const CpuModel *model = trial->model;
  const CpuKvShape *kv = &model->kv;
  const int64_t dim = kv->head_dim, size = kv->block_size, columns = model->qkv_columns;
  float *qkv = floats(trial, trial->tokens * columns), *pages = cpu_model_pool(model, 0);
  double *reference = numbers(trial->arena, trial->tokens * columns, qkv);
  for (int64_t t = 0; trial->rows.rotation && t < trial->tokens; t++)
    reference_rotate(reference + t * columns, model->query_heads + kv->kv_heads, kv->head_dim,
                     trial->rows.positions[t]);
  cpu_threads_run(model->threads, cpu_rope_append,
                  &(CpuRopeAppend){.kv = *kv,
                                   .qkv = qkv,
                                   .pages = pages,
                                   .rotation = trial->rows.rotation,
                                   .slots = trial->rows.slots,
                                   .tokens = trial->tokens,
                                   .query_heads = model->query_heads});
  for (int64_t t = 0; t < trial->tokens; t++) {
    const int64_t slot = trial->rows.slots[t];
    const float *page = pages + slot / size * cpu_kv_page_floats(kv);
    for (int64_t i = 0; i < kv->kv_heads * dim; i++) {
      const float *head = page + i / dim * cpu_kv_head_floats(kv);
      const float *row = qkv + t * columns + model->query_heads * dim + i;
      if (head[i % dim * size + slot % size] != row[0] ||
          head[(size + slot % size) * dim + i % dim] != row[kv->kv_heads * dim])
        return INFINITY;
    }
  }
  return compare(qkv, reference, trial->tokens * columns, 1);
}

static double try_activation(const Trial *trial) {
  const CpuModel *model = trial->model;
  const int64_t n = trial->tokens * model->ffn, n_in = trial->tokens * model->up_columns;
  float *in = floats(trial, n_in), *out = floats(trial, n);
  double *reference = numbers(trial->arena, n, NULL);
  reference_activate(model->shape.activation, reference, numbers(trial->arena, n_in, in),
                     trial->tokens, model->ffn);
  cpu_threads_run(model->threads, cpu_activate,
                  &(CpuActivate){.activation = model->shape.activation,
                                 .out = out,
                                 .in = in,
                                 .tokens = trial->tokens,
                                 .ffn = model->ffn});
  return compare(out, reference, n, 1);
}

static double try_embedding(const Trial *trial) {
  const CpuModel *model = trial->model;
  const CpuBatch *rows = &trial->rows;
  const int64_t hidden = model->shape.hidden_size, n = trial->tokens * hidden;
  float *out = floats(trial, n);
  double *reference = numbers(trial->arena, n, NULL);
  for (int64_t i = 0; i < n; i++) {
    const int64_t t = i / hidden, column = i % hidden;
    reference[i] = model->embedding[rows->ids[t] * hidden + column];
    if (model->positions) reference[i] += model->positions[rows->positions[t] * hidden + column];
  }
  cpu_threads_run(model->threads, cpu_embed,
                  &(CpuEmbed){.out = out,
                              .table = model->embedding,
                              .positions_table = model->positions,
                              .ids = rows->ids,
                              .positions = rows->positions,
                              .tokens = trial->tokens,
                              .hidden = hidden});
  return compare(out, reference, n, 1);
}

static double try_argmax(const Trial *trial) {
  const CpuModel *model = trial->model;
  const int64_t vocab = model->vocab, rows = trial->tokens;
  float *logits = floats(trial, rows * vocab);
  int32_t *ids = ARENA_ARRAY(trial->arena, int32_t, rows);
  logits[vocab - 1] = 1e6f; // the last
  logits[vocab / 2] = 1e6f; // and an equal before it
  const CpuArgmax argmax = {
      .ids = ids,
      .best = ARENA_ARRAY(trial->arena, int64_t, rows * cpu_threads_count(model->threads)),
      .logits = logits,
      .rows = rows,
      .vocab = vocab};
  cpu_threads_run(model->threads, cpu_argmax, &argmax);
  cpu_threads_run(model->threads, cpu_argmax_merge, &argmax);
  for (int64_t i = 0; i < rows; i++) {
    int64_t best = 0;
    for (int64_t j = 1; j < vocab; j++)
      if (logits[i * vocab + j] > logits[i * vocab + best]) best = j;
    if (ids[i] != best) return INFINITY;
  }
  return 0;
}

/* Pages out of the pool and back, through lists; the last one short when it is a plain copy. */
static double try_copy(const Trial *trial) {
  const CpuModel *model = trial->model;
  const int64_t floats_each = cpu_kv_page_floats(&model->kv), n = trial->rows.pages;
  const int32_t *pages = cpu_batch_pages(&trial->rows, model, 0);
  const float *pool = cpu_model_pool(model, 0);
  float *buffer = floats(trial, n * floats_each);
  float *copy = floats(trial, model->pool_pages * floats_each);
  const int64_t bytes = floats_each * (int64_t)sizeof *copy;
  cpu_threads_run(model->threads, cpu_copy,
                  &(CpuCopy){.to = (char *)buffer,
                             .from = (const char *)pool,
                             .from_pages = pages,
                             .n_pages = n,
                             .page_bytes = bytes,
                             .last_bytes = bytes});
  cpu_threads_run(model->threads, cpu_copy,
                  &(CpuCopy){.to = (char *)copy,
                             .from = (const char *)buffer,
                             .to_pages = pages,
                             .n_pages = n,
                             .page_bytes = bytes,
                             .last_bytes = bytes - 4});
  for (int64_t i = 0; i < n; i++) {
    const size_t compared = (size_t)(i + 1 == n ? bytes - 4 : bytes);
    if (memcmp(copy + pages[i] * floats_each, pool + pages[i] * floats_each, compared) != 0)
      return INFINITY;
  }
  return 0;
}

static double try_operator(const Trial *trial, CalibOp op) {
  switch (op) {
  case CALIB_NORM:
    return try_norm(trial);
  case CALIB_ROPE_APPEND:
    return try_rope_append(trial);
  case CALIB_ACTIVATION:
    return try_activation(trial);
  case CALIB_EMBEDDING:
    return try_embedding(trial);
  case CALIB_ARGMAX:
    return try_argmax(trial);
  case CALIB_COPY_D2D:
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
    return try_copy(trial);
  default:
    return try_product(trial, op);
  }
}

static CalibStatus verify_operator(CpuModel *model, CalibOp op, int64_t available_bytes,
                                   Arena *arena, double *ret_error, char *error) {
  for (int i = 0; i < N_TOKENS; i++) {
    Trial trial = {.model = model, .tokens = TOKENS[i], .arena = arena};
    const CalibSequence prompt = {.new_tokens = (int32_t)TOKENS[i], .past_tokens = 5};
    const CalibBatch batch = {.sequences = &prompt, .n_prefills = 1};
    CalibStatus status =
        cpu_batch_init(&trial.rows, model, &batch, false, available_bytes, arena, error);
    if (status) return status;
    *ret_error = fmax(*ret_error, try_operator(&trial, op));
  }
  return CALIB_OK;
}

CalibStatus cpu_verify(CpuModel *model, CalibOp op, int64_t available_bytes, double *ret_error,
                       char *error) {
  Arena arena;
  arena_init(&arena);
  *ret_error = 0;
  CalibStatus status = op < CALIB_GEMM_QKV
                           ? verify_terms(model, op, available_bytes, &arena, ret_error, error)
                           : verify_operator(model, op, available_bytes, &arena, ret_error, error);
  arena_done(&arena);
  return status;
}
