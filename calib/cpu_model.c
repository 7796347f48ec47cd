/* Where a model's weights and pages lie. */
#include "calib/cpu_model.h"
#include "base/rng.h"
#include "calib/cpu_gemm.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { ALIGN_FLOATS = 16 };
static const int64_t MIN_POOL_TOKENS = 4096;
static const double MEMORY_SHARE = 0.9; // of what is available: the rest is for others

float *cpu_model_numbers(CpuModel *self, Arena *arena, int64_t floats, double mean,
                         double deviation) {
  const uintptr_t align = ALIGN_FLOATS * sizeof(float);
  char *memory = arena_alloc(arena, (size_t)floats * sizeof(float) + align);
  float *numbers = (float *)(memory + (align - (uintptr_t)memory % align) % align);
  self->seed = self->seed * 6364136223846793005u + 1442695040888963407u;
  cpu_threads_run(
      self->threads, cpu_fill,
      &(CpuFill){
          .out = numbers, .n = floats, .mean = mean, .deviation = deviation, .seed = self->seed});
  return numbers;
}

/* --- weights: one pass counts them, the next, with memory, fills them and sets the pointers. */
typedef struct Placer {
  CpuModel *model;
  int64_t floats;
} Placer;

static const float *place(Placer *self, int64_t floats, double mean, double deviation) {
  float *at = self->model->weights ? self->model->weights + self->floats : NULL;
  self->floats += (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
  CpuModel *model = self->model;
  if (!at) return NULL;
  model->seed++;
  cpu_threads_run(
      model->threads, cpu_fill,
      &(CpuFill){
          .out = at, .n = floats, .mean = mean, .deviation = deviation, .seed = model->seed});
  return at;
}

static const float *place_matrix(Placer *self, int64_t n, int64_t k) {
  return place(self, n * k, 0, 1 / sqrt((double)k));
}

static const float *place_bias(Placer *self, bool is_there, int64_t n) {
  return is_there ? place(self, n, 0, 0.1) : NULL;
}

static void place_layer(Placer *self, CpuLayer *layer) {
  const CpuModel *model = self->model;
  const CalibModel *shape = &model->shape;
  const int64_t hidden = shape->hidden_size, bias = shape->bias;
  const bool norm_bias = shape->norm == CALIB_LAYER_NORM;
  const int64_t attention = (int64_t)model->query_heads * shape->head_dim;
  *layer = (CpuLayer){.norm = place(self, hidden, 1, 0.1),
                      .norm_bias = place_bias(self, norm_bias, hidden),
                      .qkv = place_matrix(self, model->qkv_columns, hidden),
                      .qkv_bias = place_bias(self, bias, model->qkv_columns),
                      .q_norm = shape->qk_norm ? place(self, shape->head_dim, 1, 0.1) : NULL,
                      .k_norm = shape->qk_norm ? place(self, shape->head_dim, 1, 0.1) : NULL,
                      .o = place_matrix(self, hidden, attention),
                      .o_bias = place_bias(self, bias, hidden),
                      .ffn_norm = place(self, hidden, 1, 0.1),
                      .ffn_norm_bias = place_bias(self, norm_bias, hidden),
                      .up = place_matrix(self, model->up_columns, hidden),
                      .up_bias = place_bias(self, bias, model->up_columns),
                      .down = place_matrix(self, hidden, model->ffn),
                      .down_bias = place_bias(self, bias, hidden)};
}

/* All but the layers, which `n_layers` counts. */
static void place_all(Placer *self, int32_t n_layers) {
  CpuModel *model = self->model;
  const CalibModel *shape = &model->shape;
  const int64_t hidden = shape->hidden_size;
  const bool is_learned = shape->positions == CALIB_LEARNED;
  model->embedding = place(self, model->vocab * hidden, 0, 1);
  model->positions = is_learned ? place(self, shape->max_position_embeddings * hidden, 0, 1) : NULL;
  model->final_norm = place(self, hidden, 1, 0.1);
  model->final_norm_bias = place_bias(self, shape->norm == CALIB_LAYER_NORM, hidden);
  model->read_begin = self->floats;
  model->head = place_matrix(self, model->vocab, hidden);
  CpuLayer unused;
  for (int32_t i = 0; i < n_layers; i++)
    place_layer(self, model->weights ? &model->layers[i] : &unused);
}

static int64_t count_floats(CpuModel *model, int32_t n_layers) {
  Placer counter = {.model = model};
  assert(!model->weights);
  place_all(&counter, n_layers);
  return counter.floats;
}

/* --- whether it can be run */
static CalibStatus reject(char *error, const char *text) {
  return calib_failed(CALIB_REJECTED, error, "%s", text);
}

static CalibStatus check_shape(const CalibModel *shape, char *error) {
  if (shape->dtype != CALIB_FP32)
    return reject(error, "the cpu backend computes in fp32 only: choose '--dtype fp32'");
  if (shape->head_dim % CPU_LANES != 0 || shape->head_dim > CPU_MAX_HEAD_DIM)
    return reject(error, "the cpu backend needs a head_dim that is a multiple of 16, at most 256");
  if (shape->block_size % CPU_LANES != 0)
    return reject(error, "the cpu backend needs a block_size that is a multiple of 16");
  if (calib_query_heads(shape) % calib_kv_heads(shape) != 0)
    return reject(error, "num_key_value_heads does not divide num_attention_heads");
  if (shape->weights != CALIB_WEIGHTS_PLAIN)
    return reject(error, "the cpu backend does not support weights of 8 bits");
  if (shape->attention != CALIB_ATTENTION_OWN)
    return reject(error, "the cpu backend has only its own attention: '--attention tandem'");
  if (shape->num_experts > 0) return reject(error, "the cpu backend does not support experts");
  return CALIB_OK;
}

static void set_shape(CpuModel *self, const CalibModel *shape) {
  self->shape = *shape;
  self->kv = (CpuKvShape){.kv_heads = calib_kv_heads(shape),
                          .head_dim = shape->head_dim,
                          .block_size = shape->block_size};
  self->query_heads = calib_query_heads(shape);
  self->ffn = calib_ffn(shape);
  self->up_columns = shape->activation == CALIB_SWIGLU ? 2 * self->ffn : self->ffn;
  self->vocab = calib_vocab(shape);
  self->qkv_columns = (self->query_heads + 2 * self->kv.kv_heads) * shape->head_dim;
}

/* Layers that exceed the cache twice, at most all. */
static int32_t layers_to_keep(CpuModel *self, int64_t cache_bytes) {
  const int64_t bytes = (count_floats(self, 2) - count_floats(self, 1)) * (int64_t)sizeof(float);
  const int64_t layers = 2 * cache_bytes / bytes + 1;
  return layers < self->shape.num_hidden_layers ? (int32_t)layers : self->shape.num_hidden_layers;
}

/* Where all layers are kept, an iteration reads the head between two uses of one of them. */
static int32_t spares_to_keep(CpuModel *self, int32_t layers) {
  const int64_t head = (int64_t)self->vocab * self->shape.hidden_size;
  const int64_t layer = count_floats(self, 2) - count_floats(self, 1);
  return layers < self->shape.num_hidden_layers ? 0 : (int32_t)((head + layer / 2) / layer);
}

static double needed_bytes(CpuModel *self, int64_t cache_bytes) {
  const int32_t kept = layers_to_keep(self, cache_bytes);
  const int32_t layers = kept + spares_to_keep(self, kept);
  const double kv = (double)MIN_POOL_TOKENS / self->kv.block_size *
                    (double)cpu_kv_page_floats(&self->kv) * layers;
  return ((double)count_floats(self, layers) + kv) * (double)sizeof(float);
}

/* The least tensor_parallel_size whose shard fits, 0: none. */
static int32_t find_shard(const CpuModel *self, int64_t cache_bytes, double available) {
  for (int32_t tp = self->shape.tensor_parallel_size + 1; tp <= self->query_heads; tp++) {
    CalibModel shape = self->shape;
    if (shape.num_attention_heads % tp != 0 || shape.intermediate_size % tp != 0) continue;
    if (shape.num_key_value_heads % tp != 0 && tp % shape.num_key_value_heads != 0) continue;
    shape.tensor_parallel_size = tp;
    CpuModel shard = {0};
    set_shape(&shard, &shape);
    if (needed_bytes(&shard, cache_bytes) <= available) return tp;
  }
  return 0;
}

static CalibStatus check_memory(CpuModel *self, int64_t cache_bytes, int64_t available_bytes,
                                char *error) {
  const double available = MEMORY_SHARE * (double)available_bytes, gib = 1 << 30;
  const double needed = needed_bytes(self, cache_bytes);
  if (needed <= available) return CALIB_OK;
  const int32_t tp = find_shard(self, cache_bytes, available);
  char advice[64] = "no shard fits";
  if (tp > 0) snprintf(advice, sizeof advice, "tensor_parallel_size %d fits", (int)tp);
  return calib_failed(
      CALIB_REJECTED, error,
      "model '%s' needs %.1f GiB of memory on each of %d devices, and %.1f GiB are available; "
      "%s",
      self->shape.name, needed / gib, (int)self->shape.tensor_parallel_size, available / gib,
      advice);
}

/* --- life */
static void set_slopes(CpuModel *self) {
  if (self->shape.positions != CALIB_ALIBI) return;
  float *slopes = ARENA_ARRAY(&self->arena, float, self->query_heads);
  for (int32_t h = 0; h < self->query_heads; h++)
    slopes[h] = (float)calib_alibi_slope(&self->shape, h);
  self->slopes = slopes;
}

CalibStatus cpu_model_open(CpuModel *self, const CalibModel *shape, CpuThreads *threads,
                           const CpuBlas *blas, int64_t cache_bytes, int64_t available_bytes,
                           uint64_t seed, char *error) {
  *self = (CpuModel){.threads = threads, .blas = blas, .seed = seed};
  CalibStatus status = check_shape(shape, error);
  if (status) return status;
  set_shape(self, shape);
  status = check_memory(self, cache_bytes, available_bytes, error);
  if (status) return status;
  arena_init(&self->arena);
  arena_init(&self->pool_arena);
  arena_init(&self->activation_arena);
  self->n_layers = layers_to_keep(self, cache_bytes);
  self->n_spares = spares_to_keep(self, self->n_layers);
  const int32_t layers = self->n_layers + self->n_spares;
  self->weight_floats = count_floats(self, layers);
  self->read_floats = count_floats(self, self->n_layers) - self->read_begin;
  self->layers = ARENA_ARRAY(&self->arena, CpuLayer, layers);
  self->weights = cpu_model_numbers(self, &self->arena, self->weight_floats, 0, 1);
  place_all(&(Placer){.model = self}, layers);
  set_slopes(self);
  return cpu_model_reserve_pages(self, MIN_POOL_TOKENS / shape->block_size, available_bytes, error);
}

void cpu_model_close(CpuModel *self) {
  arena_done(&self->activation_arena);
  arena_done(&self->pool_arena);
  arena_done(&self->arena);
  *self = (CpuModel){0};
}

static CalibStatus check_room(double bytes, int64_t available_bytes, const char *what,
                              char *error) {
  if (bytes <= MEMORY_SHARE * (double)available_bytes) return CALIB_OK;
  const double gib = 1 << 30;
  return calib_failed(CALIB_OUT_OF_MEMORY, error,
                      "%s need %.1f GiB of memory, and %.1f GiB are available", what, bytes / gib,
                      (double)available_bytes / gib);
}

CalibStatus cpu_model_reserve_pages(CpuModel *self, int64_t pages, int64_t available_bytes,
                                    char *error) {
  if (pages <= self->pool_pages) return CALIB_OK;
  const int64_t page_floats = cpu_kv_page_floats(&self->kv);
  const int64_t all_floats = self->n_layers * pages * page_floats;
  CalibStatus status =
      check_room((double)all_floats * (double)sizeof(float), available_bytes, "its pages", error);
  if (status) return status;
  arena_done(&self->pool_arena);
  self->pool = cpu_model_numbers(self, &self->pool_arena, all_floats, 0, 1);
  self->pool_pages = pages;
  self->shuffled = ARENA_ARRAY(&self->pool_arena, int32_t, pages);
  Rng rng;
  rng_init(&rng, self->seed, "pages");
  for (int64_t i = 0; i < pages; i++) {
    const int64_t other = (int64_t)rng_below(&rng, (uint64_t)i + 1);
    self->shuffled[i] = self->shuffled[other];
    self->shuffled[other] = (int32_t)i;
  }
  return CALIB_OK;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Bytes of all, or, with an arena, the memory itself. */
static void place_activations(CpuModel *self, CpuActivations *room) {
  Arena *arena = &self->activation_arena;
  const int64_t hidden = self->shape.hidden_size, t = room->tokens, rows = room->rows;
  room->residual = cpu_model_numbers(self, arena, t * hidden, 0, 1);
  room->normed = cpu_model_numbers(self, arena, t * hidden, 0, 1);
  room->delta = cpu_model_numbers(self, arena, t * hidden, 0, 1);
  room->qkv = cpu_model_numbers(self, arena, t * self->qkv_columns, 0, 1);
  room->attention = cpu_model_numbers(self, arena, t * self->query_heads * self->kv.head_dim, 0, 1);
  room->up = cpu_model_numbers(self, arena, t * self->up_columns, 0, 1);
  room->ffn = cpu_model_numbers(self, arena, t * self->ffn, 0, 1);
  room->head_in = cpu_model_numbers(self, arena, rows * hidden, 0, 1);
  room->head_normed = cpu_model_numbers(self, arena, rows * hidden, 0, 1);
  room->logits = cpu_model_numbers(self, arena, rows * self->vocab, 0, 1);
  room->gathered = cpu_model_numbers(self, arena, room->gathered_floats, 0, 1);
  room->partial = cpu_model_numbers(self, arena, room->partial_floats, 0, 1);
  room->argmax = ARENA_ARRAY(arena, int32_t, rows);
  room->argmax_parts = ARENA_ARRAY(arena, int64_t, rows * cpu_threads_count(self->threads));
}

CalibStatus cpu_model_reserve(CpuModel *self, const CpuActivations *need, int64_t available_bytes,
                              char *error) {
  const CpuActivations *now = &self->activations;
  if (need->tokens <= now->tokens && need->rows <= now->rows &&
      need->gathered_floats <= now->gathered_floats && need->partial_floats <= now->partial_floats)
    return CALIB_OK;
  CpuActivations room = {
      .tokens = greater(need->tokens, now->tokens),
      .rows = greater(need->rows, now->rows),
      .gathered_floats = greater(need->gathered_floats, now->gathered_floats),
      .partial_floats = greater(need->partial_floats, now->partial_floats),
  };
  const double per_token = 3.0 * self->shape.hidden_size + self->qkv_columns + self->up_columns +
                           self->ffn + (double)self->query_heads * self->kv.head_dim;
  const double floats = (double)room.tokens * per_token +
                        (double)room.rows * (2.0 * self->shape.hidden_size + self->vocab) +
                        (double)room.gathered_floats + (double)room.partial_floats;
  CalibStatus status =
      check_room(floats * (double)sizeof(float), available_bytes, "its activations", error);
  if (status) return status;
  arena_done(&self->activation_arena);
  place_activations(self, &room);
  self->activations = room;
  return CALIB_OK;
}

const float *cpu_model_slice(CpuModel *self, int64_t floats) {
  assert(floats <= self->read_floats);
  if (self->cursor + floats > self->read_floats) self->cursor = 0;
  const float *slice = self->weights + self->read_begin + self->cursor;
  self->cursor += (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
  return slice;
}
