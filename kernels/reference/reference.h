/* The kernels' operators once more, on the host, as their formulas: in double, element by element.
 *
 * Arguments are those of kernels.h in host memory, without a stream. Inputs have 16-bit elements;
 * results are doubles, not yet rounded, except where a kernel reads back what it has rounded. */
#ifndef KERNELS_REFERENCE_REFERENCE_H
#define KERNELS_REFERENCE_REFERENCE_H
#include "kernels/gemm.h"
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

/* residual stays 16-bit: the norm is that of the rounded sum. */
void reference_norm(CalibDtype dtype, CalibNorm norm, double *out, void *residual, const void *x,
                    const void *weight, const void *bias, double epsilon, int32_t tokens,
                    int32_t hidden);

/* q [tokens][query_heads·head_dim] is the rotated part of qkv; of kv_pages, as doubles, the slots'
 * elements are written. */
void reference_rope_append(const KernelAttention *shape, double *q, double *kv_pages,
                           const void *qkv, const int32_t *slots, const int32_t *positions,
                           double theta, int32_t tokens);

/* GELU (tanh) or ReLU of one number; SiLU for SwiGLU. */
double reference_activate(CalibActivation activation, double x);
void reference_activation(CalibDtype dtype, CalibActivation activation, double *out, const void *in,
                          const void *bias, int32_t tokens, int32_t ffn);

void reference_add_bias(CalibDtype dtype, double *out, const void *x, const void *bias,
                        int32_t tokens, int32_t columns);

void reference_embedding(CalibDtype dtype, double *out, const int32_t *ids, const void *table,
                         const int32_t *positions, const void *positions_table, int32_t tokens,
                         int32_t hidden);

void reference_argmax(CalibDtype dtype, int32_t *ids, const void *logits, int32_t rows,
                      int32_t vocab);

void reference_kv_gather(void *buffer, const void *kv_pages, const int32_t *pages, int32_t n_pages,
                         int64_t page_bytes);
void reference_kv_scatter(void *kv_pages, const void *buffer, const int32_t *pages, int32_t n_pages,
                          int64_t page_bytes);

void reference_fill_normal(double *out, int64_t n, double deviation, uint64_t seed);

/* One element of C, to sample a product that is too large for the others. */
double reference_gemm_at(const GemmShape *shape, const void *a, const void *w, const void *bias,
                         int64_t row, int64_t column);
void reference_gemm(const GemmShape *shape, double *c, const void *a, const void *w,
                    const void *bias);
/* The same by blocks that stay in a core's cache, tens of times as fast. */
void reference_gemm_blocked(const GemmShape *shape, double *c, const void *a, const void *w,
                            const void *bias);

#ifdef __cplusplus
}
#endif
#endif
