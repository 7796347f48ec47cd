/* The kernels of a mixture of experts (Shazeer et al. 2017), as kernels.h has those of other
 * layers: same types, pointers, alignment and results.
 *
 * A token takes its `per_token` best experts of `experts`. The tokens · per_token pairs (token,
 * choice), numbered token · per_token + choice, are put in order of their experts, those of one
 * expert in their own order: so the rows of an expert lie together, and the same logits give the
 * same rows. How many an expert has, only the device knows. */
#ifndef KERNELS_MOE_H
#define KERNELS_MOE_H
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { KERNEL_MOE_EXPERTS = 512, KERNEL_MOE_PER_TOKEN = 16 }; // at most

/* One layer's routes. Arrays start at multiples of 16 bytes. */
typedef struct KernelMoe {
  CalibDtype dtype;
  CalibRouter router;
  int32_t experts, per_token, tokens;
  int32_t *chosen; // [tokens][per_token], the best first
  float *shares;   // [tokens][per_token] of each choice in the token's result; their sum is 1
  int32_t *starts; // [experts + 1], the first row of each
  int32_t *pairs;  // [tokens · per_token], of each row
  int32_t *rows;   // [tokens · per_token], of each pair
} KernelMoe;

/* Makes the products of a type ready; before the first of them. */
int kernel_moe_load(CalibDtype dtype);

/* --- moe_routing.cu. All five arrays from logits [tokens][experts]. Of equal logits the first
 * expert is better; NaN is as good as −∞. Shares are the softmax of the chosen logits, or their
 * sigmoids over the sum of these. */
int kernel_moe_routing(KernelStream stream, const KernelMoe *moe, const void *logits);

/* --- moe_gemm.cu. Row r of out [tokens · per_token][n] is that of `in` times weights
 * [experts][n][k]ᵀ of the row's expert. `in` is [tokens][k], of which each row takes its token's,
 * if `gathers`, else [tokens · per_token][k]. n and k are multiples of 8, tile_rows 16, 64 or
 * 128. */
int kernel_moe_gemm(KernelStream stream, const KernelMoe *moe, int32_t tile_rows, bool gathers,
                    void *out, const void *in, const void *weights, int32_t n, int32_t k);
/* By the rows that an expert has in the mean: of a tile that is mostly empty the rest is lost. */
int32_t kernel_moe_tile_rows(const KernelMoe *moe);

/* --- moe_combine.cu. out[t] = Σ share · in[row] over a token's choices; out [tokens][hidden], in
 * [tokens · per_token][hidden]. */
int kernel_moe_combine(KernelStream stream, const KernelMoe *moe, void *out, const void *in,
                       int32_t hidden);

#ifdef __cplusplus
}
#endif
#endif
