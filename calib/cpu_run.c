/* One iteration, operator by operator. */
#include "calib/cpu_run.h"
#include <math.h>

void cpu_run_norm(CpuModel *model, const float *x, const float *weight, const float *bias,
                  int64_t tokens) {
  const CpuActivations *room = &model->activations;
  cpu_threads_run(model->threads, cpu_norm,
                  &(CpuNorm){.norm = model->shape.norm,
                             .out = room->normed,
                             .residual = room->residual,
                             .x = x,
                             .weight = weight,
                             .bias = bias,
                             .tokens = tokens,
                             .hidden = model->shape.hidden_size});
}

CpuGemm cpu_run_product(const CpuModel *model, CalibOp op, const CpuLayer *layer, int64_t rows) {
  const CpuActivations *room = &model->activations;
  const int64_t hidden = model->shape.hidden_size, qkv = model->qkv_columns, up = model->up_columns;
  const int64_t heads = (int64_t)model->query_heads * model->kv.head_dim, ffn = model->ffn;
  const CpuBlas *blas = model->blas;
  switch (op) {
  case CALIB_GEMM_QKV:
    return (CpuGemm){blas, room->qkv, room->normed, layer->qkv, layer->qkv_bias, rows, qkv, hidden};
  case CALIB_GEMM_O:
    return (CpuGemm){blas,          room->delta, room->attention, layer->o,
                     layer->o_bias, rows,        hidden,          heads};
  case CALIB_GEMM_UP:
    return (CpuGemm){blas, room->up, room->normed, layer->up, layer->up_bias, rows, up, hidden};
  case CALIB_GEMM_DOWN:
    return (CpuGemm){blas, room->delta, room->ffn, layer->down, layer->down_bias,
                     rows, hidden,      ffn};
  default:
    return (CpuGemm){blas, room->logits, room->head_normed, model->head,
                     NULL, rows,         model->vocab,      hidden};
  }
}

static void multiply(CpuModel *model, CalibOp op, const CpuLayer *layer, int64_t rows) {
  const CpuGemm gemm = cpu_run_product(model, op, layer, rows);
  cpu_threads_run(model->threads, cpu_gemm, &gemm);
}

void cpu_run_embedding(CpuModel *model, const CpuBatch *batch) {
  cpu_threads_run(model->threads, cpu_embed,
                  &(CpuEmbed){.out = model->activations.residual,
                              .table = model->embedding,
                              .positions_table = model->positions,
                              .ids = batch->ids,
                              .positions = batch->positions,
                              .tokens = batch->tokens,
                              .hidden = model->shape.hidden_size});
}

void cpu_run_rope_append(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer,
                         float *pages, int64_t set) {
  cpu_threads_run(model->threads, cpu_rope_append,
                  &(CpuRopeAppend){.kv = model->kv,
                                   .qkv = model->activations.qkv,
                                   .pages = pages,
                                   .rotation = batch->rotation,
                                   .q_norm = layer->q_norm,
                                   .k_norm = layer->k_norm,
                                   .slots = batch->slots + set % batch->n_sets * batch->tokens,
                                   .tokens = batch->tokens,
                                   .query_heads = model->query_heads});
}

void cpu_run_activation(CpuModel *model, int64_t tokens) {
  cpu_threads_run(model->threads, cpu_activate,
                  &(CpuActivate){.activation = model->shape.activation,
                                 .out = model->activations.ffn,
                                 .in = model->activations.up,
                                 .tokens = tokens,
                                 .ffn = model->ffn});
}

void cpu_run_argmax(CpuModel *model, int64_t rows) {
  const CpuActivations *room = &model->activations;
  const CpuArgmax argmax = {.ids = room->argmax,
                            .best = room->argmax_parts,
                            .logits = room->logits,
                            .rows = rows,
                            .vocab = model->vocab};
  cpu_threads_run(model->threads, cpu_argmax, &argmax);
  cpu_threads_run(model->threads, cpu_argmax_merge, &argmax);
}

/* Up to the products of attention. */
static void run_before(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer, float *pages,
                       int64_t set, bool is_first) {
  cpu_run_norm(model, is_first ? NULL : model->activations.delta, layer->norm, layer->norm_bias,
               batch->tokens);
  multiply(model, CALIB_GEMM_QKV, layer, batch->tokens);
  cpu_run_rope_append(model, batch, layer, pages, set);
}

static void run_after(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer) {
  const int64_t tokens = batch->tokens;
  multiply(model, CALIB_GEMM_O, layer, tokens);
  cpu_run_norm(model, model->activations.delta, layer->ffn_norm, layer->ffn_norm_bias, tokens);
  multiply(model, CALIB_GEMM_UP, layer, tokens);
  cpu_run_activation(model, tokens);
  multiply(model, CALIB_GEMM_DOWN, layer, tokens);
}

/* Sequences from `first` on. */
static CpuAttention attention_of(const CpuModel *model, const CpuBatch *batch, int32_t first,
                                 int32_t n, const float *pages, const int32_t *pages_of) {
  return (CpuAttention){.kv = model->kv,
                        .query_heads = model->query_heads,
                        .scale = (float)(1 / sqrt((double)model->kv.head_dim)),
                        .slopes = model->slopes,
                        .pages = pages,
                        .pages_of = pages_of,
                        .page_starts = batch->page_starts + first,
                        .row_starts = batch->row_starts + first,
                        .past = batch->past + first,
                        .q = model->activations.qkv,
                        .out = model->activations.attention,
                        .q_stride = model->qkv_columns,
                        .n_sequences = n};
}

static void run_prefill(CpuModel *model, const CpuBatch *batch, const float *pages,
                        const int32_t *pages_of) {
  _Atomic int64_t next = 0;
  const CpuPrefill prefill = {.blas = model->blas,
                              .attention =
                                  attention_of(model, batch, 0, batch->n_prefills, pages, pages_of),
                              .gathered = model->activations.gathered,
                              .gather_starts = batch->gather_starts,
                              .next = &next};
  cpu_threads_run(model->threads, cpu_attention_gather, &prefill);
  cpu_threads_run(model->threads, cpu_attention_prefill, &prefill);
}

static void run_decode(CpuModel *model, const CpuBatch *batch, const float *pages,
                       const int32_t *pages_of) {
  const CpuDecode decode = {
      .attention = attention_of(model, batch, batch->n_prefills, batch->n_decodes, pages, pages_of),
      .partial = model->activations.partial};
  cpu_threads_run(model->threads, cpu_attention_decode, &decode);
  cpu_threads_run(model->threads, cpu_attention_combine, &decode);
}

void cpu_run_head(CpuModel *model, const CpuBatch *batch, const float *weights) {
  const CpuActivations *room = &model->activations;
  const int64_t hidden = model->shape.hidden_size, rows = batch->n_logits;
  /* The rows that need logits, with what the last layer adds to them. */
  cpu_threads_run(model->threads, cpu_embed,
                  &(CpuEmbed){.out = room->head_in,
                              .table = room->residual,
                              .positions_table = room->delta,
                              .ids = batch->logit_rows,
                              .positions = batch->logit_rows,
                              .tokens = rows,
                              .hidden = hidden});
  cpu_threads_run(model->threads, cpu_norm,
                  &(CpuNorm){.norm = model->shape.norm,
                             .out = room->head_normed,
                             .residual = room->head_in,
                             .weight = model->final_norm,
                             .bias = model->final_norm_bias,
                             .tokens = rows,
                             .hidden = hidden});
  CpuGemm gemm = cpu_run_product(model, CALIB_GEMM_HEAD, NULL, rows);
  gemm.weights = weights;
  cpu_threads_run(model->threads, cpu_gemm, &gemm);
  cpu_run_argmax(model, rows);
}

void cpu_run(CpuModel *model, const CpuBatch *batch, const CpuRun *run, int64_t round) {
  const int64_t set = run->hot ? 0 : round;
  const int32_t *pages_of = cpu_batch_pages(batch, model, set);
  const int32_t kept =
      run->parts & CALIB_PART_HEAD ? model->n_layers : model->n_layers + model->n_spares;
  if (run->parts & CALIB_PART_LINEAR) cpu_run_embedding(model, batch);
  for (int32_t i = 0; i < run->layers; i++) {
    const int32_t at = run->hot ? 0 : (int32_t)((round * run->layers + i) % kept);
    float *pages = cpu_model_pool(model, at % model->n_layers);
    if (run->parts & CALIB_PART_LINEAR)
      run_before(model, batch, &model->layers[at], pages, set, i == 0);
    if (run->parts & CALIB_PART_PREFILL && batch->n_prefills > 0)
      run_prefill(model, batch, pages, pages_of);
    if (run->parts & CALIB_PART_DECODE && batch->n_decodes > 0)
      run_decode(model, batch, pages, pages_of);
    if (run->parts & CALIB_PART_LINEAR) run_after(model, batch, &model->layers[at]);
  }
  if (run->parts & CALIB_PART_HEAD && batch->n_logits > 0) cpu_run_head(model, batch, model->head);
}
