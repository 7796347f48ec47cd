/* Weights and KV of a model: random normal numbers made on the device, of deviation 0.02 for
 * matrices and 1 for norms and KV, so that activations keep the size that they have in real models
 * and matrix units draw the power that they draw there. */
#include "kernels/cuda_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double WEIGHT_DEVIATION = 0.02;

static const char *element(const char *base, int64_t i) {
  return base + 2 * i;
}

/* Matrices in the order of the products, the router's last. Vectors: norms with their biases, the
 * biases of the products, norms of q and k. */
CudaLayer model_layer(const CudaState *self, int64_t layer) {
  const LayerShape *s = &self->shape;
  const int64_t ix = layer % self->memory.layers, h = s->hidden;
  const int64_t mlps = s->experts > 0 ? s->experts : 1;
  const int64_t matrices[] = {h * s->qkv, h * s->attention, mlps * h * s->up, mlps * h * s->ffn};
  const int64_t biases[] = {s->qkv, h, s->up, h};
  const char *matrix = (const char *)self->matrices.data + ix * self->memory.matrix_bytes;
  const char *vector = (const char *)self->vectors.data + ix * self->memory.vector_bytes;
  const float *scales = (const float *)self->scales.data + ix * layer_scales(s);
  CudaLayer weights = {0};
  for (int i = 0; i < 2; i++) {
    weights.norms[i] = element(vector, i * h);
    if (self->model.norm == CALIB_LAYER_NORM) weights.norm_biases[i] = element(vector, (2 + i) * h);
  }
  vector = element(vector, 4 * h);
  for (int i = 0; i < 4; i++) {
    weights.products[i] = matrix;
    if (self->model.bias) weights.product_biases[i] = vector;
    matrix += s->weight_bytes * matrices[i];
    vector = element(vector, biases[i]);
    weights.scales[i] = scales;
    scales += layer_product_scales(s, i);
  }
  if (s->experts > 0) weights.router = matrix;
  if (self->model.qk_norm) weights.q_norm = vector;
  if (self->model.qk_norm) weights.k_norm = element(vector, s->head_dim);
  return weights;
}

const void *model_head(const CudaState *self, int64_t copy) {
  return (const char *)self->heads.data + copy % self->memory.heads * self->memory.head_bytes;
}

void *model_kv(const CudaState *self, const BatchLayout *layout, int64_t layer) {
  return (char *)self->kv.data +
         layer % layout->kv_layers * layout->part_pages * self->memory.page_bytes;
}

/* Without its pages. */
static KernelAttention attention_of(const CudaState *self) {
  return (KernelAttention){.dtype = self->model.dtype,
                           .query_heads = self->shape.query_heads,
                           .kv_heads = self->shape.kv_heads,
                           .head_dim = self->shape.head_dim,
                           .block_size = self->model.block_size,
                           .scale = (float)(1 / sqrt(self->shape.head_dim)),
                           .alibi_slopes = self->slopes.data};
}

KernelAttention model_attention(const CudaState *self, const CudaLane *lane, int64_t layer) {
  KernelAttention attention = attention_of(self);
  attention.kv_pages = model_kv(self, &lane->layout, layer);
  attention.page_table = lane->batch.page_table;
  attention.max_pages = lane->layout.max_pages;
  return attention;
}

void model_unload(CudaState *self) {
  CudaBuffer *buffers[] = {&self->matrices, &self->vectors,    &self->embedding, &self->positions,
                           &self->heads,    &self->kv,         &self->slopes,    &self->ids,
                           &self->scales,   &self->input_scale};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
    buffer_release(buffers[i]);
  self->is_loaded = false;
}

static CalibStatus fill(CudaState *self, CudaBuffer *buffer, int64_t bytes, double deviation,
                        uint64_t stream, char *error) {
  if (bytes == 0) return CALIB_OK;
  TRY(buffer_reserve(buffer, bytes, error));
  return CUDA_STATUS(kernel_fill_normal(self->main.stream, self->model.dtype, buffer->data,
                                        bytes / 2, (float)deviation,
                                        self->options.seed * 16 + stream));
}

static CalibStatus make_slopes(CudaState *self, char *error) {
  const int32_t n = self->shape.query_heads;
  if (self->model.positions != CALIB_ALIBI) return CALIB_OK;
  float *slopes = must(malloc((size_t)n * sizeof *slopes));
  for (int32_t i = 0; i < n; i++)
    slopes[i] = (float)calib_alibi_slope(&self->model, i);
  return lane_give(&self->main, &self->slopes, slopes, (size_t)n * sizeof *slopes, error);
}

static CalibStatus make_ids(CudaState *self, char *error) {
  int32_t *ids = must(malloc(CUDA_IDS * sizeof *ids));
  uint64_t state = self->options.seed + 1;
  for (int32_t i = 0; i < CUDA_IDS; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's multiplier
    ids[i] = (int32_t)((state >> 33) % (uint64_t)self->shape.vocab);
  }
  return lane_give(&self->main, &self->ids, ids, CUDA_IDS * sizeof *ids, error);
}

static CalibStatus load_attention(CudaState *self, char *error) {
  const KernelAttention attention = attention_of(self);
  self->wgmma_blocks = 0;
  if (attention_is_cudnn(self)) return sdpa_prepare_model(self, error);
  CUDA_TRY(kernel_attention_load(&attention, &self->residency));
  if (self->model.attention != CALIB_ATTENTION_WGMMA) return CALIB_OK;
  if (self->device.sm == 90) CUDA_TRY(kernel_attention_wgmma_load(&attention, &self->wgmma_blocks));
  if (self->wgmma_blocks > 0) return CALIB_OK;
  return calib_failed(CALIB_REJECTED, error, "attention by wgmma needs compute capability 9.0");
}

static CalibStatus make_tensors(CudaState *self, char *error) {
  const MemoryPlan *memory = &self->memory;
  const double w = WEIGHT_DEVIATION;
  if (self->model.weights != CALIB_WEIGHTS_PLAIN)
    TRY(fp8_make_weights(self, error));
  else
    TRY(fill(self, &self->matrices, memory->layers * memory->matrix_bytes, w, 0, error));
  TRY(fill(self, &self->vectors, (memory->layers + 1) * memory->vector_bytes, 1, 1, error));
  TRY(fill(self, &self->embedding, memory->embedding_bytes, 1, 2, error));
  TRY(fill(self, &self->positions, memory->position_bytes, 1, 3, error));
  TRY(fill(self, &self->heads, memory->heads * memory->head_bytes, w, 4, error));
  TRY(fill(self, &self->kv, memory->n_pages * memory->page_bytes, 1, 5, error));
  TRY(make_slopes(self, error));
  TRY(make_ids(self, error));
  TRY(load_attention(self, error));
  if (self->shape.experts > 0) CUDA_TRY(kernel_moe_load(self->model.dtype));
  return CUDA_STATUS(cudaStreamSynchronize(self->main.stream));
}

static CalibStatus load(CudaState *self, char *error) {
  size_t free_bytes = 0, all_bytes = 0;
  const char *missing = gemm_missing(self->model.weights, self->device.sm);
  if (missing) return calib_failed(CALIB_REJECTED, error, "%s", missing);
  CUDA_TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  TRY(memory_plan_init(&self->memory, &self->model, (int64_t)free_bytes, self->device.cache_bytes,
                       error));
  self->shape = layer_shape(&self->model);
  return make_tensors(self, error);
}

/* Activations of a model before are given back first: the plan counts on free memory. */
static void release_activations(CudaState *self) {
  for (int i = 0; i < CUDA_N_TENSORS; i++) {
    buffer_release(&self->main.tensors[i]);
    buffer_release(&self->side.tensors[i]);
  }
  buffer_release(&self->rotation);
  buffer_release(&self->copy);
}

CalibStatus model_load(void *state, const CalibModel *model, char *error) {
  CudaState *self = state;
  work_end(self);
  model_unload(self);
  release_activations(self);
  self->model = *model;
  const CalibStatus status = load(self, error);
  self->is_loaded = status == CALIB_OK;
  if (!self->is_loaded) model_unload(self);
  return status;
}
