/* Causal attention over pages on the CPU: softmax(q·Kᵀ·scale + ALiBi)·V with all sums in double.
 * Decode is a chunk of one new token per sequence. */
#ifndef KERNELS_REFERENCE_ATTENTION_H
#define KERNELS_REFERENCE_ATTENTION_H
#include "kernels/kernels.h"

/* Arguments as those of kernel_attention_prefill, with all pointers, those of `shape` included, to
 * host memory; out is [rows][query_heads · head_dim] doubles. */
void reference_attention(const KernelAttention *shape, double *out, const void *q, int64_t q_stride,
                         const int32_t *row_starts, const int32_t *past, int32_t sequences);
#endif
