/* What of a model is put into a device's memory: how many distinct layers, how much KV. No CUDA
 * needed.
 *
 * A run goes over all layers of the model; they are few distinct ones in turn. There are so many
 * that even the smallest product does not meet its own weights in the cache again. What remains
 * after the weights and room for activations is one pool of KV, which each batch divides into as
 * many distinct layers as fit. */
#ifndef KERNELS_MEMORY_PLAN_H
#define KERNELS_MEMORY_PLAN_H
#include "calib/backend.h"

/* Columns of a shard's tensors, in elements. */
typedef struct LayerShape {
  int32_t hidden, head_dim, query_heads, kv_heads;
  int32_t attention; // query_heads · head_dim
  int32_t qkv;       // (query_heads + 2·kv_heads) · head_dim
  int32_t ffn, up;   // up: 2·ffn with a gate
  int32_t vocab;     // rounded up to a multiple of 8
  int32_t experts;   // each of `ffn` columns; 0: one MLP
  int32_t picked;    // experts of a token; 1 without any
  bool qk_norm;
  CalibWeights weights;
  int32_t weight_bytes; // of an element of a layer's products
} LayerShape;

LayerShape layer_shape(const CalibModel *model);
/* Of a tensor as the kernels have it: there is room for some more words. */
int64_t layer_columns(const CalibModel *model, CalibTensor tensor);
/* Elements of the matrices of a layer, the MLP's those of all experts, and of its norms and
 * biases. */
int64_t layer_matrix_elements(const LayerShape *shape);
int64_t layer_vector_elements(const LayerShape *shape);
/* Columns and depth of one of the four products, in their order; scales of one's weights, and of
 * all. */
typedef struct ProductShape {
  int32_t n, k;
} ProductShape;
ProductShape layer_product_shape(const LayerShape *shape, int product);
int64_t layer_product_scales(const LayerShape *shape, int product);
int64_t layer_scales(const LayerShape *shape);
/* Of all activations of one token of a batch, logits apart. */
int64_t token_activation_bytes(const LayerShape *shape);

typedef struct MemoryPlan {
  int32_t layers, heads; // distinct ones
  int64_t matrix_bytes;  // of one layer
  int64_t vector_bytes;  // of one layer, and of the final norm
  int64_t scale_bytes;   // of one layer's weights of 8 bits
  int64_t embedding_bytes, position_bytes, head_bytes;
  int64_t weight_bytes; // all of the above
  int64_t reserved_bytes;
  int64_t page_bytes, n_pages; // of KV of a layer; pages in the pool
} MemoryPlan;

/* Checks that the kernels have this shape and divides free_bytes. CALIB_REJECTED otherwise: `error`
 * says which tensor_parallel_size would fit, if one would. */
CalibStatus memory_plan_init(MemoryPlan *self, const CalibModel *model, int64_t free_bytes,
                             int64_t cache_bytes, char *error);
/* How many layers with `pages` of KV each pass 2.5 times the cache. */
int64_t memory_plan_cold_layers(const MemoryPlan *self, int64_t pages, int64_t cache_bytes);
#endif
