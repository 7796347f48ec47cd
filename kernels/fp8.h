/* Numbers of 8 bits, e4m3 (Micikevicius et al. 2022, 2209.05433), and the scales that products of
 * them have.
 *
 *   tensor   one scale for all of a matrix, as checkpoints with static activations have them
 *   block    weights [n][k]: one for 128 × 128 of them, [⌈n/128⌉][fp8_k_blocks]; activations
 *            [tokens][k]: one for 128 of a token, [⌈k/128⌉][fp8_rows] (DeepSeek-V3, 2412.19437,
 *            §3.3), in the order that cuBLASLt wants
 *
 * A number is its e4m3 times its scale. */
#ifndef KERNELS_FP8_H
#define KERNELS_FP8_H
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { FP8_BLOCK = 128 };
#define FP8_MOST 448.0f // the greatest e4m3

/* Rows of activations that products of blocks go over, and k of scales of weights. */
static inline int32_t fp8_rows(int32_t tokens) {
  return (tokens + 3) / 4 * 4;
}
static inline int32_t fp8_k_blocks(int32_t k) {
  return ((k + FP8_BLOCK - 1) / FP8_BLOCK + 3) / 4 * 4;
}
/* Scales of weights [n][k], and of activations [tokens][k]. */
static inline int64_t fp8_weight_scales(CalibWeights weights, int32_t n, int32_t k) {
  return weights == CALIB_FP8_BLOCK ? (int64_t)((n + FP8_BLOCK - 1) / FP8_BLOCK) * fp8_k_blocks(k)
                                    : 1;
}
static inline int64_t fp8_input_scales(CalibWeights weights, int32_t tokens, int32_t k) {
  return weights == CALIB_FP8_BLOCK ? (int64_t)((k + FP8_BLOCK - 1) / FP8_BLOCK) * fp8_rows(tokens)
                                    : 1;
}
/* Scales that so many take the place of, where those of several matrices lie in a row: cuBLASLt
 * wants each to begin at a multiple of 16 bytes. */
static inline int64_t fp8_scale_room(int64_t scales) {
  return (scales + 3) / 4 * 4;
}

/* --- quantize.cu. out [tokens][k] e4m3 of in [tokens][k], rounded to nearest, saturated. Of
 * CALIB_FP8 *scales is given; of CALIB_FP8_BLOCK they are written, each the greatest of its 128
 * over 448. k is a multiple of 8. */
int kernel_quantize(KernelStream stream, CalibDtype dtype, CalibWeights weights, uint8_t *out,
                    float *scales, const void *in, int32_t tokens, int32_t k);

#ifdef __cplusplus
}
#endif
#endif
