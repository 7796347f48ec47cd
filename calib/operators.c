/* Operators: one formula each. */
#include "calib/operators.h"
#include "calib/model.h"
#include <math.h>

/* ---- Batches ---- */

BatchShape calib_batch_shape(const CalibBatch *batch) {
  BatchShape shape = {.decode_seqs = batch->n_decodes, .logit_seqs = batch->n_logits};
  const CalibSequence *sequence = batch->sequences;
  for (int32_t i = 0; i < batch->n_prefills; i++, sequence++) {
    const int64_t new = sequence->new_tokens, past = sequence->past_tokens;
    shape.prefill_tokens += new;
    shape.prefill_area2 += new *(2 * past + new);
  }
  for (int32_t i = 0; i < batch->n_decodes; i++, sequence++)
    shape.context_tokens += (int64_t)sequence->past_tokens + 1;
  return shape;
}

BatchShape calib_point_shape(const CalibPoint *point) {
  if (calib_op_size(point->op) == CALIB_SIZE_batch) {
    BatchShape shape = calib_batch_shape(&point->batch);
    if (point->op != CALIB_ITERATION) shape.logit_seqs = 0;
    return shape;
  }
  if (point->op == CALIB_LINEAR) return (BatchShape){.prefill_tokens = point->size};
  if (point->op == CALIB_HEAD) return (BatchShape){.logit_seqs = point->size};
  return (BatchShape){0};
}

/* ---- Work ---- */

/* Sizes of a shard in doubles, for formulas. */
typedef struct Shard {
  double layers, hidden, head, query, kv, ffn, vocab, element, page;
  double experts, picked; // experts of a token; without any it has one MLP
  double weight;          // bytes of an element of a layer's products, with its scales
  double in;              // and of their inputs
  bool gated, rotates;
} Shard;

static Shard shard_of(const CalibModel *m, const CalibPoint *point) {
  const int32_t layers = point->layers > 0 ? point->layers : m->num_hidden_layers;
  const double kv = (double)calib_kv_heads(m) * m->head_dim;
  const double element = (double)calib_dtype_bytes(m->dtype);
  return (Shard){.layers = layers,
                 .hidden = m->hidden_size,
                 .head = m->head_dim,
                 .query = (double)calib_query_heads(m) * m->head_dim,
                 .kv = kv,
                 .ffn = calib_ffn(m),
                 .vocab = calib_vocab(m),
                 .element = element,
                 .page = 2 * kv * m->block_size * element,
                 .experts = m->num_experts,
                 .weight = m->weights == CALIB_WEIGHTS_PLAIN ? element : 1,
                 .in = m->weights == CALIB_WEIGHTS_PLAIN ? element : element + 2,
                 .picked = m->num_experts > 0 ? m->num_experts_per_tok : 1,
                 .gated = m->activation == CALIB_SWIGLU,
                 .rotates = m->positions == CALIB_ROPE};
}

static CalibWork add(CalibWork a, CalibWork b) {
  return (CalibWork){a.flops + b.flops, a.bytes + b.bytes};
}

static double up_columns(const Shard *s) {
  return s->gated ? 2 * s->ffn : s->ffn;
}

/* MLPs of a layer that its tokens reach, in the mean of routes that are random. */
static double reached_mlps(const Shard *s, double tokens) {
  return s->experts > 0 ? s->experts * (1 - pow(1 - s->picked / s->experts, tokens)) : 1;
}

/* The products of all layers; weights are read once. */
static CalibWork linear_work(const Shard *s, double tokens) {
  const double mlp = s->hidden * up_columns(s) + s->ffn * s->hidden;
  const double others =
      s->hidden * (s->query + 2 * s->kv) + s->query * s->hidden + s->hidden * s->experts;
  return (CalibWork){2 * tokens * (others + s->picked * mlp) * s->layers,
                     (others + reached_mlps(s, tokens) * mlp) * s->weight * s->layers};
}

static CalibWork head_work(const Shard *s, double sequences) {
  const double weights = s->hidden * s->vocab;
  return (CalibWork){2 * sequences * weights, weights * s->element};
}

/* A new token attends to all past ones, to those before it in its chunk, and to itself. */
static CalibWork prefill_work(const Shard *s, const CalibBatch *batch) {
  CalibWork work = {0};
  for (int32_t i = 0; i < batch->n_prefills; i++) {
    const double new = batch->sequences[i].new_tokens, past = batch->sequences[i].past_tokens;
    const double pairs = new *past + new *(new + 1) / 2;
    work.flops += 4 * s->query * pairs * s->layers;
    work.bytes += 2 * (new * s->query + (past + new) * s->kv) * s->element * s->layers;
  }
  return work;
}

static CalibWork decode_work(const Shard *s, double context) {
  return (CalibWork){4 * s->query * context * s->layers,
                     2 * s->kv * context * s->element * s->layers};
}

static CalibWork iteration_work(const Shard *s, const CalibBatch *batch) {
  const BatchShape shape = calib_batch_shape(batch);
  CalibWork work = linear_work(s, (double)shape.prefill_tokens + (double)shape.decode_seqs);
  work = add(work, prefill_work(s, batch));
  work = add(work, decode_work(s, (double)shape.context_tokens));
  return shape.logit_seqs > 0 ? add(work, head_work(s, (double)shape.logit_seqs)) : work;
}

/* An input of 8 bits is read as what it was, written, and read again. */
static CalibWork product(const Shard *s, double rows, double depth, double columns) {
  return (CalibWork){2 * rows * depth * columns, s->weight * depth * columns +
                                                     s->in * rows * depth +
                                                     s->element * rows * columns};
}

/* Of all experts that `tokens` reach; `rows` are read. */
static CalibWork expert_product(const Shard *s, double tokens, double rows, double depth,
                                double columns) {
  const double out = tokens * s->picked, weights = reached_mlps(s, tokens) * depth * columns;
  return (CalibWork){2 * out * depth * columns,
                     s->element * (weights + rows * depth + out * columns)};
}

/* Operators of one layer or call, of `x` rows. */
static CalibWork detail_work(const Shard *s, CalibOp op, double x) {
  switch (op) {
  case CALIB_GEMM_QKV:
    return product(s, x, s->hidden, s->query + 2 * s->kv);
  case CALIB_GEMM_O:
    return product(s, x, s->query, s->hidden);
  case CALIB_GEMM_UP:
    return product(s, x, s->hidden, up_columns(s));
  case CALIB_GEMM_DOWN:
    return product(s, x, s->ffn, s->hidden);
  case CALIB_GEMM_HEAD:
    return (CalibWork){2 * x * s->hidden * s->vocab,
                       s->element * (s->hidden * s->vocab + x * (s->hidden + s->vocab))};
  case CALIB_NORM: // reads the vectors and the residual, writes both
    return (CalibWork){4 * x * s->hidden, 4 * x * s->hidden * s->element};
  case CALIB_ROPE_APPEND:
    return (CalibWork){s->rotates ? 3 * x * (s->query + s->kv) : 0,
                       2 * x * (s->query + 2 * s->kv) * s->element};
  case CALIB_ACTIVATION:
    x *= s->picked;
    return (CalibWork){6 * x * s->ffn, x * (up_columns(s) + s->ffn) * s->element};
  case CALIB_MOE_ROUTING: // experts, shares, pairs and rows have 4 bytes
    return (CalibWork){x * s->experts, x * (s->experts * s->element + 16 * s->picked)};
  case CALIB_MOE_GEMM_UP:
    return expert_product(s, x, x, s->hidden, up_columns(s));
  case CALIB_MOE_GEMM_DOWN:
    return expert_product(s, x, x * s->picked, s->ffn, s->hidden);
  case CALIB_MOE_COMBINE:
    return (CalibWork){2 * x * s->picked * s->hidden, x * (s->picked + 1) * s->hidden * s->element};
  case CALIB_EMBEDDING:
    return (CalibWork){0, 2 * x * s->hidden * s->element};
  case CALIB_ARGMAX:
    return (CalibWork){x * s->vocab, x * s->vocab * s->element};
  case CALIB_COPY_D2D:
    return (CalibWork){0, 2 * x};
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
    return (CalibWork){0, 2 * x * s->page};
  case CALIB_KV_OUT:
    return (CalibWork){0, x * s->page};
  default: // copies, per direction, and all-reduces: each byte crosses the link once at least
    return (CalibWork){0, x};
  }
}

CalibWork calib_work(const CalibModel *model, const CalibPoint *point) {
  const Shard shard = shard_of(model, point);
  const double size = (double)point->size;
  switch (point->op) {
  case CALIB_ITERATION:
    return iteration_work(&shard, &point->batch);
  case CALIB_LINEAR:
    return linear_work(&shard, size);
  case CALIB_PREFILL_ATTENTION:
    return prefill_work(&shard, &point->batch);
  case CALIB_DECODE_ATTENTION:
    return decode_work(&shard, (double)calib_batch_shape(&point->batch).context_tokens);
  case CALIB_HEAD:
    return head_work(&shard, size);
  default:
    return detail_work(&shard, point->op, size);
  }
}
