/* One iteration, operator by operator. */
#include "calib/cpu_run.h"
#include "calib/cpu_gemm.h"
#include <math.h>

static void norm(CpuModel *model, const float *x, const float *weight, const float *bias,
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

static void multiply(CpuModel *model, float *out, const float *in, const float *weights,
                     const float *bias, int64_t tokens, int64_t n, int64_t k) {
  cpu_threads_run(model->threads, cpu_gemm,
                  &(CpuGemm){.blas = model->blas,
                             .out = out,
                             .in = in,
                             .weights = weights,
                             .bias = bias,
                             .tokens = tokens,
                             .n = n,
                             .k = k});
}

static void embed(CpuModel *model, const CpuBatch *batch) {
  cpu_threads_run(model->threads, cpu_embed,
                  &(CpuEmbed){.out = model->activations.residual,
                              .table = model->embedding,
                              .positions_table = model->positions,
                              .ids = batch->ids,
                              .positions = batch->positions,
                              .tokens = batch->tokens,
                              .hidden = model->shape.hidden_size});
}

/* Up to the products of attention. */
static void run_before(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer, float *pages,
                       const int32_t *slots, bool is_first) {
  const CpuActivations *room = &model->activations;
  norm(model, is_first ? NULL : room->delta, layer->norm, layer->norm_bias, batch->tokens);
  multiply(model, room->qkv, room->normed, layer->qkv, layer->qkv_bias, batch->tokens,
           model->qkv_columns, model->shape.hidden_size);
  cpu_threads_run(model->threads, cpu_rope_append,
                  &(CpuRopeAppend){.kv = model->kv,
                                   .qkv = room->qkv,
                                   .pages = pages,
                                   .rotation = batch->rotation,
                                   .slots = slots,
                                   .tokens = batch->tokens,
                                   .query_heads = model->query_heads});
}

static void run_after(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer) {
  const CpuActivations *room = &model->activations;
  const int64_t hidden = model->shape.hidden_size, tokens = batch->tokens;
  multiply(model, room->delta, room->attention, layer->o, layer->o_bias, tokens, hidden,
           (int64_t)model->query_heads * model->kv.head_dim);
  norm(model, room->delta, layer->ffn_norm, layer->ffn_norm_bias, tokens);
  multiply(model, room->up, room->normed, layer->up, layer->up_bias, tokens, model->up_columns,
           hidden);
  cpu_threads_run(model->threads, cpu_activate,
                  &(CpuActivate){.activation = model->shape.activation,
                                 .out = room->ffn,
                                 .in = room->up,
                                 .tokens = tokens,
                                 .ffn = model->ffn});
  multiply(model, room->delta, room->ffn, layer->down, layer->down_bias, tokens, hidden,
           model->ffn);
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
  multiply(model, room->logits, room->head_normed, weights, NULL, rows, model->vocab, hidden);
  const CpuArgmax argmax = {.ids = room->argmax,
                            .best = room->argmax_parts,
                            .logits = room->logits,
                            .rows = rows,
                            .vocab = model->vocab};
  cpu_threads_run(model->threads, cpu_argmax, &argmax);
  cpu_threads_run(model->threads, cpu_argmax_merge, &argmax);
}

void cpu_run(CpuModel *model, const CpuBatch *batch, const CpuRun *run, int64_t round) {
  const int32_t *pages_of = cpu_batch_pages(batch, model, run->hot ? 0 : round);
  const int32_t *slots = batch->slots + (run->hot ? 0 : round % batch->n_sets) * batch->tokens;
  const int32_t kept = run->parts & CPU_HEAD ? model->n_layers : model->n_layers + model->n_spares;
  if (run->parts & CPU_LINEAR) embed(model, batch);
  for (int32_t i = 0; i < run->layers; i++) {
    const int32_t at = run->hot ? 0 : (int32_t)((round * run->layers + i) % kept);
    float *pages = cpu_model_pool(model, at % model->n_layers);
    if (run->parts & CPU_LINEAR) run_before(model, batch, &model->layers[at], pages, slots, i == 0);
    if (run->parts & CPU_PREFILL && batch->n_prefills > 0)
      run_prefill(model, batch, pages, pages_of);
    if (run->parts & CPU_DECODE && batch->n_decodes > 0) run_decode(model, batch, pages, pages_of);
    if (run->parts & CPU_LINEAR) run_after(model, batch, &model->layers[at]);
  }
  if (run->parts & CPU_HEAD && batch->n_logits > 0) cpu_run_head(model, batch, model->head);
}
