/* A model's shard in the memory of a CPU: weights, KV pool, and room for the activations of a
 * batch.
 *
 * What is measured on its own must find its operands as an iteration does: with as much else read
 * since they were last used. So the layers without the head rotate over some spare ones, and single
 * products over slices of all weights that an iteration reads. Of a model with many layers only as
 * many are kept as exceed the last-level cache twice; they are then used in turn. The pool holds
 * one set of pages per layer that is kept; a batch gets pages in a shuffled order. */
#ifndef CALIB_CPU_MODEL_H
#define CALIB_CPU_MODEL_H
#include "calib/cpu_blas.h"
#include "calib/cpu_ops.h"

/* Norms, products and their biases; NULL: none. */
typedef struct CpuLayer {
  const float *norm, *norm_bias, *qkv, *qkv_bias, *o, *o_bias;
  const float *q_norm, *k_norm; // NULL: none
  const float *ffn_norm, *ffn_norm_bias, *up, *up_bias, *down, *down_bias;
} CpuLayer;

/* Activations, each of its first dimension's capacity. */
typedef struct CpuActivations {
  int64_t tokens, rows, gathered_floats, partial_floats; // there is room for
  float *residual, *normed, *delta;                      // [tokens][hidden]
  float *qkv, *attention;                                // [tokens][…heads·head_dim]
  float *up, *ffn;                                       // [tokens][2·ffn or ffn], [tokens][ffn]
  float *head_in, *head_normed, *logits;                 // [rows][hidden], [rows][vocab]
  int32_t *argmax;                                       // [rows]
  int64_t *argmax_parts;                                 // [rows][threads]
  float *gathered, *partial;                             // of attention
} CpuActivations;

typedef struct CpuModel {
  CalibModel shape;
  CpuKvShape kv;
  int32_t query_heads, ffn, up_columns, vocab, qkv_columns; // of the shard
  CpuThreads *threads;
  const CpuBlas *blas;
  uint64_t seed;
  Arena arena, pool_arena, activation_arena;

  float *weights;
  int64_t weight_floats;
  int64_t read_begin, read_floats, cursor; // what an iteration reads; of cpu_model_slice
  const float *embedding, *positions, *final_norm, *final_norm_bias, *head, *slopes;
  CpuLayer *layers;           // [n_layers + n_spares]
  int32_t n_layers, n_spares; // kept; besides, as many bytes as the head

  float *pool; // [n_layers][pool_pages] pages
  int64_t pool_pages;
  int32_t *shuffled; // [pool_pages] all pages
  CpuActivations activations;
} CpuModel;

/* CALIB_REJECTED when `available_bytes` cannot hold it, or a size is one that the operators are not
 * made for. */
CalibStatus cpu_model_open(CpuModel *self, const CalibModel *shape, CpuThreads *threads,
                           const CpuBlas *blas, int64_t cache_bytes, int64_t available_bytes,
                           uint64_t seed, char *error);
void cpu_model_close(CpuModel *self);

/* Makes room, without a page fault left for the first use. CALIB_OUT_OF_MEMORY when
 * `available_bytes` are not enough; what was there stays. */
CalibStatus cpu_model_reserve_pages(CpuModel *self, int64_t pages, int64_t available_bytes,
                                    char *error);
CalibStatus cpu_model_reserve(CpuModel *self, const CpuActivations *need, int64_t available_bytes,
                              char *error);

/* `floats` of the weights, others than those of the calls before, as far as there are. */
const float *cpu_model_slice(CpuModel *self, int64_t floats);
static inline float *cpu_model_pool(const CpuModel *self, int32_t layer) {
  return self->pool + layer * self->pool_pages * cpu_kv_page_floats(&self->kv);
}
/* `floats` numbers from `arena`, 64-byte aligned, filled by the threads. */
float *cpu_model_numbers(CpuModel *self, Arena *arena, int64_t floats, double mean,
                         double deviation);
#endif
