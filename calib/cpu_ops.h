/* The small operators of a decoder layer on a CPU: tasks for cpu_threads_run, each with a struct of
 * its arguments. Matrices are row-major and dense; a task does its share of the rows or columns.
 *
 * These files are compiled as numerical code: sums may be reassociated, and numbers are finite. */
#ifndef CALIB_CPU_OPS_H
#define CALIB_CPU_OPS_H
#include "calib/cpu_threads.h"
#include <math.h>

/* Each function is compiled for the processors that are worth it; the loader takes the best. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define CPU_CLONES __attribute__((target_clones("default", "arch=haswell", "arch=skylake-avx512")))
#else
#define CPU_CLONES
#endif

/* KV of one layer: pages of `block_size` tokens, a multiple of CPU_LANES, as [page][head] with
 * K transposed, [head_dim][block_size], followed by V, [block_size][head_dim]. */
enum { CPU_LANES = 16, CPU_MAX_HEAD_DIM = 256 };
typedef struct CpuKvShape {
  int32_t kv_heads, head_dim, block_size;
} CpuKvShape;
static inline int64_t cpu_kv_head_floats(const CpuKvShape *shape) {
  return 2 * (int64_t)shape->block_size * shape->head_dim;
}
static inline int64_t cpu_kv_page_floats(const CpuKvShape *shape) {
  return shape->kv_heads * cpu_kv_head_floats(shape);
}

/* residual[t] += x[t] (x NULL: not); out[t] = norm(residual[t])·weight (+ bias). [tokens][hidden]
 * */
typedef struct CpuNorm {
  CalibNorm norm;
  float *out, *residual;
  const float *x, *weight, *bias; // bias NULL: none
  int64_t tokens, hidden;
} CpuNorm;
void cpu_norm(const void *work, int32_t part, int32_t n_parts);

#define CPU_EPSILON 1e-5 // of norms
#define CPU_THETA   1e4  // base of rotary positions

/* qkv [tokens][(query_heads + 2·kv_heads)·head_dim]: norms each head of q and k, if there are
 * weights for that [head_dim], rotates q in place and k by position,
 * half-split pairs as Llama has them, and puts k and v into the pages at slots[t], which is
 * page·block_size + offset. `rotation` [tokens][head_dim]: cosines, then sines; NULL: none. */
typedef struct CpuRopeAppend {
  CpuKvShape kv;
  float *qkv, *pages;
  const float *rotation, *q_norm, *k_norm;
  const int32_t *slots;
  int64_t tokens;
  int32_t query_heads;
} CpuRopeAppend;
void cpu_rope_append(const void *work, int32_t part, int32_t n_parts);

/* SwiGLU: out [tokens][ffn] = silu(in[t][0 … ffn))·in[t][ffn … 2·ffn); GELU (tanh) and ReLU of in
 * [tokens][ffn]. */
typedef struct CpuActivate {
  CalibActivation activation;
  float *out;
  const float *in;
  int64_t tokens, ffn;
} CpuActivate;
void cpu_activate(const void *work, int32_t part, int32_t n_parts);

/* out[t] = table[ids[t]] (+ positions_table[positions[t]] unless NULL); rows of `hidden`. */
typedef struct CpuEmbed {
  float *out;
  const float *table, *positions_table;
  const int32_t *ids, *positions;
  int64_t tokens, hidden;
} CpuEmbed;
void cpu_embed(const void *work, int32_t part, int32_t n_parts);

/* ids[i] = the first greatest of logits[i][0 … vocab), in two steps: each part finds those of its
 * columns, then cpu_argmax_merge the greatest of the parts. `best` is [rows][n_parts]. */
typedef struct CpuArgmax {
  int32_t *ids;
  int64_t *best;
  const float *logits;
  int64_t rows, vocab;
} CpuArgmax;
void cpu_argmax(const void *work, int32_t part, int32_t n_parts);
void cpu_argmax_merge(const void *work, int32_t part, int32_t n_parts);

/* to[i·to_stride] = from[i·from_stride], or through lists of pages (NULL: in order), `bytes` each.
 * Serves plain copies too, as pages of 4 KiB. */
typedef struct CpuCopy {
  char *to;
  const char *from;
  const int32_t *to_pages, *from_pages;
  int64_t n_pages, page_bytes, last_bytes; // the last page may be shorter
} CpuCopy;
void cpu_copy(const void *work, int32_t part, int32_t n_parts);

/* Normal enough numbers: uniform of mean `mean` and deviation `deviation`, by position. */
typedef struct CpuFill {
  float *out;
  int64_t n;
  double mean, deviation;
  uint64_t seed;
} CpuFill;
void cpu_fill(const void *work, int32_t part, int32_t n_parts);

/* What every clone must have of its own: gcc inlines nothing else across targets. */
#define CPU_INLINE static inline __attribute__((always_inline))

/* eˣ within 2e-7 for −87 <= x <= 88, and as at these limits beyond; a loop of it vectorises. */
CPU_INLINE float cpu_exp(float x) {
  const float scaled = fminf(fmaxf(x, -87.0f), 88.0f) * 1.44269504f; // in powers of 2
  /* Positive with the exponent's bias of 127, so that truncation rounds to the nearest. */
  const int32_t exponent = (int32_t)(scaled + 127.5f);
  const float f = (scaled - (float)(exponent - 127)) * 0.69314718f;
  /* Taylor's series up to the sixth power: |f| <= ln 2 / 2, so the rest is below 1.2e-7. */
  const float series =
      1 + f * (1 + f * (0.5f + f * (1 / 6.0f + f * (1 / 24.0f + f * (1 / 120.0f + f / 720.0f)))));
  const union {
    int32_t bits;
    float value;
  } power = {.bits = exponent << 23};
  return series * power.value;
}
#endif
