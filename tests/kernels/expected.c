/* See expected.h. */
#include "tests/kernels/expected.h"
#include "calib/reference.h"
#include "kernels/fp8.h"
#include "kernels/half.h"
#include "kernels/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *room(int64_t n, size_t size) {
  void *memory = calloc((size_t)n + 1, size);
  if (!memory) abort();
  return memory;
}

double *decoded(CalibDtype dtype, const void *elements, int64_t n) {
  double *const values = room(n, sizeof *values);
  for (int64_t i = 0; i < n; i++)
    values[i] = half_load(dtype, elements, i);
  return values;
}

/* Element 0 of a token's K (kind 0) or V (kind 1) in [page][kind][kv_head][token][head_dim]. */
static int64_t pool_index(const KernelAttention *shape, int32_t page, int32_t offset, int kind,
                          int32_t head) {
  const int64_t part = ((int64_t)page * 2 + kind) * shape->kv_heads + head;
  return (part * shape->block_size + offset) * shape->head_dim;
}

/* The keys (or values) of one head for a sequence, as [context][head_dim] doubles. */
static void gather(const KernelAttention *shape, double *out, const int32_t *pages, int32_t context,
                   int32_t kv_head, int kind) {
  for (int32_t token = 0; token < context; token++) {
    const int64_t at = pool_index(shape, pages[token / shape->block_size],
                                  token % shape->block_size, kind, kv_head);
    for (int32_t i = 0; i < shape->head_dim; i++)
      *out++ = half_load(shape->dtype, shape->kv_pages, at + i);
  }
}

void expected_attention(const KernelAttention *shape, double *out, const void *q, int64_t q_stride,
                        const int32_t *row_starts, const int32_t *past, int32_t sequences) {
  const int32_t dim = shape->head_dim, group = shape->query_heads / shape->kv_heads;
  const int64_t tokens = (int64_t)shape->max_pages * shape->block_size;
  double *keys = room(tokens * dim, sizeof *keys), *values = room(tokens * dim, sizeof *values);
  for (int32_t pair = 0; pair < sequences * shape->query_heads; pair++) {
    const int32_t i = pair / shape->query_heads, head = pair % shape->query_heads;
    const double slope = shape->alibi_slopes ? shape->alibi_slopes[head] : 0;
    const int32_t *pages = shape->page_table + (int64_t)i * shape->max_pages;
    const int32_t rows = row_starts[i + 1] - row_starts[i];
    gather(shape, keys, pages, past[i] + rows, head / group, 0);
    gather(shape, values, pages, past[i] + rows, head / group, 1);
    for (int32_t row = 0; row < rows; row++) {
      const int64_t at = row_starts[i] + row;
      double *query =
          decoded(shape->dtype, (const uint16_t *)q + at * q_stride + (int64_t)head * dim, dim);
      reference_attend(out + (at * shape->query_heads + head) * dim, query, keys, values, dim,
                       past[i] + row + 1, dim, shape->scale, slope);
      free(query);
    }
  }
  free(keys);
  free(values);
}

void expected_norm(CalibDtype dtype, CalibNorm norm, double *out, void *residual, const void *x,
                   const void *weight, const void *bias, int32_t tokens, int32_t hidden) {
  const int64_t n = (int64_t)tokens * hidden;
  for (int64_t i = 0; x && i < n; i++)
    half_store(dtype, residual, i, half_load(dtype, residual, i) + half_load(dtype, x, i));
  double *in = decoded(dtype, residual, n);
  double *weights = decoded(dtype, weight, hidden);
  double *biases = bias ? decoded(dtype, bias, hidden) : NULL;
  reference_norm(norm, out, in, weights, biases, tokens, hidden);
  free(in);
  free(weights);
  free(biases);
}

void expected_rope_append(const KernelAttention *shape, double *q, double *kv_pages,
                          const void *qkv, const int32_t *slots, const int32_t *positions,
                          double theta, KernelHeadNorms norms, int32_t tokens) {
  const int32_t d = shape->head_dim, n_q = shape->query_heads, n_kv = shape->kv_heads;
  const int64_t columns = (int64_t)(n_q + 2 * n_kv) * d;
  double *of_q = norms.q ? decoded(shape->dtype, norms.q, d) : NULL;
  double *of_k = norms.q ? decoded(shape->dtype, norms.k, d) : NULL;
  for (int64_t t = 0; t < tokens; t++) {
    double *row = decoded(shape->dtype, (const uint16_t *)qkv + t * columns, columns);
    if (norms.q) reference_norm_heads(row, of_q, of_k, n_q, n_kv, d);
    if (positions) reference_rotate(row, n_q + n_kv, d, positions[t], theta);
    memcpy(q + t * n_q * d, row, (size_t)(n_q * d) * sizeof *row);
    for (int32_t head = 0; head < 2 * n_kv; head++)
      memcpy(kv_pages + pool_index(shape, slots[t] / shape->block_size,
                                   slots[t] % shape->block_size, head >= n_kv, head % n_kv),
             row + (int64_t)(n_q + head) * d, (size_t)d * sizeof *row);
    free(row);
  }
  free(of_q);
  free(of_k);
}

void expected_activation(CalibDtype dtype, CalibActivation activation, double *out, const void *in,
                         int32_t tokens, int32_t ffn) {
  const int64_t columns = activation == CALIB_SWIGLU ? 2 * (int64_t)ffn : ffn;
  double *x = decoded(dtype, in, tokens * columns);
  reference_activation(activation, out, x, tokens, ffn);
  free(x);
}

void expected_embedding(CalibDtype dtype, double *out, const int32_t *ids, const void *table,
                        const int32_t *positions, const void *positions_table, int32_t tokens,
                        int32_t hidden) {
  for (int64_t i = 0; i < (int64_t)tokens * hidden; i++) {
    const int64_t t = i / hidden, column = i % hidden;
    out[i] = half_load(dtype, table, (int64_t)ids[t] * hidden + column);
    if (positions_table)
      out[i] += half_load(dtype, positions_table, (int64_t)positions[t] * hidden + column);
  }
}

void expected_argmax(CalibDtype dtype, int32_t *ids, const void *logits, int32_t rows,
                     int32_t vocab) {
  double *numbers = decoded(dtype, logits, (int64_t)rows * vocab);
  for (int64_t row = 0; row < rows; row++)
    ids[row] = (int32_t)reference_argmax(numbers + row * vocab, vocab);
  free(numbers);
}

void expected_kv_gather(void *buffer, const void *kv_pages, const int32_t *pages, int32_t n_pages,
                        int64_t page_bytes) {
  for (int64_t i = 0; i < n_pages; i++)
    memcpy((char *)buffer + i * page_bytes, (const char *)kv_pages + pages[i] * page_bytes,
           (size_t)page_bytes);
}

void expected_kv_scatter(void *kv_pages, const void *buffer, const int32_t *pages, int32_t n_pages,
                         int64_t page_bytes) {
  for (int64_t i = 0; i < n_pages; i++)
    memcpy((char *)kv_pages + pages[i] * page_bytes, (const char *)buffer + i * page_bytes,
           (size_t)page_bytes);
}

/* Normal numbers from counters: Philox words by Box and Muller (1958). */
void expected_fill_normal(double *out, int64_t n, double deviation, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) {
    const PhiloxWords words = philox_group((uint64_t)i / 4, seed);
    const int64_t pair = i % 4 / 2;
    const double radius = sqrt(-2 * log((words.at[2 * pair] + 0.5) * 0x1p-32));
    const double angle = 2 * acos(-1) * words.at[2 * pair + 1] * 0x1p-32;
    out[i] = deviation * radius * (i % 2 == 0 ? cos(angle) : sin(angle));
  }
}

void expected_gemm(const GemmShape *shape, double *c, const void *a, const void *w,
                   const void *bias) {
  const int64_t m = shape->m, n = shape->n, k = shape->k;
  double *in = decoded(shape->dtype, a, m * k);
  double *weights = decoded(shape->dtype, w, n * k);
  double *biases = shape->epilogue == GEMM_PLAIN ? NULL : decoded(shape->dtype, bias, n);
  reference_product(c, in, weights, biases, m, n, k);
  for (int64_t i = 0; i < m * n; i++) {
    if (shape->epilogue == GEMM_BIAS_GELU) c[i] = reference_activate(CALIB_GELU, c[i]);
    if (shape->epilogue == GEMM_BIAS_RELU) c[i] = reference_activate(CALIB_RELU, c[i]);
  }
  free(in);
  free(weights);
  free(biases);
}

void expected_gemm_scaled(const GemmShape *shape, double *c, const uint8_t *a,
                          const float *a_scales, const uint8_t *w, const float *w_scales) {
  const int64_t m = shape->m, n = shape->n, k = shape->k;
  const bool in_blocks = shape->weights == CALIB_FP8_BLOCK;
  double *in = room(m * k, sizeof *in), *weights = room(n * k, sizeof *weights);
  for (int64_t i = 0; i < m * k; i++) {
    const int64_t at = i % k / FP8_BLOCK * fp8_rows(shape->m) + i / k;
    in[i] = e4m3_decode(a[i]) * a_scales[in_blocks ? at : 0];
  }
  for (int64_t i = 0; i < n * k; i++) {
    const int64_t at = i / k / FP8_BLOCK * fp8_k_blocks(shape->k) + i % k / FP8_BLOCK;
    weights[i] = e4m3_decode(w[i]) * w_scales[in_blocks ? at : 0];
  }
  reference_product(c, in, weights, NULL, m, n, k);
  free(in);
  free(weights);
}
