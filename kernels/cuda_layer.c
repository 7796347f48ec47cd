/* The operators of an iteration, in the order in which a decoder runs them. */
#include "kernels/cuda_state.h"
#include <stdio.h>

static void *tensor(const CudaLane *lane, int name) {
  return lane->tensors[name].data;
}

// --- operators ---------------------------------------------------------------------------------

bool layer_fuses_activation(const CudaState *self) {
  return self->model.bias && self->model.activation != CALIB_SWIGLU;
}

/* An activation without a gate belongs into the product if there is a bias to go with it. */
static GemmEpilogue epilogue_of(const CudaState *self, CalibOp op) {
  if (!self->model.bias || op == CALIB_GEMM_HEAD) return GEMM_PLAIN;
  if (op != CALIB_GEMM_UP || !layer_fuses_activation(self)) return GEMM_BIAS;
  return self->model.activation == CALIB_GELU ? GEMM_BIAS_GELU : GEMM_BIAS_RELU;
}

static GemmShape shape_of(const CudaState *self, const CudaLane *lane, CalibOp op) {
  const CalibProduct p = calib_product(op);
  return (GemmShape){.m = op == CALIB_GEMM_HEAD ? lane->layout.n_logits : lane->layout.tokens,
                     .n = (int32_t)layer_columns(&self->model, p.out),
                     .k = (int32_t)layer_columns(&self->model, p.in),
                     .dtype = self->model.dtype,
                     .epilogue = epilogue_of(self, op)};
}

const char *layer_algorithm(const CudaState *self, CalibOp op) {
  const GemmShape shape = shape_of(self, &self->main, op);
  return gemm_algorithm(self->main.gemm, &shape);
}

CalibStatus product_failed(CudaLane *lane, const GemmShape *shape, const char *why, char *error) {
  static const char *const formats[] = {"", " in fp8", " in fp8_block"};
  cudaGetLastError(); // else the next call reports it again
  const bool goes_on = cudaStreamSynchronize(lane->stream) == cudaSuccess;
  return calib_failed(goes_on ? CALIB_REJECTED : CALIB_ENVIRONMENT, error,
                      "product%s of [%d][%d] and [%d][%d]: %s", formats[shape->weights],
                      (int)shape->m, (int)shape->k, (int)shape->n, (int)shape->k, why);
}

CalibStatus layer_product(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error) {
  if (self->model.weights != CALIB_WEIGHTS_PLAIN && op != CALIB_GEMM_HEAD)
    return fp8_product(self, lane, op, layer, error);
  const CalibProduct p = calib_product(op);
  const CudaLayer weights = model_layer(self, layer);
  const bool is_head = op == CALIB_GEMM_HEAD;
  const bool takes_up = p.in == TENSOR_ACTIVE && layer_fuses_activation(self);
  const int ix = op - CALIB_GEMM_QKV;
  const GemmShape shape = shape_of(self, lane, op);
  char why[GEMM_ERROR_SIZE];
  if (gemm_run(lane->gemm, lane->stream, &shape, tensor(lane, p.out),
               tensor(lane, takes_up ? TENSOR_UP : p.in),
               is_head ? model_head(self, layer) : weights.products[ix],
               is_head ? NULL : weights.product_biases[ix], why) >= 0)
    return CALIB_OK;
  return product_failed(lane, &shape, why, error);
}

static CalibStatus norm_rows(CudaState *self, CudaLane *lane, const CudaLayer *weights, int norm,
                             void *out, void *residual, const void *x, int32_t rows, char *error) {
  return CUDA_STATUS(kernel_norm(lane->stream, self->model.dtype, self->model.norm, out, residual,
                                 x, weights->norms[norm], weights->norm_biases[norm], CUDA_EPSILON,
                                 rows, self->shape.hidden));
}

CalibStatus layer_norm(CudaState *self, CudaLane *lane, const CudaLayer *weights, int norm,
                       bool is_first, char *error) {
  return norm_rows(self, lane, weights, norm, tensor(lane, TENSOR_NORMED),
                   tensor(lane, TENSOR_RESIDUAL), is_first ? NULL : tensor(lane, TENSOR_ADDED),
                   lane->layout.tokens, error);
}

CalibStatus layer_embed(CudaState *self, CudaLane *lane, int64_t first, char *error) {
  return CUDA_STATUS(
      kernel_embedding(lane->stream, self->model.dtype, tensor(lane, TENSOR_RESIDUAL),
                       (const int32_t *)self->ids.data + first, self->embedding.data,
                       self->positions.data ? lane->batch.positions : NULL, self->positions.data,
                       lane->layout.tokens, self->shape.hidden));
}

CalibStatus layer_rope_append(CudaState *self, CudaLane *lane, int64_t layer, char *error) {
  const KernelAttention attention = model_attention(self, lane, layer);
  const int32_t *positions = self->model.positions == CALIB_ROPE ? lane->batch.positions : NULL;
  const CudaLayer weights = model_layer(self, layer);
  const KernelHeadNorms norms = {weights.q_norm, weights.k_norm, CUDA_EPSILON};
  return CUDA_STATUS(kernel_rope_append(lane->stream, &attention, tensor(lane, TENSOR_QKV),
                                        model_kv(self, &lane->layout, layer), lane->batch.slots,
                                        positions, CUDA_THETA, norms, lane->layout.tokens));
}

CalibStatus layer_activation(CudaState *self, CudaLane *lane, char *error) {
  return CUDA_STATUS(kernel_activation(lane->stream, self->model.dtype, self->model.activation,
                                       tensor(lane, TENSOR_ACTIVE), tensor(lane, TENSOR_UP),
                                       lane->layout.tokens * self->shape.picked, self->shape.ffn));
}

CalibStatus layer_argmax(CudaState *self, CudaLane *lane, char *error) {
  return CUDA_STATUS(kernel_argmax(lane->stream, self->model.dtype, tensor(lane, TENSOR_BEST),
                                   tensor(lane, TENSOR_LOGITS), lane->layout.n_logits,
                                   self->shape.vocab, tensor(lane, CUDA_ARGMAX)));
}

// --- a layer -----------------------------------------------------------------------------------

/* Norm, product and what puts K and V into pages. The residual takes up what the layer before
 * has added. */
static CalibStatus begin_layer(CudaState *self, CudaLane *lane, int64_t ix, bool is_first,
                               char *error) {
  const CudaLayer weights = model_layer(self, ix);
  TRY(layer_norm(self, lane, &weights, 0, is_first, error));
  TRY(layer_product(self, lane, CALIB_GEMM_QKV, ix, error));
  return layer_rope_append(self, lane, ix, error);
}

static CalibStatus attend_prefills(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  if (lane->layout.n_prefills == 0) return CALIB_OK;
  if (attention_is_cudnn(self)) return sdpa_attend(self, lane, ix, false, error);
  const KernelAttention attention = model_attention(self, lane, ix);
  const BatchLayout *layout = &lane->layout;
  if (layout->wgmma_rows > 0)
    return CUDA_STATUS(kernel_attention_wgmma(
        lane->stream, &attention, layout->wgmma_rows, self->wgmma_blocks,
        tensor(lane, TENSOR_ATTENTION), tensor(lane, TENSOR_QKV), self->shape.qkv,
        lane->batch.row_starts, lane->batch.past, layout->n_prefills, layout->max_new));
  const KernelSplits splits = {layout->prefill_splits, lane->batch.prefill_starts,
                               tensor(lane, CUDA_SPLITS)};
  return CUDA_STATUS(kernel_attention_prefill(
      lane->stream, &attention, layout->tile_rows, tensor(lane, TENSOR_ATTENTION),
      tensor(lane, TENSOR_QKV), self->shape.qkv, lane->batch.row_starts, lane->batch.past,
      layout->prefill_tokens, layout->n_prefills, layout->max_new, &splits));
}

/* Rows and page tables of decodes follow those of prefills. */
static CalibStatus attend_decodes(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  const BatchLayout *layout = &lane->layout;
  if (layout->n_decodes == 0) return CALIB_OK;
  if (attention_is_cudnn(self)) return sdpa_attend(self, lane, ix, true, error);
  KernelAttention attention = model_attention(self, lane, ix);
  attention.page_table += (int64_t)layout->n_prefills * layout->max_pages;
  const int64_t row = layout->prefill_tokens;
  const char *q = (const char *)tensor(lane, TENSOR_QKV) + 2 * row * self->shape.qkv;
  char *out = (char *)tensor(lane, TENSOR_ATTENTION) + 2 * row * self->shape.attention;
  const KernelSplits splits = {layout->decode_splits, lane->batch.split_starts,
                               tensor(lane, CUDA_SPLITS)};
  return CUDA_STATUS(kernel_attention_decode(lane->stream, &attention, out, q, self->shape.qkv,
                                             lane->batch.contexts, lane->batch.split_sequences,
                                             layout->n_decodes, &splits));
}

static CalibStatus end_layer(CudaState *self, CudaLane *lane, int64_t ix, char *error) {
  const CudaLayer weights = model_layer(self, ix);
  TRY(layer_product(self, lane, CALIB_GEMM_O, ix, error));
  TRY(layer_norm(self, lane, &weights, 1, false, error));
  if (weights.router) return layer_experts(self, lane, ix, error);
  TRY(layer_product(self, lane, CALIB_GEMM_UP, ix, error));
  if (!layer_fuses_activation(self)) TRY(layer_activation(self, lane, error));
  return layer_product(self, lane, CALIB_GEMM_DOWN, ix, error);
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
  TRY(norm_rows(self, lane, &final, 0, tensor(lane, TENSOR_HEAD_NORMED),
                tensor(lane, CUDA_ROW_STATE), tensor(lane, CUDA_ROW_ADDED), n, error));
  TRY(layer_product(self, lane, CALIB_GEMM_HEAD, copy, error));
  return layer_argmax(self, lane, error);
}

/* The distinct layers go on in turn from one run to the next: a run of one layer, again and again,
 * would else find its weights in the cache. */
CalibStatus layers_run(CudaState *self, CudaLane *lane, unsigned parts, int32_t layers, bool hot,
                       int64_t repetition, char *error) {
  const int32_t tokens = lane->layout.tokens;
  const int64_t first = hot || tokens >= CUDA_IDS ? 0 : repetition * tokens % (CUDA_IDS - tokens);
  if (parts & CALIB_PART_LINEAR) TRY(layer_embed(self, lane, first, error));
  for (int32_t i = 0; i < layers; i++) {
    const int64_t ix = hot ? 0 : repetition * layers + i;
    if (parts & CALIB_PART_LINEAR) TRY(begin_layer(self, lane, ix, i == 0, error));
    if (parts & CALIB_PART_PREFILL) TRY(attend_prefills(self, lane, ix, error));
    if (parts & CALIB_PART_DECODE) TRY(attend_decodes(self, lane, ix, error));
    if (parts & CALIB_PART_LINEAR) TRY(end_layer(self, lane, ix, error));
  }
  return parts & CALIB_PART_HEAD ? run_head(self, lane, hot ? 0 : repetition, error) : CALIB_OK;
}
