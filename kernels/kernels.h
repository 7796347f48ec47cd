/* The kernels of a decoder layer, as C functions that launch them on a stream.
 *
 * Pointers are to device memory unless a name says host. Matrices are row-major. Elements are of
 * `dtype`, which is not CALIB_FP32; sums are fp32. Vectors of 16 bytes are read and written, so
 * rows start at multiples of 16 bytes. Every launcher returns a cudaError_t as an int (0: launched)
 * and never waits.
 *
 * A KV pool of a layer is pages of `block_size` tokens: [page][K or V][kv_head][token][head_dim],
 * so that a page of a layer is one contiguous piece, and so is a head's part of it. Page tables are
 * [sequence][max_pages] int32. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H
#include "calib/backend.h"
#include "kernels/split_kv.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *KernelStream; // cudaStream_t

/* Heads and pages of one layer's attention. */
typedef struct KernelAttention {
  CalibDtype dtype;
  int32_t query_heads, kv_heads, head_dim; // head_dim: 64 or 128; query_heads = group · kv_heads
  int32_t block_size;                      // tokens in a page, a power of two, 16 or more
  float scale;                             // of q·k, usually 1/√head_dim
  const float *alibi_slopes;               // [query_heads], NULL: no ALiBi
  const void *kv_pages;                    // the layer's pool
  const int32_t *page_table;               // [sequences][max_pages]
  int32_t max_pages;
} KernelAttention;

/* --- norm.cu. residual[t] += x[t] (x NULL: not), out[t] = norm(residual[t])·weight (+ bias).
 * out, x, residual [tokens][hidden]; weight, bias [hidden], bias NULL for RMSNorm. out may be x.
 * hidden is a multiple of 8, at most 32768. */
int kernel_norm(KernelStream stream, CalibDtype dtype, CalibNorm norm, void *out, void *residual,
                const void *x, const void *weight, const void *bias, float epsilon, int32_t tokens,
                int32_t hidden);

/* --- rope_append.cu. qkv [tokens][(query_heads + 2·kv_heads)·head_dim]: norms (RMS) each head of q
 * and k where there are weights for that, [head_dim] each, rotates q in place and k, by `positions`
 * [tokens] (NULL: no rotation), half-split pairs as Llama has them, and writes k and v to slots
 * [tokens] (page·block_size + offset) of the pool; those of qkv stay as they were. Norms need a
 * head_dim that is a power of two. */
typedef struct KernelHeadNorms {
  const void *q, *k; // NULL: none
  float epsilon;
} KernelHeadNorms;
int kernel_rope_append(KernelStream stream, const KernelAttention *shape, void *qkv, void *kv_pages,
                       const int32_t *slots, const int32_t *positions, float theta,
                       KernelHeadNorms norms, int32_t tokens);

/* Blocks of the attention of a shape that run at once on the current device; launches only launch.
 * Also makes the kernels ready, so it comes before the first launch of a dtype, head_dim and
 * ALiBi. `prefill` is of tiles of 64 and of 128 rows: 0 where the image has none of the latter, or
 * what the driver has compiled of it keeps registers in memory. */
typedef struct KernelResidency {
  int32_t decode, prefill[2];
} KernelResidency;
int kernel_attention_load(const KernelAttention *shape, KernelResidency *ret_residency);

/* Splits of attention over the keys, as split_kv.h plans them: `starts` [sequences + 1] counts the
 * rows of partial results of the sequences before, `partial` is a workspace of
 * kernel_attention_workspace bytes for plan.rows of them. Where a row has more than one split,
 * attention_join.cu runs behind the kernel that attends. */
typedef struct KernelSplits {
  SplitPlan plan;
  const int32_t *starts;
  void *partial;
} KernelSplits;
size_t kernel_attention_workspace(const KernelAttention *shape, int32_t rows);

/* --- attention_prefill.cu. Causal attention of chunks over their pages, which hold past and new
 * tokens alike. Sequence i has query rows row_starts[i] … row_starts[i + 1] of q (row stride
 * `q_stride` elements, its heads first) and past[i] tokens before them. out [rows][query_heads ·
 * head_dim]. `rows` is of all sequences, max_new the longest chunk, tile_rows 64 or 128; tiles of
 * 128 rows have one split. */
int kernel_attention_prefill(KernelStream stream, const KernelAttention *shape, int32_t tile_rows,
                             void *out, const void *q, int64_t q_stride, const int32_t *row_starts,
                             const int32_t *past, int32_t rows, int32_t sequences, int32_t max_new,
                             const KernelSplits *splits);

/* --- attention_wgmma.cu. The same for compute capability 9.0, without ALiBi and splits, in tiles
 * of 128 or 192 rows. Load says how many blocks run at once, 0 where there is no such kernel;
 * launches are given that number. */
int kernel_attention_wgmma_load(const KernelAttention *shape, int32_t *ret_blocks);
int kernel_attention_wgmma(KernelStream stream, const KernelAttention *shape, int32_t tile_rows,
                           int32_t blocks, void *out, const void *q, int64_t q_stride,
                           const int32_t *row_starts, const int32_t *past, int32_t sequences,
                           int32_t max_new);

/* --- attention_decode.cu. One query row per sequence over contexts[i] tokens (the new one
 * included). split_sequences [splits->plan.rows] is the sequence of each split. */
int kernel_attention_decode(KernelStream stream, const KernelAttention *shape, void *out,
                            const void *q, int64_t q_stride, const int32_t *contexts,
                            const int32_t *split_sequences, int32_t sequences,
                            const KernelSplits *splits);

/* --- activation.cu. SwiGLU: out [tokens][ffn] = silu(in[t][0 … ffn)) · in[t][ffn … 2·ffn); GELU
 * (tanh) and ReLU: out = f(in), in [tokens][ffn]; may be in place. */
int kernel_activation(KernelStream stream, CalibDtype dtype, CalibActivation activation, void *out,
                      const void *in, int32_t tokens, int32_t ffn);

/* --- embedding.cu. out[t] = table[ids[t]] (+ positions_table[positions[t]] unless NULL). */
int kernel_embedding(KernelStream stream, CalibDtype dtype, void *out, const int32_t *ids,
                     const void *table, const int32_t *positions, const void *positions_table,
                     int32_t tokens, int32_t hidden);
/* out[i] = in[rows[i]], [n][hidden]: the rows that need logits. */
int kernel_gather_rows(KernelStream stream, CalibDtype dtype, void *out, const void *in,
                       const int32_t *rows, int32_t n, int32_t hidden);

/* --- argmax.cu. ids[i] = the first greatest of logits[i][0 … vocab), which may have any length;
 * NaN is never greatest. `partial` is a workspace. */
size_t kernel_argmax_workspace(int32_t rows, int32_t vocab);
int kernel_argmax(KernelStream stream, CalibDtype dtype, int32_t *ids, const void *logits,
                  int32_t rows, int32_t vocab, void *partial);

/* --- kv_copy.cu. Pages of a layer, `page_bytes` each, to one buffer or from it. The contiguous
 * side may be pinned host memory. */
int kernel_kv_gather(KernelStream stream, void *buffer, const void *kv_pages, const int32_t *pages,
                     int32_t n_pages, int64_t page_bytes);
int kernel_kv_scatter(KernelStream stream, void *kv_pages, const void *buffer, const int32_t *pages,
                      int32_t n_pages, int64_t page_bytes);

/* --- harness.cu. What measuring needs. */
/* Fails where the image has no code for the current device, nor PTX that its driver compiles. */
int kernel_image_load(void);
/* Normal numbers of deviation `deviation` from a counter-based generator. */
int kernel_fill_normal(KernelStream stream, CalibDtype dtype, void *out, int64_t n, float deviation,
                       uint64_t seed);
/* Reads all of it and keeps nothing: a cache smaller than `bytes`, a multiple of 4, then holds
 * nothing else, and nothing that has yet to be written. */
int kernel_read(KernelStream stream, const void *data, int64_t bytes);
/* Holds the stream until *host_flag (pinned) is not 0, or `timeout_ns` have passed. */
int kernel_wait_flag(KernelStream stream, const volatile int32_t *host_flag, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
