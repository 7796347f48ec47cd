/* A whole decoder, from token numbers to logits, in double and without rounding anything between: a
 * check that operators are put together in the right order, with the right weights. Matrices are
 * [columns out][columns in]. */
#ifndef KERNELS_REFERENCE_DECODER_H
#define KERNELS_REFERENCE_DECODER_H
#include "kernels/kernels.h"
#include <stdbool.h>

/* Biases are NULL where the model has none. kv is the layer's pool [page][K or V][kv_head][token]
 * [head_dim], which is read and written. */
typedef struct DecoderLayer {
  const double *norm_weights[2], *norm_biases[2];
  const double *qkv, *o, *up, *down;
  const double *qkv_bias, *o_bias, *up_bias, *down_bias;
  double *kv;
} DecoderLayer;

typedef struct Decoder {
  CalibNorm norm;
  CalibActivation activation;
  int32_t layers, hidden, query_heads, kv_heads, head_dim, ffn, vocab, block_size;
  bool has_rope;
  const float *alibi_slopes;           // NULL: no ALiBi
  const double *embedding, *positions; // positions NULL: no table of them
  const double *norm_weight, *norm_bias, *head;
  const DecoderLayer *at; // [layers]
} Decoder;

/* A row of the iteration: its sequence's pages hold all tokens before it. */
typedef struct DecoderToken {
  int32_t id, position;
  const int32_t *pages;
} DecoderToken;

/* logits [n_rows][vocab] of some of the tokens. */
void reference_decoder(const Decoder *self, const DecoderToken *tokens, int32_t n,
                       const int32_t *rows, int32_t n_rows, double *logits);
#endif
