/* The formulas. */
#include "calib/reference.h"
#include "sim/base/arena.h"
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

/* A row of weights serves all rows while it is in the cache. */
void reference_product(double *out, const double *in, const double *weights, const double *bias,
                       int64_t rows, int64_t n, int64_t k) {
  for (int64_t column = 0; column < n; column++, weights += k) {
    for (int64_t row = 0; row < rows; row++) {
      const double *x = in + row * k;
      double sums[4] = {0}; // independent, so that additions overlap
      int64_t i = 0;
      for (; i + 4 <= k; i += 4)
        for (int part = 0; part < 4; part++)
          sums[part] += x[i + part] * weights[i + part];
      for (; i < k; i++)
        sums[0] += x[i] * weights[i];
      out[row * n + column] = sums[0] + sums[1] + sums[2] + sums[3] + (bias ? bias[column] : 0);
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
    double logit = slope * (double)(t - (context - 1));
    for (int32_t i = 0; i < head_dim; i++)
      logit += query[i] * keys[t * stride + i] * scale;
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
  reference_product(rows->qkv, normed, layer->qkv, layer->qkv_bias, rows->n, w.qkv, w.hidden);
  for (int64_t i = 0; i < rows->n; i++) {
    double *qkv = rows->qkv + i * w.qkv;
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

void reference_layer_end(const CalibModel *model, const ReferenceLayer *layer,
                         const ReferenceRows *rows) {
  const Widths w = widths_of(model);
  Arena arena;
  arena_init(&arena);
  double *normed = ARENA_ARRAY(&arena, double, rows->n *w.hidden);
  double *up = ARENA_ARRAY(&arena, double, rows->n *w.up);
  double *active = ARENA_ARRAY(&arena, double, rows->n *w.ffn);
  reference_product(rows->added, rows->attention, layer->o, layer->o_bias, rows->n, w.hidden,
                    w.attention);
  add(rows->residual, rows->added, rows->n * w.hidden);
  reference_norm(model->norm, normed, rows->residual, layer->ffn_norm, layer->ffn_norm_bias,
                 rows->n, w.hidden);
  reference_product(up, normed, layer->up, layer->up_bias, rows->n, w.up, w.hidden);
  reference_activation(model->activation, active, up, rows->n, w.ffn);
  reference_product(rows->added, active, layer->down, layer->down_bias, rows->n, w.hidden, w.ffn);
  arena_done(&arena);
}
