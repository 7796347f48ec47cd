/* The operators of an iteration, in the order in which a decoder runs them. */
#include "kernels/cuda_state.h"
#include <stdio.h>

// --- products ----------------------------------------------------------------------------------

/* An activation without a gate belongs into the product if there is a bias to go with it. */
static GemmEpilogue up_epilogue(const CudaState *self) {
  if (!self->model.bias) return GEMM_PLAIN;
  if (self->model.activation == CALIB_GELU) return GEMM_BIAS_GELU;
  return self->model.activation == CALIB_RELU ? GEMM_BIAS_RELU : GEMM_BIAS;
}

bool layer_fuses_activation(const CudaState *self) {
  return self->model.bias && self->model.activation != CALIB_SWIGLU;
}

LayerProduct layer_product_of(const CudaState *self, CudaProduct product, int64_t layer) {
  const LayerShape *s = &self->shape;
  const CudaLayer weights = model_layer(self, layer);
  const GemmEpilogue bias = self->model.bias ? GEMM_BIAS : GEMM_PLAIN;
  switch (product) {
  case PRODUCT_QKV:
    return (LayerProduct){s->qkv, s->hidden, weights.qkv, weights.qkv_bias, bias};
  case PRODUCT_O:
    return (LayerProduct){s->hidden, s->attention, weights.o, weights.o_bias, bias};
  case PRODUCT_UP:
    return (LayerProduct){s->up, s->hidden, weights.up, weights.up_bias, up_epilogue(self)};
  case PRODUCT_DOWN:
    return (LayerProduct){s->hidden, s->ffn, weights.down, weights.down_bias, bias};
  case PRODUCT_HEAD:
    break;
  }
  return (LayerProduct){s->vocab, s->hidden, model_head(self, layer), NULL, GEMM_PLAIN};
}

CalibStatus layer_product(CudaState *self, CudaLane *lane, CudaProduct product, int64_t layer,
                          void *out, const void *in, int32_t rows, char *error) {
  const LayerProduct p = layer_product_of(self, product, layer);
  const GemmShape shape = {
      .m = rows, .n = p.n, .k = p.k, .dtype = self->model.dtype, .epilogue = p.epilogue};
  char why[GEMM_ERROR_SIZE];
  if (gemm_run(lane->gemm, lane->stream, &shape, out, in, p.weights, p.bias, why) >= 0)
    return CALIB_OK;
  snprintf(error, CALIB_ERROR_SIZE, "product of [%d][%d] and [%d][%d]: %s", (int)rows, (int)p.k,
           (int)p.n, (int)p.k, why);
  return CALIB_ENVIRONMENT;
}

// --- a layer -----------------------------------------------------------------------------------

static void *tensor(const CudaLane *lane, int name) {
  return lane->tensors[name].data;
}

static CalibStatus embed(CudaState *self, CudaLane *lane, int64_t repetition, char *error) {
  const int32_t tokens = lane->layout.tokens;
  const int64_t first = tokens < CUDA_IDS ? repetition * tokens % (CUDA_IDS - tokens) : 0;
  CUDA_TRY(kernel_embedding(lane->stream, self->model.dtype, tensor(lane, TENSOR_RESIDUAL),
                            (const int32_t *)self->ids.data + first, self->embedding.data,
                            self->positions.data ? lane->batch.positions : NULL,
                            self->positions.data, tokens, self->shape.hidden));
  return CALIB_OK;
}

/* Norm, product and what puts K and V into pages. The residual takes up what the layer before
 * has added. */
static CalibStatus begin_layer(CudaState *self, CudaLane *lane, int64_t ix, bool is_first,
                               char *error) {
  const CudaLayer weights = model_layer(self, ix);
  const int32_t tokens = lane->layout.tokens;
  CUDA_TRY(kernel_norm(lane->stream, self->model.dtype, self->model.norm,
                       tensor(lane, TENSOR_NORMED), tensor(lane, TENSOR_RESIDUAL),
                       is_first ? NULL : tensor(lane, TENSOR_ADDED), weights.norm_weights[0],
                       weights.norm_biases[0], CUDA_EPSILON, tokens, self->shape.hidden));
  TRY(layer_product(self, lane, PRODUCT_QKV, ix, tensor(lane, TENSOR_QKV),
                    tensor(lane, TENSOR_NORMED), tokens, error));
  const KernelAttention attention = model_attention(self, lane, ix);
  const int32_t *positions = self->model.positions == CALIB_ROPE ? lane->batch.positions : NULL;
  CUDA_TRY(kernel_rope_append(lane->stream, &attention, tensor(lane, TENSOR_QKV),
                              model_kv(self, &lane->layout, ix), lane->batch.slots, positions,
                              CUDA_THETA, tokens));
  return CALIB_OK;
}

static CalibStatus attend_prefills(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  if (lane->layout.n_prefills == 0) return CALIB_OK;
  const KernelAttention attention = model_attention(self, lane, ix);
  CUDA_TRY(kernel_attention_prefill(lane->stream, &attention, tensor(lane, TENSOR_ATTENTION),
                                    tensor(lane, TENSOR_QKV), self->shape.qkv,
                                    lane->batch.row_starts, lane->batch.past,
                                    lane->layout.n_prefills, lane->layout.max_new));
  return CALIB_OK;
}

/* Rows and page tables of decodes follow those of prefills. */
static CalibStatus attend_decodes(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  const BatchLayout *layout = &lane->layout;
  if (layout->n_decodes == 0) return CALIB_OK;
  KernelAttention attention = model_attention(self, lane, ix);
  attention.page_table += (int64_t)layout->n_prefills * layout->max_pages;
  const int64_t row = layout->prefill_tokens;
  const char *q = (const char *)tensor(lane, TENSOR_QKV) + 2 * row * self->shape.qkv;
  char *out = (char *)tensor(lane, TENSOR_ATTENTION) + 2 * row * self->shape.attention;
  CUDA_TRY(kernel_attention_decode(
      lane->stream, &attention, out, q, self->shape.qkv, lane->batch.contexts,
      lane->batch.split_starts, lane->batch.split_sequences, layout->split_tokens,
      layout->n_decodes, layout->total_splits, tensor(lane, CUDA_SPLITS)));
  return CALIB_OK;
}

static CalibStatus end_layer(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  const CudaLayer weights = model_layer(self, ix);
  const int32_t tokens = lane->layout.tokens;
  const void *active = tensor(lane, TENSOR_UP);
  TRY(layer_product(self, lane, PRODUCT_O, ix, tensor(lane, TENSOR_ADDED),
                    tensor(lane, TENSOR_ATTENTION), tokens, error));
  CUDA_TRY(kernel_norm(lane->stream, self->model.dtype, self->model.norm,
                       tensor(lane, TENSOR_NORMED), tensor(lane, TENSOR_RESIDUAL),
                       tensor(lane, TENSOR_ADDED), weights.norm_weights[1], weights.norm_biases[1],
                       CUDA_EPSILON, tokens, self->shape.hidden));
  TRY(layer_product(self, lane, PRODUCT_UP, ix, tensor(lane, TENSOR_UP),
                    tensor(lane, TENSOR_NORMED), tokens, error));
  if (!layer_fuses_activation(self)) {
    active = tensor(lane, TENSOR_ACTIVE);
    CUDA_TRY(kernel_activation(lane->stream, self->model.dtype, self->model.activation,
                               tensor(lane, TENSOR_ACTIVE), tensor(lane, TENSOR_UP), NULL, tokens,
                               self->shape.ffn));
  }
  return layer_product(self, lane, PRODUCT_DOWN, ix, tensor(lane, TENSOR_ADDED), active, tokens,
                       error);
}

/* Only of the rows that need logits, the last layer's sum included. */
static CalibStatus run_head(CudaState *self, CudaLane *lane, int64_t copy, char *error) {
  const int32_t n = lane->layout.n_logits, hidden = self->shape.hidden;
  if (n == 0) return CALIB_OK;
  const int32_t *rows = lane->batch.logit_rows;
  const CudaLayer final = model_layer(self, 0);
  CUDA_TRY(kernel_gather_rows(lane->stream, self->model.dtype, tensor(lane, CUDA_ROW_STATE),
                              tensor(lane, TENSOR_RESIDUAL), rows, n, hidden));
  CUDA_TRY(kernel_gather_rows(lane->stream, self->model.dtype, tensor(lane, CUDA_ROW_ADDED),
                              tensor(lane, TENSOR_ADDED), rows, n, hidden));
  CUDA_TRY(kernel_norm(lane->stream, self->model.dtype, self->model.norm,
                       tensor(lane, TENSOR_HEAD_NORMED), tensor(lane, CUDA_ROW_STATE),
                       tensor(lane, CUDA_ROW_ADDED), final.norm_weights[0], final.norm_biases[0],
                       CUDA_EPSILON, n, hidden));
  TRY(layer_product(self, lane, PRODUCT_HEAD, copy, tensor(lane, TENSOR_LOGITS),
                    tensor(lane, TENSOR_HEAD_NORMED), n, error));
  CUDA_TRY(kernel_argmax(lane->stream, self->model.dtype, tensor(lane, TENSOR_BEST),
                         tensor(lane, TENSOR_LOGITS), n, self->shape.vocab,
                         tensor(lane, CUDA_ARGMAX)));
  return CALIB_OK;
}

/* The distinct layers go on in turn from one run to the next: a run of one layer, again and again,
 * would else find its weights in the cache. */
CalibStatus layers_run(CudaState *self, CudaLane *lane, unsigned parts, int32_t layers, bool hot,
                       int64_t repetition, char *error) {
  if (parts & PART_LINEAR) TRY(embed(self, lane, hot ? 0 : repetition, error));
  for (int32_t i = 0; i < layers; i++) {
    const int64_t ix = hot ? 0 : repetition * layers + i;
    if (parts & PART_LINEAR) TRY(begin_layer(self, lane, ix, i == 0, error));
    if (parts & PART_PREFILL) TRY(attend_prefills(self, lane, ix, error));
    if (parts & PART_DECODE) TRY(attend_decodes(self, lane, ix, error));
    if (parts & PART_LINEAR) TRY(end_layer(self, lane, ix, error));
  }
  return parts & PART_HEAD ? run_head(self, lane, hot ? 0 : repetition, error) : CALIB_OK;
}
