/* See memory_plan.h. */
#include "kernels/memory_plan.h"
#include "kernels/fp8.h"
#include "kernels/moe.h"
#include "kernels/sdpa.h"

enum { ELEMENT_BYTES = 2 };
// Tokens of a batch that memory is kept for, and tokens of one layer's KV that must fit.
enum { RESERVED_TOKENS = 16384, LEAST_KV_TOKENS = 4096 };
static const double gib = 1024.0 * 1024 * 1024;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

LayerShape layer_shape(const CalibModel *model) {
  LayerShape shape = {.hidden = model->hidden_size,
                      .head_dim = model->head_dim,
                      .query_heads = calib_query_heads(model),
                      .kv_heads = calib_kv_heads(model),
                      .ffn = calib_ffn(model),
                      .vocab = (calib_vocab(model) + 7) / 8 * 8,
                      .experts = model->num_experts,
                      .picked = model->num_experts > 0 ? model->num_experts_per_tok : 1,
                      .qk_norm = model->qk_norm,
                      .weights = model->weights,
                      .weight_bytes = model->weights == CALIB_WEIGHTS_PLAIN ? ELEMENT_BYTES : 1};
  shape.attention = shape.query_heads * shape.head_dim;
  shape.qkv = (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim;
  shape.up = (model->activation == CALIB_SWIGLU ? 2 : 1) * shape.ffn;
  return shape;
}

int64_t layer_columns(const CalibModel *model, CalibTensor tensor) {
  const int64_t columns = calib_tensor_columns(model, tensor);
  return tensor == TENSOR_LOGITS ? layer_shape(model).vocab : columns;
}

int64_t layer_matrix_elements(const LayerShape *s) {
  const int64_t mlps = s->experts > 0 ? s->experts : 1;
  return (int64_t)s->hidden * (s->qkv + s->attention + mlps * (s->up + s->ffn) + s->experts);
}

int64_t layer_vector_elements(const LayerShape *s) {
  const int64_t of_heads = s->qk_norm ? 2 * s->head_dim : 0;
  return 6 * (int64_t)s->hidden + s->qkv + s->up + of_heads; // two norms with biases, four biases
}

ProductShape layer_product_shape(const LayerShape *s, int product) {
  const ProductShape shapes[] = {
      {s->qkv, s->hidden}, {s->hidden, s->attention}, {s->up, s->hidden}, {s->hidden, s->ffn}};
  return shapes[product];
}

int64_t layer_product_scales(const LayerShape *s, int product) {
  const ProductShape shape = layer_product_shape(s, product);
  if (s->weights == CALIB_WEIGHTS_PLAIN) return 0;
  return fp8_scale_room(fp8_weight_scales(s->weights, shape.n, shape.k));
}

int64_t layer_scales(const LayerShape *s) {
  int64_t scales = 0;
  for (int i = 0; i < 4; i++)
    scales += layer_product_scales(s, i);
  return scales;
}

int64_t token_activation_bytes(const LayerShape *s) {
  const int64_t of_expert = s->up + s->ffn + (s->experts > 0 ? s->hidden : 0);
  return ELEMENT_BYTES *
         (3 * (int64_t)s->hidden + s->qkv + s->attention + s->experts + s->picked * of_expert);
}

/* Columns of the smallest product: of experts those that one token takes. Routers, which are
 * smaller, are not timed alone. */
static int64_t narrowest_columns(const LayerShape *s) {
  const int64_t up = (int64_t)s->picked * s->up, down = (int64_t)s->picked * s->ffn;
  return least(least(s->qkv, s->attention), least(up, down));
}

/* So many that `cache` · 2.5 bytes pass by before one comes again. */
static int64_t copies_past_cache(int64_t bytes, int64_t cache) {
  return divide_up(5 * cache, 2 * bytes);
}

int64_t memory_plan_cold_layers(const MemoryPlan *self, int64_t pages, int64_t cache_bytes) {
  return pages > 0 ? copies_past_cache(pages * self->page_bytes, cache_bytes) : 1;
}

static void plan_weights(MemoryPlan *self, const CalibModel *model, int64_t cache_bytes) {
  const LayerShape shape = layer_shape(model);
  const int64_t hidden_bytes = (int64_t)ELEMENT_BYTES * shape.hidden;
  const int64_t narrowest = narrowest_columns(&shape);
  const int64_t weight_bytes = shape.weight_bytes;
  *self = (MemoryPlan){.matrix_bytes = weight_bytes * layer_matrix_elements(&shape),
                       .scale_bytes = (int64_t)sizeof(float) * layer_scales(&shape),
                       .vector_bytes = ELEMENT_BYTES * layer_vector_elements(&shape),
                       .embedding_bytes = hidden_bytes * shape.vocab,
                       .head_bytes = hidden_bytes * shape.vocab,
                       .page_bytes = (int64_t)ELEMENT_BYTES * 2 * shape.kv_heads * shape.head_dim *
                                     model->block_size};
  if (model->positions == CALIB_LEARNED)
    self->position_bytes = hidden_bytes * model->max_position_embeddings;
  const int64_t copies = copies_past_cache(weight_bytes * shape.hidden * narrowest, cache_bytes);
  self->layers = (int32_t)least(model->num_hidden_layers, greatest(copies, 2));
  self->heads = (int32_t)greatest(1, copies_past_cache(self->head_bytes, cache_bytes));
  self->weight_bytes = self->layers * (self->matrix_bytes + self->scale_bytes) +
                       (self->layers + 1) * self->vector_bytes + self->embedding_bytes +
                       self->position_bytes + self->heads * self->head_bytes;
}

/* Weights, and KV of one layer of LEAST_KV_TOKENS: below this nothing can be measured. */
static int64_t needed_bytes(const MemoryPlan *self, const CalibModel *model) {
  return self->weight_bytes + self->reserved_bytes +
         self->page_bytes * divide_up(LEAST_KV_TOKENS, model->block_size);
}

static bool plan(MemoryPlan *self, const CalibModel *model, int64_t free_bytes,
                 int64_t cache_bytes) {
  plan_weights(self, model, cache_bytes);
  const LayerShape shape = layer_shape(model);
  /* Activations, operands that rotate past the cache, buffers of copies, and a margin for the
   * driver, graphs and libraries. */
  const int64_t wanted = RESERVED_TOKENS * token_activation_bytes(&shape) + 4 * cache_bytes;
  self->reserved_bytes = least(wanted, free_bytes / 4) + free_bytes / 16;
  self->n_pages = (free_bytes - self->weight_bytes - self->reserved_bytes) / self->page_bytes;
  return needed_bytes(self, model) <= free_bytes;
}

static bool is_divisible(const CalibModel *m) {
  const int32_t parts = m->tensor_parallel_size;
  const bool kv_divides =
      m->num_key_value_heads % parts == 0 || parts % m->num_key_value_heads == 0;
  return parts > 0 && m->num_attention_heads % parts == 0 && kv_divides &&
         (m->num_experts > 0 ? m->moe_intermediate_size : m->intermediate_size) % parts == 0;
}

static const char *unsupported_experts(const CalibModel *m) {
  if (m->num_experts == 0) return NULL;
  if (m->num_experts > KERNEL_MOE_EXPERTS || m->num_experts_per_tok > KERNEL_MOE_PER_TOKEN ||
      m->num_experts_per_tok > m->num_experts || m->num_experts_per_tok < 1)
    return "so many experts (up to 512 are, of which a token takes up to 16)";
  return m->bias ? "experts with biases" : NULL;
}

static const char *unsupported_scales(const CalibModel *m) {
  const int32_t depth = m->weights == CALIB_FP8_BLOCK ? FP8_BLOCK : 16;
  const LayerShape shape = layer_shape(m);
  if (m->weights == CALIB_WEIGHTS_PLAIN) return NULL;
  if (m->num_experts > 0) return "experts of 8 bits";
  if (m->bias) return "weights of 8 bits with biases";
  for (int i = 0; i < 4; i++) {
    const ProductShape product = layer_product_shape(&shape, i);
    if (product.n % 16 != 0 || product.k % depth != 0)
      return depth == 16 ? "weights of 8 bits with a side that is no multiple of 16"
                         : "scales of blocks with a depth that is no multiple of 128";
  }
  return NULL;
}

/* Of cuDNN's attention the limit is that of the rotation. */
static const char *unsupported_attention(const CalibModel *m) {
  const bool is_cudnn = m->attention == CALIB_ATTENTION_CUDNN;
  if (!is_cudnn && m->head_dim != 64 && m->head_dim != 128)
    return "this head_dim (64 and 128 are; with attention by cuDNN multiples of 16 up to 256)";
  if (is_cudnn && (m->head_dim % 16 != 0 || m->head_dim > SDPA_HEAD_DIM))
    return "this head_dim with attention by cuDNN (multiples of 16 up to 256 are)";
  if (m->positions != CALIB_ALIBI) return NULL;
  return is_cudnn                                ? "ALiBi with attention by cuDNN"
         : m->attention == CALIB_ATTENTION_WGMMA ? "ALiBi with attention by wgmma"
                                                 : NULL;
}

/* NULL, or what the kernels do not have. */
static const char *unsupported(const CalibModel *m) {
  if (m->dtype == CALIB_FP32) return "fp32 (bf16 and fp16 are)";
  const char *attention = unsupported_attention(m);
  if (attention) return attention;
  if (m->block_size < 16 || (m->block_size & (m->block_size - 1)) != 0)
    return "this block_size (powers of two from 16 are)";
  if (m->hidden_size % 8 != 0 || calib_ffn(m) % 8 != 0)
    return m->num_experts > 0
               ? "a hidden_size or a shard of moe_intermediate_size that is no multiple of 8"
               : "a hidden_size or a shard of intermediate_size that is no multiple of 8";
  if (calib_query_heads(m) % calib_kv_heads(m) != 0)
    return "query heads that are no multiple of key and value heads";
  const char *what = unsupported_experts(m);
  return what ? what : unsupported_scales(m);
}

static CalibStatus say_what_fits(const MemoryPlan *self, const CalibModel *model,
                                 int64_t free_bytes, int64_t cache_bytes, char *error) {
  const double need = (double)needed_bytes(self, model) / gib;
  CalibModel shard = *model;
  MemoryPlan smaller;
  for (shard.tensor_parallel_size *= 2; shard.tensor_parallel_size <= 64;
       shard.tensor_parallel_size *= 2) {
    if (!is_divisible(&shard) || unsupported(&shard)) continue;
    if (!plan(&smaller, &shard, free_bytes, cache_bytes)) continue;
    return calib_failed(CALIB_REJECTED, error,
                        "%d distinct layers of '%s' need %.1f GiB of the %.1f GiB that are free; "
                        "tensor_parallel_size %d fits",
                        (int)self->layers, model->name, need, (double)free_bytes / gib,
                        (int)shard.tensor_parallel_size);
  }
  return calib_failed(
      CALIB_REJECTED, error,
      "%d distinct layers of '%s' need %.1f GiB of the %.1f GiB that are free, and no "
      "tensor_parallel_size fits",
      (int)self->layers, model->name, need, (double)free_bytes / gib);
}

CalibStatus memory_plan_init(MemoryPlan *self, const CalibModel *model, int64_t free_bytes,
                             int64_t cache_bytes, char *error) {
  if (!is_divisible(model))
    return calib_failed(CALIB_REJECTED, error, "'%s' cannot be divided by tensor_parallel_size %d",
                        model->name, (int)model->tensor_parallel_size);
  const char *what = unsupported(model);
  if (what) return calib_failed(CALIB_REJECTED, error, "the kernels do not support %s", what);
  return plan(self, model, free_bytes, cache_bytes)
             ? CALIB_OK
             : say_what_fits(self, model, free_bytes, cache_bytes, error);
}
