/* Attention by cuDNN: scaled dot-product attention over pages of K and V as one operation of its
 * graph interface, for what kernels/attention_*.cu does. cuDNN is opened with dlopen.
 *
 * Sequence i has rows of queries, the last tokens of its context: query t of `new` sees the keys up
 * to lengths − new + t (a causal mask that is aligned at the bottom right). Keys and values are
 * pages of block_size tokens, [kv_head][token][qk_dim] of K and then [kv_head][token][v_dim] of V,
 * as kernels.h has them where both are head_dim wide. */
#ifndef KERNELS_SDPA_H
#define KERNELS_SDPA_H
#include "kernels/kernels.h"
#include <stddef.h>
#include <stdint.h>

enum { SDPA_HEAD_DIM = 256 }; // the most, in multiples of 8

/* What a plan is made for; of one width, so that it is compared as bytes. */
typedef struct SdpaShape {
  int64_t dtype; // CalibDtype, not fp32
  int64_t query_heads, kv_heads, qk_dim, v_dim;
  int64_t block_size, n_pages;           // tokens of a page; pages of the pool
  int64_t sequences, max_new, max_pages; // max_new 1: one query each, nothing masked
  int64_t q_stride, out_stride;          // elements from row to row
} SdpaShape;

/* All in device memory but the scale. */
typedef struct SdpaOperands {
  void *out;                  // rows of [query_heads][v_dim]
  const void *q;              // rows of [query_heads][qk_dim], and what q_stride has more
  const void *kv_pages;       // the pool
  const int32_t *page_table;  // [sequences][max_pages]
  const int32_t *q_lengths;   // [sequences], at most max_new
  const int32_t *kv_lengths;  // [sequences], at least q_lengths
  const int64_t *q_offsets;   // [sequences + 1] elements of q before; unused of max_new 1
  const int64_t *out_offsets; // likewise of out
  float scale;
} SdpaOperands;

typedef struct Sdpa Sdpa;
typedef struct SdpaPlan SdpaPlan;

/* Opens the library that TANDEM_CUDNN names, or libcudnn.so.9, on the current device. Functions
 * return CALIB_OK or write a line to `error`. */
CalibStatus sdpa_open(Sdpa **ret_sdpa, char *error);
/* NULL is nothing. */
void sdpa_close(Sdpa *self);
/* "9.28.1". */
const char *sdpa_version(const Sdpa *self);
/* The plan for a shape, made by cuDNN's heuristics when it is asked for first, and kept until 64
 * others were. CALIB_REJECTED where no engine of cuDNN runs it. May compile: not in a capture. */
CalibStatus sdpa_plan(Sdpa *self, const SdpaShape *shape, const SdpaPlan **ret_plan, char *error);
int64_t sdpa_plan_workspace(const SdpaPlan *plan); // bytes
int64_t sdpa_plan_engine(const SdpaPlan *plan);    // its number
/* Queues it; a capture of the stream holds it. */
CalibStatus sdpa_run(Sdpa *self, const SdpaPlan *plan, KernelStream stream,
                     const SdpaOperands *operands, void *workspace, char *error);
#endif
