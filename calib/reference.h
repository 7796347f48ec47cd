/* A decoder by its formulas: in double, one number after the other, as the papers have them. What
 * runs fast, on whatever device, is held to this (verify.h).
 *
 * Tensors are row-major. Weights [n][k] are those of out = in·Wᵀ. A bias is NULL where there is
 * none. Heads are those of one shard (backend.h). */
#ifndef CALIB_REFERENCE_H
#define CALIB_REFERENCE_H
#include "calib/backend.h"

#define REFERENCE_EPSILON 1e-5 // of norms
#define REFERENCE_THETA   1e4  // base of rotary positions

/* out [rows][hidden] = (in − mean) / deviation · weight + bias; RMSNorm (Zhang and Sennrich 2019)
 * takes the mean as 0, LayerNorm (Ba et al. 2016) does not. */
void reference_norm(CalibNorm norm, double *out, const double *in, const double *weight,
                    const double *bias, int64_t rows, int64_t hidden);
/* out [rows][n] = in [rows][k] · weights [n][k]ᵀ + bias [n]. */
void reference_product(double *out, const double *in, const double *weights, const double *bias,
                       int64_t rows, int64_t n, int64_t k);
/* The nearest number of e4m3 (2209.05433): 3 bits after the first, from 2^−9, up to ±448. */
double reference_e4m3(double x);
/* Inputs [rows][k] of a product as they are after they were quantized (fp8.h says the scales), in
 * place. CALIB_WEIGHTS_PLAIN: as they were. */
void reference_quantize(CalibWeights weights, double *in, int64_t rows, int64_t k);
/* Heads of one token turned by its position (Su et al. 2021), in the pairs (i, i + head_dim/2) that
 * Llama has. */
void reference_rotate(double *heads, int32_t n_heads, int32_t head_dim, double position,
                      double theta);
/* Of one number: GELU in its tanh form (Hendrycks and Gimpel 2016), ReLU, and for SwiGLU SiLU. */
double reference_activate(CalibActivation activation, double x);
/* out [rows][ffn]; in [rows][ffn], or for SwiGLU (Shazeer 2020) gates and then values,
 * [rows][2·ffn]. */
void reference_activation(CalibActivation activation, double *out, const double *in, int64_t rows,
                          int64_t ffn);
/* out [head_dim] = softmax(query·Kᵀ·scale + ALiBi)·V of one head, over `context` keys and values
 * that are `stride` apart; slope 0: no ALiBi (Press et al. 2022). */
void reference_attend(double *out, const double *query, const double *keys, const double *values,
                      int64_t stride, int64_t context, int32_t head_dim, double scale,
                      double slope);
/* What a token's experts are (Shazeer et al. 2017): chosen [per_token] of logits [experts], the
 * best first; of equal ones the first is better, NaN is as good as −∞. */
void reference_choose(int64_t *chosen, const double *logits, int64_t experts, int64_t per_token);
/* shares [per_token] of the chosen: the softmax of their logits, or their sigmoids over the sum of
 * these (DeepSeek-V3, 2412.19437, eq. 14). */
void reference_shares(CalibRouter router, double *shares, const double *logits,
                      const int64_t *chosen, int64_t per_token);
/* The first greatest; NaN is never greatest. */
int64_t reference_argmax(const double *numbers, int64_t n);

/* The heads of one token, q's and then k's, normed in place: each by `q` or `k` [head_dim]. */
void reference_norm_heads(double *heads, const double *q, const double *k, int32_t query_heads,
                          int32_t kv_heads, int32_t head_dim);

/* ---- A decoder's layer: pre-norm, attention over all tokens so far, MLP, residuals ---- */

typedef struct ReferenceLayer {
  const double *norm, *norm_bias, *qkv, *qkv_bias, *o, *o_bias;
  const double *ffn_norm, *ffn_norm_bias, *up, *up_bias, *down, *down_bias;
  const double *q_norm, *k_norm; // of a head; NULL: none
  const double *router; // [num_experts][hidden]; `up` and `down` are then those of all experts
} ReferenceLayer;

/* Tokens of one iteration, and what is known of each. */
typedef struct ReferenceRows {
  int64_t n;
  const int64_t *contexts;  // [n] tokens that a row attends to, itself the last of them
  const double *positions;  // [n] that it is turned by
  double *const *keys;      // [n] of its sequence, [contexts][kv_heads·head_dim]
  double *const *values;    // the same
  double *residual, *added; // [n][hidden]; `added` is what the next norm adds to the residual
  double *qkv;              // [n][(query_heads + 2·kv_heads)·head_dim]
  double *attention;        // [n][query_heads·head_dim]
  const int64_t *experts;   // [n][num_experts_per_tok] to take; NULL: the best by the reference
  double *router_logits;    // [n][num_experts], of the layer that ran last; NULL: not wanted
} ReferenceRows;

/* Up to attention: the residual takes up what was added, K and V go to the row's place. `keys` and
 * `values` NULL: nowhere. */
void reference_layer_begin(const CalibModel *model, const ReferenceLayer *layer,
                           const ReferenceRows *rows);
/* Row i attends. All rows before it in its sequence have their K and V in place. */
void reference_layer_attend(const CalibModel *model, const ReferenceRows *rows, int64_t i);
/* From attention on. What the MLP adds is left in `added`. */
void reference_layer_end(const CalibModel *model, const ReferenceLayer *layer,
                         const ReferenceRows *rows);
#endif
