/* As the papers have it: pre-norm, attention over all tokens so far, MLP, residuals (Touvron et al.
 * 2023; Zhang et al. 2022 for biases and learned positions; Press et al. 2022 for ALiBi). */
#include "kernels/reference/decoder.h"
#include "kernels/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *vectors(int64_t rows, int64_t columns) {
  double *memory = calloc((size_t)(rows * columns), sizeof *memory);
  if (!memory) abort();
  return memory;
}

static void normalise(const Decoder *self, double *out, const double *in, const double *weight,
                      const double *bias) {
  double mean = 0, square = 0;
  for (int32_t i = 0; self->norm == CALIB_LAYER_NORM && i < self->hidden; i++)
    mean += in[i] / self->hidden;
  for (int32_t i = 0; i < self->hidden; i++)
    square += (in[i] - mean) * (in[i] - mean) / self->hidden;
  for (int32_t i = 0; i < self->hidden; i++)
    out[i] = (in[i] - mean) / sqrt(square + 1e-5) * weight[i] + (bias ? bias[i] : 0);
}

static void multiply(double *out, const double *in, const double *weights, const double *bias,
                     int64_t n, int64_t k) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = bias ? bias[i] : 0;
    for (int64_t j = 0; j < k; j++)
      out[i] += weights[i * k + j] * in[j];
  }
}

static void rotate(double *head, int32_t head_dim, int32_t position) {
  for (int32_t i = 0; i < head_dim / 2; i++) {
    const double angle = position * pow(1e4, -2.0 * i / head_dim);
    const double low = head[i], high = head[i + head_dim / 2];
    head[i] = low * cos(angle) - high * sin(angle);
    head[i + head_dim / 2] = high * cos(angle) + low * sin(angle);
  }
}

/* A token's K (0) or V (1) of a head. */
static double *kv_of(const Decoder *self, const DecoderLayer *layer, const int32_t *pages,
                     int32_t token, int kind, int32_t head) {
  const int64_t page = pages[token / self->block_size], offset = token % self->block_size;
  return layer->kv +
         (((page * 2 + kind) * self->kv_heads + head) * self->block_size + offset) * self->head_dim;
}

static void append(const Decoder *self, const DecoderLayer *layer, const DecoderToken *token,
                   double *qkv) {
  const int32_t d = self->head_dim;
  for (int32_t head = 0; head < self->query_heads + 2 * self->kv_heads; head++) {
    const int32_t kv = head - self->query_heads;
    if (self->has_rope && kv < self->kv_heads) rotate(qkv + head * d, d, token->position);
    if (kv < 0) continue;
    memcpy(kv_of(self, layer, token->pages, token->position, kv >= self->kv_heads,
                 kv % self->kv_heads),
           qkv + head * d, (size_t)d * sizeof *qkv);
  }
}

static void attend(const Decoder *self, const DecoderLayer *layer, const DecoderToken *token,
                   double *out, const double *q, int32_t head) {
  const int32_t d = self->head_dim, kv = head / (self->query_heads / self->kv_heads);
  double sum = 0;
  memset(out, 0, (size_t)d * sizeof *out);
  for (int32_t j = 0; j <= token->position; j++) {
    const double *key = kv_of(self, layer, token->pages, j, 0, kv);
    const double *value = kv_of(self, layer, token->pages, j, 1, kv);
    double logit = 0;
    for (int32_t i = 0; i < d; i++)
      logit += q[i] * key[i] / sqrt(d);
    if (self->alibi_slopes) logit -= (double)self->alibi_slopes[head] * (token->position - j);
    const double weight = exp(logit);
    sum += weight;
    for (int32_t i = 0; i < d; i++)
      out[i] += weight * value[i];
  }
  for (int32_t i = 0; i < d; i++)
    out[i] /= sum;
}

static void add(double *to, const double *x, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    to[i] += x[i];
}

static void activate(const Decoder *self, double *out, const double *up) {
  for (int32_t i = 0; i < self->ffn; i++)
    out[i] = reference_activate(self->activation, up[i]) *
             (self->activation == CALIB_SWIGLU ? up[i + self->ffn] : 1);
}

/* K and V of all tokens are in their pages before any token attends. */
static void run_layer(const Decoder *self, const DecoderLayer *layer, const DecoderToken *tokens,
                      int32_t n, double *states) {
  const int32_t h = self->hidden, d = self->head_dim, columns = self->query_heads * d;
  const int32_t qkv_columns = columns + 2 * self->kv_heads * d;
  const int32_t up_columns = (self->activation == CALIB_SWIGLU ? 2 : 1) * self->ffn;
  double *normed = vectors(1, h), *qkv = vectors(n, qkv_columns), *attention = vectors(1, columns);
  double *up = vectors(1, up_columns), *active = vectors(1, self->ffn), *added = vectors(1, h);
  for (int32_t t = 0; t < n; t++) {
    normalise(self, normed, states + (int64_t)t * h, layer->norm_weights[0], layer->norm_biases[0]);
    multiply(qkv + (int64_t)t * qkv_columns, normed, layer->qkv, layer->qkv_bias, qkv_columns, h);
    append(self, layer, &tokens[t], qkv + (int64_t)t * qkv_columns);
  }
  for (int32_t t = 0; t < n; t++) {
    double *state = states + (int64_t)t * h;
    for (int32_t head = 0; head < self->query_heads; head++)
      attend(self, layer, &tokens[t], attention + head * d,
             qkv + (int64_t)t * qkv_columns + head * d, head);
    multiply(added, attention, layer->o, layer->o_bias, h, columns);
    add(state, added, h);
    normalise(self, normed, state, layer->norm_weights[1], layer->norm_biases[1]);
    multiply(up, normed, layer->up, layer->up_bias, up_columns, h);
    activate(self, active, up);
    multiply(added, active, layer->down, layer->down_bias, h, self->ffn);
    add(state, added, h);
  }
  double *const all[] = {normed, qkv, attention, up, active, added};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    free(all[i]);
}

void reference_decoder(const Decoder *self, const DecoderToken *tokens, int32_t n,
                       const int32_t *rows, int32_t n_rows, double *logits) {
  const int32_t h = self->hidden;
  double *states = vectors(n, h), *normed = vectors(1, h);
  for (int32_t t = 0; t < n; t++) {
    add(states + (int64_t)t * h, self->embedding + (int64_t)tokens[t].id * h, h);
    if (self->positions)
      add(states + (int64_t)t * h, self->positions + (int64_t)tokens[t].position * h, h);
  }
  for (int32_t layer = 0; layer < self->layers; layer++)
    run_layer(self, &self->at[layer], tokens, n, states);
  for (int32_t i = 0; i < n_rows; i++) {
    normalise(self, normed, states + (int64_t)rows[i] * h, self->norm_weight, self->norm_bias);
    multiply(logits + (int64_t)i * self->vocab, normed, self->head, NULL, self->vocab, h);
  }
  free(states);
  free(normed);
}
