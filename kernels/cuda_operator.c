/* Single operators and copies. A cold operator has as many sets of operands as it takes to stream
 * past the cache before one comes again, and runs over them in turn. Of a product only the weights
 * rotate: in a layer its input was written just before. */
#include "kernels/cuda_state.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_COPIES = 1024 };
// Host memory that is pinned at once; a reload of more weights goes over it several times.
static const int64_t MAX_PINNED_BYTES = INT64_C(1) << 30;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t round_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

int64_t operator_half_bytes(const CudaWork *work) {
  return round_up(work->size);
}

// --- preparing ---------------------------------------------------------------------------------

/* What of an operator on vectors rotates, as it lies in a set: what one run reads and writes. */
static const struct {
  int n;
  CalibTensor at[3];
} ROTATING[CALIB_N_OPS] = {
    [CALIB_NORM] = {3, {TENSOR_NORMED, TENSOR_RESIDUAL, TENSOR_ADDED}},
    [CALIB_ROPE_APPEND] = {1, {TENSOR_QKV}},
    [CALIB_ACTIVATION] = {2, {TENSOR_UP, TENSOR_ACTIVE}},
    [CALIB_EMBEDDING] = {1, {TENSOR_RESIDUAL}},
    [CALIB_ARGMAX] = {1, {TENSOR_LOGITS}},
    [CALIB_MOE_ROUTING] = {1, {TENSOR_ROUTER_LOGITS}},
    [CALIB_MOE_COMBINE] = {2, {TENSOR_EXPERT_OUT, TENSOR_ADDED}},
};

/* Bytes of the first `n` operands of a set. */
static int64_t operand_bytes(const CudaState *self, int n) {
  int64_t bytes = 0;
  for (int i = 0; i < n; i++) {
    const CalibTensor tensor = ROTATING[self->work.op].at[i];
    const int64_t rows = self->work.size * calib_rows_of_token(&self->model, tensor);
    bytes += round_up(2 * rows * layer_columns(&self->model, tensor));
  }
  return bytes;
}

CudaLane operator_lane(const CudaState *self, int64_t set) {
  CudaLane lane = self->main;
  char *at = (char *)self->rotation.data + set * self->work.operand_bytes;
  for (int i = 0; i < ROTATING[self->work.op].n; i++)
    lane.tensors[ROTATING[self->work.op].at[i]].data = at + operand_bytes(self, i);
  return lane;
}

/* How many sets pass 2.5 times the cache, and memory for them. */
static CalibStatus make_rotation(CudaState *self, char *error) {
  CudaWork *work = &self->work;
  const int64_t bytes = work->operand_bytes;
  work->copies = 1;
  if (bytes == 0) return CALIB_OK;
  if (!work->hot)
    work->copies =
        (int32_t)least(MAX_COPIES, (5 * self->device.cache_bytes / 2 + bytes - 1) / bytes);
  if (work->copies < 1) work->copies = 1;
  TRY(buffer_reserve(&self->rotation, work->copies * bytes, error));
  return CUDA_STATUS(kernel_fill_normal(self->main.stream, self->model.dtype, self->rotation.data,
                                        work->copies * bytes / 2, 1.0f,
                                        self->options.seed * 32 + 31));
}

/* Weights rotate over the distinct layers, which are enough for the smallest product. */
static void rotate_weights(CudaState *self) {
  const bool is_head = self->work.op == CALIB_GEMM_HEAD;
  self->work.copies = self->work.hot ? 1 : is_head ? self->memory.heads : self->memory.layers;
}

/* Random pages of the pool, as of one sequence that was written long ago. */
static CalibStatus prepare_pages(CudaState *self, char *error) {
  CudaWork *work = &self->work;
  const int64_t n = work->size;
  const CalibSequence sequence = {.new_tokens = 1};
  const CalibBatch batch = {.sequences = &sequence, .n_decodes = 1};
  if (n < 1 || n > self->memory.n_pages)
    return calib_failed(CALIB_OUT_OF_MEMORY, error,
                        "%lld pages of KV of a layer do not fit, at most %lld do", (long long)n,
                        (long long)self->memory.n_pages);
  /* The parts of the pool are divided as for a batch of that many pages, and are so many that they
   * pass the cache before one comes again. */
  const int64_t cold =
      least(MAX_COPIES, memory_plan_cold_layers(&self->memory, n, self->device.cache_bytes));
  const int32_t layers = self->model.num_hidden_layers;
  TRY(lane_set_batch(self, &self->main, &batch, cold > layers ? (int32_t)cold : layers, error));
  BatchLayout *layout = &self->main.layout;
  layout->kv_layers = (int32_t)least(layout->kv_layers, self->memory.n_pages / n);
  layout->part_pages = self->memory.n_pages / layout->kv_layers;
  if (layout->part_pages >= INT32_MAX) layout->part_pages = INT32_MAX - 1;
  int32_t *pages = must(malloc((size_t)n * sizeof *pages));
  draw_pages(pages, n, layout->part_pages, self->options.seed + 7);
  TRY(lane_give(&self->main, &self->pages, pages, (size_t)n * sizeof *pages, error));
  work->copies = work->hot ? 1 : layout->kv_layers;
  const int64_t bytes = n * self->memory.page_bytes;
  return work->op == CALIB_KV_OUT ? pinned_reserve(&self->pinned, bytes, error)
                                  : buffer_reserve(&self->copy, bytes, error);
}

static CalibStatus pageable_reserve(CudaBuffer *self, int64_t bytes, char *error) {
  if (self->bytes >= (size_t)bytes) return CALIB_OK;
  free(self->data);
  *self = (CudaBuffer){.data = malloc((size_t)bytes)};
  if (!self->data)
    return calib_failed(CALIB_OUT_OF_MEMORY, error, "cannot allocate %.2f GiB of host memory",
                        (double)bytes / (1024.0 * 1024 * 1024));
  memset(self->data, 0x3c, (size_t)bytes);
  self->bytes = (size_t)bytes;
  return CALIB_OK;
}

static CalibStatus open_back(CudaState *self, char *error) {
  if (!self->back) CUDA_TRY(cudaStreamCreateWithFlags(&self->back, cudaStreamNonBlocking));
  if (!self->back_end) CUDA_TRY(cudaEventCreate(&self->back_end));
  return CALIB_OK;
}

/* The weights that a reload brings are those of the first layers, so that they stay weights. */
static CalibStatus prepare_reload(CudaState *self, char *error) {
  const int64_t all = self->memory.layers * self->memory.matrix_bytes;
  const int64_t bytes = least(least(self->work.size, MAX_PINNED_BYTES), all);
  self->work.operand_bytes = bytes;
  TRY(pinned_reserve(&self->pinned, bytes, error));
  return CUDA_STATUS(
      cudaMemcpy(self->pinned.data, self->matrices.data, (size_t)bytes, cudaMemcpyDeviceToHost));
}

static CalibStatus prepare_copy(CudaState *self, char *error) {
  CudaWork *work = &self->work;
  const int64_t bytes = work->size;
  work->copies = 1;
  if (bytes < 1)
    return calib_failed(CALIB_REJECTED, error, "a copy of %lld bytes is not supported",
                        (long long)bytes);
  switch (work->op) {
  case CALIB_WEIGHT_RELOAD:
    return prepare_reload(self, error);
  case CALIB_COPY_PAGEABLE:
    TRY(pageable_reserve(&self->pageable, bytes, error));
    return buffer_reserve(&self->copy, bytes, error);
  case CALIB_COPY_H2D:
  case CALIB_COPY_D2H:
  case CALIB_COPY_BOTH:
    if (work->op == CALIB_COPY_BOTH) TRY(open_back(self, error));
    TRY(pinned_reserve(&self->pinned, 2 * round_up(bytes), error));
    return buffer_reserve(&self->copy, 2 * round_up(bytes), error);
  case CALIB_COPY_D2D:
    work->operand_bytes = 2 * round_up(bytes);
    return make_rotation(self, error);
  default: // CALIB_COPY_PEER
    TRY(buffer_reserve(&self->copy, bytes, error));
    return peer_reserve(self, bytes, error);
  }
}

CalibStatus operator_prepare(CudaState *self, char *error) {
  CudaWork *work = &self->work;
  switch (work->op) {
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
  case CALIB_KV_OUT:
    return prepare_pages(self, error);
  case CALIB_ALL_REDUCE:
  case CALIB_ALL_REDUCE_PEER:
    return group_prepare(self, error);
  default:
    break;
  }
  if (!calib_is_captured(work->op)) return prepare_copy(self, error);
  TRY(lane_set_tokens(self, &self->main, work->op, work->size, self->model.num_hidden_layers,
                      error));
  work->operand_bytes = operand_bytes(self, ROTATING[work->op].n);
  if (work->operand_bytes > 0) return make_rotation(self, error);
  rotate_weights(self);
  return CALIB_OK;
}

// --- running -----------------------------------------------------------------------------------

static CalibStatus run_vectors(CudaState *self, int64_t set, char *error) {
  CudaLane lane = operator_lane(self, set);
  const CudaLayer weights = model_layer(self, 0);
  const int64_t first = set * self->work.size % (CUDA_IDS - self->work.size + 1);
  switch (self->work.op) {
  case CALIB_NORM:
    return layer_norm(self, &lane, &weights, 0, false, error);
  case CALIB_ROPE_APPEND:
    return layer_rope_append(self, &lane, set, error);
  case CALIB_ACTIVATION:
    return layer_activation(self, &lane, error);
  case CALIB_EMBEDDING:
    return layer_embed(self, &lane, first, error);
  case CALIB_MOE_ROUTING:
  case CALIB_MOE_COMBINE:
    return moe_run(self, &lane, self->work.op, 0, error);
  default:
    return layer_argmax(self, &lane, error);
  }
}

static CalibStatus run_pages(CudaState *self, int64_t set, char *error) {
  CudaLane *lane = &self->main;
  void *layer = model_kv(self, &lane->layout, set);
  const int32_t n = (int32_t)self->work.size;
  const int64_t bytes = self->memory.page_bytes;
  if (self->work.op == CALIB_KV_SCATTER)
    CUDA_TRY(kernel_kv_scatter(lane->stream, layer, self->copy.data, self->pages.data, n, bytes));
  else
    CUDA_TRY(kernel_kv_gather(lane->stream,
                              self->work.op == CALIB_KV_OUT ? self->pinned.data : self->copy.data,
                              layer, self->pages.data, n, bytes));
  return CALIB_OK;
}

/* Layer by layer, each as far as the pinned memory goes. */
static CalibStatus run_reload(CudaState *self, char *error) {
  const int64_t layer_bytes = self->memory.matrix_bytes;
  int64_t layer = 0, at = 0;
  for (int64_t left = self->work.size; left > 0;) {
    const int64_t bytes = least(least(left, layer_bytes - at), self->work.operand_bytes);
    char *to = (char *)self->matrices.data + layer % self->memory.layers * layer_bytes + at;
    CUDA_TRY(cudaMemcpyAsync(to, self->pinned.data, (size_t)bytes, cudaMemcpyHostToDevice,
                             self->main.stream));
    left -= bytes;
    at += bytes;
    if (at < layer_bytes) continue;
    layer++;
    at = 0;
  }
  return CALIB_OK;
}

/* The way back runs on a stream of its own, which measuring joins to this one. */
static CalibStatus run_both(CudaState *self, char *error) {
  const size_t bytes = (size_t)self->work.size, half = (size_t)operator_half_bytes(&self->work);
  CUDA_TRY(cudaMemcpyAsync(self->copy.data, self->pinned.data, bytes, cudaMemcpyHostToDevice,
                           self->main.stream));
  return CUDA_STATUS(cudaMemcpyAsync((char *)self->pinned.data + half,
                                     (char *)self->copy.data + half, bytes, cudaMemcpyDeviceToHost,
                                     self->back));
}

static CalibStatus run_copy(CudaState *self, int64_t set, char *error) {
  const size_t bytes = (size_t)self->work.size;
  cudaStream_t stream = self->main.stream;
  switch (self->work.op) {
  case CALIB_COPY_H2D:
    return CUDA_STATUS(
        cudaMemcpyAsync(self->copy.data, self->pinned.data, bytes, cudaMemcpyHostToDevice, stream));
  case CALIB_COPY_D2H:
    return CUDA_STATUS(
        cudaMemcpyAsync(self->pinned.data, self->copy.data, bytes, cudaMemcpyDeviceToHost, stream));
  case CALIB_COPY_PAGEABLE:
    return CUDA_STATUS(cudaMemcpyAsync(self->copy.data, self->pageable.data, bytes,
                                       cudaMemcpyHostToDevice, stream));
  case CALIB_COPY_D2D: {
    char *from = (char *)self->rotation.data + set * self->work.operand_bytes;
    return CUDA_STATUS(cudaMemcpyAsync(from + self->work.operand_bytes / 2, from, bytes,
                                       cudaMemcpyDeviceToDevice, stream));
  }
  case CALIB_COPY_BOTH:
    return run_both(self, error);
  case CALIB_WEIGHT_RELOAD:
    return run_reload(self, error);
  default: // CALIB_COPY_PEER
    CUDA_TRY(cudaMemcpyPeerAsync(self->peer.data, peer_device(self), self->copy.data,
                                 self->options.device, bytes, stream));
    return CALIB_OK;
  }
}

CalibStatus operator_run(CudaState *self, int64_t repetition, char *error) {
  const int64_t set = repetition % self->work.copies;
  switch (self->work.op) {
  case CALIB_GEMM_QKV:
  case CALIB_GEMM_O:
  case CALIB_GEMM_UP:
  case CALIB_GEMM_DOWN:
  case CALIB_GEMM_HEAD:
    return layer_product(self, &self->main, self->work.op, set, error);
  case CALIB_MOE_GEMM_UP:
  case CALIB_MOE_GEMM_DOWN:
    return moe_run(self, &self->main, self->work.op, set, error);
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
  case CALIB_KV_OUT:
    return run_pages(self, set, error);
  case CALIB_ALL_REDUCE:
  case CALIB_ALL_REDUCE_PEER:
    return group_run(self, error);
  default:
    return !calib_is_captured(self->work.op) ? run_copy(self, set, error)
                                             : run_vectors(self, set, error);
  }
}
