/* Attention over paged KV on a CPU: tasks for cpu_threads_run. Softmax is online, in fp32.
 *
 * Prefill gathers the pages of a sequence into one piece per KV head first, so that its products
 * are BLAS's; decode reads each page once, in place. */
#ifndef CALIB_CPU_ATTENTION_H
#define CALIB_CPU_ATTENTION_H
#include "calib/cpu_blas.h"
#include "calib/cpu_ops.h"
#include <stdatomic.h>

/* What both share. Sequence i has its pages at page_starts[i] of `pages_of`, past[i] tokens before
 * its rows row_starts[i] … row_starts[i + 1] of q, whose row stride is q_stride floats. All of its
 * past and new tokens are in the pages. out [rows][query_heads·head_dim]. */
typedef struct CpuAttention {
  CpuKvShape kv;
  int32_t query_heads;
  float scale;         // of q·k
  const float *slopes; // ALiBi's, [query_heads]; NULL: none
  const float *pages;
  const int32_t *pages_of;
  const int64_t *page_starts, *row_starts; // [n_sequences (+ 1)]
  const int32_t *past;
  const float *q;
  float *out;
  int64_t q_stride;
  int32_t n_sequences;
} CpuAttention;

/* --- prefill: cpu_attention_gather, then cpu_attention_prefill.
 * `gathered`: per sequence and KV head, K [head_dim][context] and then V [context][head_dim], in
 * that order; gather_starts [n_sequences] counts floats of the sequences before. Tiles of queries
 * are taken from `next`, which must be 0. */
typedef struct CpuPrefill {
  const CpuBlas *blas;
  CpuAttention attention;
  float *gathered;
  const int64_t *gather_starts;
  _Atomic int64_t *next;
} CpuPrefill;
void cpu_attention_gather(const void *work, int32_t part, int32_t n_parts);
void cpu_attention_prefill(const void *work, int32_t part, int32_t n_parts);

/* --- decode: cpu_attention_decode, then cpu_attention_combine. One query row per sequence. The
 * pages of all (sequence, KV head) pairs in a row are dealt out evenly, so a pair may be cut
 * between parts; each piece leaves its maximum, sum and weighted values in `partial`, which has
 * room for n_sequences·kv_heads + n_parts pieces. */
typedef struct CpuDecode {
  CpuAttention attention;
  float *partial;
} CpuDecode;
void cpu_attention_decode(const void *work, int32_t part, int32_t n_parts);
void cpu_attention_combine(const void *work, int32_t part, int32_t n_parts);
/* Floats of a piece: of each query head of a KV head, 2 + head_dim. */
int64_t cpu_decode_piece_floats(const CpuAttention *attention);
#endif
