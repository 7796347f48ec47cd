/* What a kernel should write: the formulas of calib/reference.h on host memory, with the kernel's
 * own arguments (kernels.h, without a stream) and elements of 16 bits. Results are doubles, not yet
 * rounded, except where a kernel reads back what it has rounded. */
#ifndef TESTS_KERNELS_EXPECTED_H
#define TESTS_KERNELS_EXPECTED_H
#include "kernels/gemm.h"
#include "kernels/kernels.h"

/* Decode is a chunk of one new token per sequence. */
void expected_attention(const KernelAttention *shape, double *out, const void *q, int64_t q_stride,
                        const int32_t *row_starts, const int32_t *past, int32_t sequences);

/* residual stays 16-bit: the norm is that of the rounded sum. Epsilon is that of the reference. */
void expected_norm(CalibDtype dtype, CalibNorm norm, double *out, void *residual, const void *x,
                   const void *weight, const void *bias, int32_t tokens, int32_t hidden);

/* q [tokens][query_heads·head_dim] is the rotated part of qkv; of kv_pages, as doubles, the slots'
 * elements are written. */
void expected_rope_append(const KernelAttention *shape, double *q, double *kv_pages,
                          const void *qkv, const int32_t *slots, const int32_t *positions,
                          double theta, KernelHeadNorms norms, int32_t tokens);

void expected_activation(CalibDtype dtype, CalibActivation activation, double *out, const void *in,
                         int32_t tokens, int32_t ffn);
void expected_embedding(CalibDtype dtype, double *out, const int32_t *ids, const void *table,
                        const int32_t *positions, const void *positions_table, int32_t tokens,
                        int32_t hidden);
void expected_argmax(CalibDtype dtype, int32_t *ids, const void *logits, int32_t rows,
                     int32_t vocab);
void expected_kv_gather(void *buffer, const void *kv_pages, const int32_t *pages, int32_t n_pages,
                        int64_t page_bytes);
void expected_kv_scatter(void *kv_pages, const void *buffer, const int32_t *pages, int32_t n_pages,
                         int64_t page_bytes);
void expected_fill_normal(double *out, int64_t n, double deviation, uint64_t seed);
void expected_gemm(const GemmShape *shape, double *c, const void *a, const void *w,
                   const void *bias);

/* The same of e4m3 and their scales (fp8.h). */
void expected_gemm_scaled(const GemmShape *shape, double *c, const uint8_t *a,
                          const float *a_scales, const uint8_t *w, const float *w_scales);

/* `n` elements as numbers, by malloc. */
double *decoded(CalibDtype dtype, const void *elements, int64_t n);
#endif
