/* A batch onto the device: its arrays, and room for all that an iteration over it writes. */
#include "kernels/cuda_state.h"
#include <stdlib.h>

/* Where the batches of runs over so many layers lie. */
static BatchPlace place_for(const CudaState *self, int32_t layers) {
  const CalibModel *model = &self->model;
  return (BatchPlace){.block_size = model->block_size,
                      .group = self->shape.query_heads / self->shape.kv_heads,
                      .kv_heads = self->shape.kv_heads,
                      .layers = layers,
                      .n_pages = self->memory.n_pages,
                      .max_positions =
                          model->positions == CALIB_LEARNED ? model->max_position_embeddings : 0,
                      .decode_blocks = self->residency.decode,
                      .prefill_blocks = {self->residency.prefill[0], self->residency.prefill[1]},
                      .wgmma_blocks = self->wgmma_blocks,
                      .seed = self->options.seed};
}

/* Numbers are filled in where there is room for them, so that no kernel ever reads memory that
 * nothing has written. */
static CalibStatus reserve_numbers(CudaState *self, CudaLane *lane, int tensor, int64_t n,
                                   char *error) {
  CudaBuffer *buffer = &lane->tensors[tensor];
  TRY(buffer_reserve(buffer, 2 * n, error));
  if (n == 0) return CALIB_OK;
  return CUDA_STATUS(kernel_fill_normal(lane->stream, self->model.dtype, buffer->data, n, 1.0f,
                                        self->options.seed * 32 + (uint64_t)tensor));
}

/* Of an activation. Products with scales of blocks write whole fours of rows. */
static int64_t rows_of(const CudaState *self, const BatchLayout *layout, int tensor) {
  if (tensor >= TENSOR_HEAD_NORMED) return layout->n_logits;
  const int32_t tokens =
      self->model.weights == CALIB_FP8_BLOCK ? fp8_rows(layout->tokens) : layout->tokens;
  return tokens * (int64_t)calib_rows_of_token(&self->model, (CalibTensor)tensor);
}

static CalibStatus reserve_tensors(CudaState *self, CudaLane *lane, char *error) {
  const LayerShape *s = &self->shape;
  const BatchLayout *layout = &lane->layout;
  const int32_t n = layout->n_logits;
  const int32_t of_prefills = layout->prefill_splits.rows, of_decodes = layout->decode_splits.rows;
  const KernelAttention attention = model_attention(self, lane, 0);
  size_t argmax = 0, partial = 0; // attention of prefills ends before that of decodes
  for (int t = TENSOR_RESIDUAL; t < TENSOR_BEST; t++) {
    const int64_t rows = rows_of(self, layout, t);
    TRY(reserve_numbers(self, lane, t, rows * layer_columns(&self->model, (CalibTensor)t), error));
  }
  TRY(moe_reserve(self, lane, error));
  TRY(fp8_reserve(self, lane, error));
  TRY(reserve_numbers(self, lane, CUDA_ROW_STATE, (int64_t)n * s->hidden, error));
  TRY(reserve_numbers(self, lane, CUDA_ROW_ADDED, (int64_t)n * s->hidden, error));
  if (n > 0) argmax = kernel_argmax_workspace(n, s->vocab);
  if (!attention_is_cudnn(self))
    partial =
        kernel_attention_workspace(&attention, of_prefills > of_decodes ? of_prefills : of_decodes);
  TRY(buffer_reserve(&lane->tensors[TENSOR_BEST], 4 * (int64_t)n, error));
  TRY(buffer_reserve(&lane->tensors[CUDA_ARGMAX], (int64_t)argmax, error));
  return buffer_reserve(&lane->tensors[CUDA_SPLITS], (int64_t)partial, error);
}

CalibStatus lane_set_batch(CudaState *self, CudaLane *lane, const CalibBatch *batch, int32_t layers,
                           char *error) {
  const BatchPlace place = place_for(self, layers);
  BatchLayout layout;
  TRY(batch_layout_init(&layout, &place, batch, error));
  batch_layout_done(&lane->layout);
  lane->layout = layout;
  if (layout.tokens > CUDA_IDS)
    return calib_failed(CALIB_REJECTED, error, "a batch of %d tokens exceeds the limit of %d",
                        (int)layout.tokens, (int)CUDA_IDS);
  const size_t bytes = layout.n_words * sizeof *layout.words;
  TRY(buffer_reserve(&lane->words, (int64_t)bytes, error));
  CUDA_TRY(
      cudaMemcpyAsync(lane->words.data, layout.words, bytes, cudaMemcpyHostToDevice, lane->stream));
  lane->batch = batch_layout_arrays(&lane->layout, lane->words.data);
  TRY(reserve_tensors(self, lane, error));
  TRY(sdpa_prepare_batch(self, lane, error));
  return CUDA_STATUS(cudaStreamSynchronize(lane->stream));
}

/* A table of positions may be shorter than the tokens of a point: prompts of that length then. */
static int32_t prompt_tokens(const CudaState *self, int32_t left) {
  const int32_t most = self->model.max_position_embeddings;
  return self->model.positions == CALIB_LEARNED && left > most ? most : left;
}

CalibStatus lane_set_tokens(CudaState *self, CudaLane *lane, CalibOp op, int64_t tokens,
                            int32_t layers, char *error) {
  if (tokens < 1 || tokens > CUDA_IDS)
    return calib_failed(CALIB_REJECTED, error, "%lld tokens are out of the range from 1 to %d",
                        (long long)tokens, (int)CUDA_IDS);
  const bool is_rows = op == CALIB_HEAD || op == CALIB_GEMM_HEAD || op == CALIB_ARGMAX;
  CalibSequence *sequences = must(malloc((size_t)tokens * sizeof *sequences));
  CalibBatch batch = {.sequences = sequences};
  for (int32_t left = (int32_t)tokens; left > 0;) {
    CalibSequence *sequence = &sequences[batch.n_prefills + batch.n_decodes];
    *sequence = (CalibSequence){.new_tokens = is_rows ? 1 : prompt_tokens(self, left)};
    left -= sequence->new_tokens;
    if (is_rows)
      batch.n_decodes++;
    else
      batch.n_prefills++;
  }
  batch.n_logits = batch.n_decodes;
  const CalibStatus status = lane_set_batch(self, lane, &batch, layers, error);
  free(sequences);
  return status;
}
