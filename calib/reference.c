/* The formulas. */
#include "calib/reference.h"
#include "base/arena.h"
#include "calib/spread.h"
#include <math.h>
#include <string.h>

void reference_norm(CalibNorm norm, double *out, const double *in, const double *weight,
                    const double *bias, int64_t rows, int64_t hidden) {
  for (; rows > 0; rows--, in += hidden, out += hidden) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; norm == CALIB_LAYER_NORM && i < hidden; i++)
      mean += in[i] / (double)hidden;
    for (int64_t i = 0; i < hidden; i++)
      squares += (in[i] - mean) * (in[i] - mean);
    const double deviation = sqrt(squares / (double)hidden + REFERENCE_EPSILON);
    for (int64_t i = 0; i < hidden; i++)
      out[i] = (in[i] - mean) / deviation * weight[i] + (bias ? bias[i] : 0);
  }
}

static double dot(const double *x, const double *y, int64_t n) {
  double sums[4] = {0}; // independent, so that additions overlap
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int part = 0; part < 4; part++)
      sums[part] += x[i + part] * y[i + part];
  for (; i < n; i++)
    sums[0] += x[i] * y[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

typedef struct Product {
  double *out;
  const double *in, *weights, *bias;
  int64_t rows, n, k;
} Product;

/* A row of weights serves all rows while it is in the cache. */
static void make_columns(const void *work, int64_t begin, int64_t end) {
  const Product *self = work;
  for (int64_t column = begin; column < end; column++)
    for (int64_t row = 0; row < self->rows; row++)
      self->out[row * self->n + column] =
          dot(self->in + row * self->k, self->weights + column * self->k, self->k) +
          (self->bias ? self->bias[column] : 0);
}

void reference_product(double *out, const double *in, const double *weights, const double *bias,
                       int64_t rows, int64_t n, int64_t k) {
  const Product product = {out, in, weights, bias, rows, n, k};
  spread(make_columns, &product, n, (double)rows * (double)n * (double)k);
}

double reference_e4m3(double x) {
  const double most = 448, size = fabs(x);
  if (isnan(x)) return x;
  if (size >= most) return copysign(most, x);
  const double step = size < 0x1p-6 ? 0x1p-9 : ldexp(1, ilogb(size) - 3);
  return copysign(nearbyint(size / step) * step, x);
}

/* Rounded to the 24 bits of fp32, ranges apart. */
static double in_fp32(double x) {
  int exponent;
  const double part = frexp(x, &exponent);
  return ldexp(nearbyint(ldexp(part, 24)), exponent - 24);
}

/* In fp32, as a kernel does it: a number halfway goes the same way. */
void reference_quantize(CalibWeights weights, double *in, int64_t rows, int64_t k) {
  enum { GROUP = 128 };
  for (int64_t row = 0; weights != CALIB_WEIGHTS_PLAIN && row < rows; row++, in += k) {
    for (int64_t begin = 0; begin < k; begin += GROUP) {
      const int64_t end = begin + GROUP < k ? begin + GROUP : k;
      double most = in_fp32(1e-12), scale = CALIB_FP8_INPUT_SCALE;
      for (int64_t i = begin; i < end; i++)
        most = fmax(most, in_fp32(fabs(in[i])));
      if (weights == CALIB_FP8_BLOCK) scale = in_fp32(most / 448);
      const double inverse = in_fp32(1 / scale);
      for (int64_t i = begin; i < end; i++)
        in[i] = reference_e4m3(in_fp32(in_fp32(in[i]) * inverse)) * scale;
    }
  }
}

void reference_rotate(double *heads, int32_t n_heads, int32_t head_dim, double position,
                      double theta) {
  const int32_t half = head_dim / 2;
  for (int32_t i = 0; i < half; i++) {
    const double angle = position * pow(theta, -2.0 * i / head_dim);
    for (int32_t h = 0; h < n_heads; h++) {
      double *first = heads + h * head_dim + i, *second = first + half;
      const double x = *first, y = *second;
      *first = x * cos(angle) - y * sin(angle);
      *second = y * cos(angle) + x * sin(angle);
    }
  }
}

double reference_activate(CalibActivation activation, double x) {
  switch (activation) {
  case CALIB_SWIGLU:
    return x / (1 + exp(-x));
  case CALIB_GELU:
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
  case CALIB_RELU:
    return x > 0 ? x : 0;
  }
  return NAN;
}

void reference_activation(CalibActivation activation, double *out, const double *in, int64_t rows,
                          int64_t ffn) {
  const bool has_gate = activation == CALIB_SWIGLU;
  for (; rows > 0; rows--, in += has_gate ? 2 * ffn : ffn, out += ffn)
    for (int64_t i = 0; i < ffn; i++)
      out[i] = reference_activate(activation, in[i]) * (has_gate ? in[ffn + i] : 1);
}

void reference_attend(double *out, const double *query, const double *keys, const double *values,
                      int64_t stride, int64_t context, int32_t head_dim, double scale,
                      double slope) {
  double maximum = -INFINITY, sum = 0;
  memset(out, 0, (size_t)head_dim * sizeof *out);
  for (int64_t t = 0; t < context; t++) {
    const double logit =
        slope * (double)(t - (context - 1)) + scale * dot(query, keys + t * stride, head_dim);
    /* What was summed against a smaller maximum shrinks. */
    const double shrink = logit > maximum ? exp(maximum - logit) : 1;
    if (logit > maximum) maximum = logit;
    const double weight = exp(logit - maximum);
    sum = sum * shrink + weight;
    for (int32_t i = 0; i < head_dim; i++)
      out[i] = out[i] * shrink + weight * values[t * stride + i];
  }
  for (int32_t i = 0; i < head_dim; i++)
    out[i] /= sum;
}

static double or_least(double logit) {
  return isnan(logit) ? -INFINITY : logit;
}

void reference_choose(int64_t *chosen, const double *logits, int64_t experts, int64_t per_token) {
  for (int64_t k = 0; k < per_token; k++) {
    chosen[k] = -1;
    for (int64_t e = 0; e < experts; e++) {
      bool is_taken = false;
      for (int64_t i = 0; i < k; i++)
        is_taken |= chosen[i] == e;
      if (is_taken) continue;
      if (chosen[k] < 0 || or_least(logits[e]) > or_least(logits[chosen[k]])) chosen[k] = e;
    }
  }
}

void reference_shares(CalibRouter router, double *shares, const double *logits,
                      const int64_t *chosen, int64_t per_token) {
  double sum = 0, greatest = -INFINITY;
  for (int64_t k = 0; k < per_token; k++)
    greatest = fmax(greatest, logits[chosen[k]]);
  for (int64_t k = 0; k < per_token; k++) {
    const double logit = or_least(logits[chosen[k]]);
    shares[k] = router == CALIB_SIGMOID ? 1 / (1 + exp(-logit)) : exp(logit - greatest);
    sum += shares[k];
  }
  for (int64_t k = 0; k < per_token; k++)
    shares[k] /= sum;
}

int64_t reference_argmax(const double *numbers, int64_t n) {
  int64_t best = 0;
  double greatest = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (!(numbers[i] > greatest)) continue;
    greatest = numbers[i];
    best = i;
  }
  return best;
}

void reference_norm_heads(double *heads, const double *q, const double *k, int32_t query_heads,
                          int32_t kv_heads, int32_t head_dim) {
  double *keys = heads + (int64_t)query_heads * head_dim;
  reference_norm(CALIB_RMS_NORM, heads, heads, q, NULL, query_heads, head_dim);
  reference_norm(CALIB_RMS_NORM, keys, keys, k, NULL, kv_heads, head_dim);
}

/* ---- A layer ---- */

typedef struct Widths {
  int64_t hidden, attention, kv, qkv, ffn, up;
} Widths;

static Widths widths_of(const CalibModel *model) {
  Widths w = {.hidden = model->hidden_size,
              .attention = (int64_t)calib_query_heads(model) * model->head_dim,
              .kv = (int64_t)calib_kv_heads(model) * model->head_dim,
              .ffn = calib_ffn(model)};
  w.qkv = w.attention + 2 * w.kv;
  w.up = model->activation == CALIB_SWIGLU ? 2 * w.ffn : w.ffn;
  return w;
}

/* One of a layer's products, whose inputs are quantized first if its weights are. */
static void layer_product(const CalibModel *model, double *out, const double *in,
                          const double *weights, const double *bias, int64_t rows, int64_t n,
                          int64_t k) {
  Arena arena;
  arena_init(&arena);
  double *quantized = ARENA_ARRAY(&arena, double, rows *k);
  memcpy(quantized, in, (size_t)(rows * k) * sizeof *in);
  reference_quantize(model->weights, quantized, rows, k);
  reference_product(out, quantized, weights, bias, rows, n, k);
  arena_done(&arena);
}

static void add(double *to, const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] += x[i];
}

void reference_layer_begin(const CalibModel *model, const ReferenceLayer *layer,
                           const ReferenceRows *rows) {
  const Widths w = widths_of(model);
  const int32_t rotated = calib_query_heads(model) + calib_kv_heads(model);
  Arena arena;
  arena_init(&arena);
  double *normed = ARENA_ARRAY(&arena, double, rows->n *w.hidden);
  add(rows->residual, rows->added, rows->n * w.hidden);
  reference_norm(model->norm, normed, rows->residual, layer->norm, layer->norm_bias, rows->n,
                 w.hidden);
  layer_product(model, rows->qkv, normed, layer->qkv, layer->qkv_bias, rows->n, w.qkv, w.hidden);
  for (int64_t i = 0; i < rows->n; i++) {
    double *qkv = rows->qkv + i * w.qkv;
    if (layer->q_norm)
      reference_norm_heads(qkv, layer->q_norm, layer->k_norm, calib_query_heads(model),
                           calib_kv_heads(model), model->head_dim);
    if (model->positions == CALIB_ROPE)
      reference_rotate(qkv, rotated, model->head_dim, rows->positions[i], REFERENCE_THETA);
    if (!rows->keys) continue;
    const int64_t place = (rows->contexts[i] - 1) * w.kv;
    memcpy(rows->keys[i] + place, qkv + w.attention, (size_t)w.kv * sizeof *qkv);
    memcpy(rows->values[i] + place, qkv + w.attention + w.kv, (size_t)w.kv * sizeof *qkv);
  }
  arena_done(&arena);
}

void reference_layer_attend(const CalibModel *model, const ReferenceRows *rows, int64_t i) {
  const Widths w = widths_of(model);
  const int32_t dim = model->head_dim, heads = calib_query_heads(model);
  const int32_t group = heads / calib_kv_heads(model);
  for (int32_t h = 0; h < heads; h++) {
    const double slope = model->positions == CALIB_ALIBI ? calib_alibi_slope(model, h) : 0;
    reference_attend(rows->attention + i * w.attention + h * dim, rows->qkv + i * w.qkv + h * dim,
                     rows->keys[i] + h / group * dim, rows->values[i] + h / group * dim, w.kv,
                     rows->contexts[i], dim, 1 / sqrt(dim), slope);
  }
}

/* Rows through the MLP, or through that of one expert. */
static void mlp(const CalibModel *model, const ReferenceLayer *layer, double *out,
                const double *normed, int64_t rows, int64_t expert) {
  const Widths w = widths_of(model);
  Arena arena;
  arena_init(&arena);
  double *up = ARENA_ARRAY(&arena, double, rows *w.up);
  double *active = ARENA_ARRAY(&arena, double, rows *w.ffn);
  layer_product(model, up, normed, layer->up + expert * w.up * w.hidden, layer->up_bias, rows, w.up,
                w.hidden);
  reference_activation(model->activation, active, up, rows, w.ffn);
  layer_product(model, out, active, layer->down + expert * w.hidden * w.ffn, layer->down_bias, rows,
                w.hidden, w.ffn);
  arena_done(&arena);
}

/* A row after the other through each of its experts. */
static void mix(const CalibModel *model, const ReferenceLayer *layer, const ReferenceRows *rows,
                const double *normed) {
  const int64_t n = model->num_experts, picked = model->num_experts_per_tok;
  const int64_t hidden = model->hidden_size;
  Arena arena;
  arena_init(&arena);
  double *logits = ARENA_ARRAY(&arena, double, n), *shares = ARENA_ARRAY(&arena, double, picked);
  double *out = ARENA_ARRAY(&arena, double, hidden);
  int64_t *chosen = ARENA_ARRAY(&arena, int64_t, picked);
  for (int64_t i = 0; i < rows->n; i++, normed += hidden) {
    reference_product(logits, normed, layer->router, NULL, 1, n, hidden);
    if (rows->router_logits)
      memcpy(rows->router_logits + i * n, logits, (size_t)n * sizeof *logits);
    if (rows->experts)
      memcpy(chosen, rows->experts + i * picked, (size_t)picked * sizeof *chosen);
    else
      reference_choose(chosen, logits, n, picked);
    reference_shares(model->router, shares, logits, chosen, picked);
    for (int64_t k = 0; k < picked; k++) {
      mlp(model, layer, out, normed, 1, chosen[k]);
      for (int64_t h = 0; h < hidden; h++)
        rows->added[i * hidden + h] =
            (k > 0 ? rows->added[i * hidden + h] : 0) + shares[k] * out[h];
    }
  }
  arena_done(&arena);
}

void reference_layer_end(const CalibModel *model, const ReferenceLayer *layer,
                         const ReferenceRows *rows) {
  const Widths w = widths_of(model);
  Arena arena;
  arena_init(&arena);
  double *normed = ARENA_ARRAY(&arena, double, rows->n *w.hidden);
  layer_product(model, rows->added, rows->attention, layer->o, layer->o_bias, rows->n, w.hidden,
                w.attention);
  add(rows->residual, rows->added, rows->n * w.hidden);
  reference_norm(model->norm, normed, rows->residual, layer->ffn_norm, layer->ffn_norm_bias,
                 rows->n, w.hidden);
  if (model->num_experts > 0)
    mix(model, layer, rows, normed);
  else
    mlp(model, layer, rows->added, normed, rows->n, 0);
  arena_done(&arena);
}
