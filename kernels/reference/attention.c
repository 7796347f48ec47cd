/* The formula, row by row and head by head. */
#include "kernels/reference/attention.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/reference/half.h"

/* The keys (or values) of one head for a sequence, as [context][head_dim] doubles. */
static void gather(const KernelAttention *shape, double *out, const int32_t *pages, int32_t context,
                   int32_t kv_head, int32_t is_value) {
  for (int32_t token = 0; token < context; token++) {
    int32_t page = pages[token / shape->block_size], offset = token % shape->block_size;
    int64_t part = ((int64_t)page * 2 + is_value) * shape->kv_heads + kv_head;
    int64_t at = (part * shape->block_size + offset) * shape->head_dim;
    for (int32_t i = 0; i < shape->head_dim; i++) {
      *out++ = half_load(shape->dtype, shape->kv_pages, at + i);
    }
  }
}

/* One row, given its query in doubles; logits is room for `context` of them. */
static void attend(const KernelAttention *shape, double *out, const double *query,
                   const double *keys, const double *values, double slope, int32_t context,
                   double *logits) {
  double max = -INFINITY, sum = 0;
  for (int32_t token = 0; token < context; token++) {
    double dot = 0;
    for (int32_t i = 0; i < shape->head_dim; i++) {
      dot += query[i] * keys[token * shape->head_dim + i];
    }
    logits[token] = dot * shape->scale + slope * (token - (context - 1));
    max = fmax(max, logits[token]);
  }
  for (int32_t i = 0; i < shape->head_dim; i++) {
    out[i] = 0;
  }
  for (int32_t token = 0; token < context; token++) {
    double weight = exp(logits[token] - max);
    sum += weight;
    for (int32_t i = 0; i < shape->head_dim; i++) {
      out[i] += weight * values[token * shape->head_dim + i];
    }
  }
  for (int32_t i = 0; i < shape->head_dim; i++) {
    out[i] /= sum;
  }
}

void reference_attention(const KernelAttention *shape, double *out, const void *q, int64_t q_stride,
                         const int32_t *row_starts, const int32_t *past, int32_t sequences) {
  const int32_t dim = shape->head_dim, group = shape->query_heads / shape->kv_heads;
  size_t tokens = (size_t)shape->max_pages * (size_t)shape->block_size;
  double *keys = malloc(tokens * (size_t)dim * sizeof *keys);
  double *values = malloc(tokens * (size_t)dim * sizeof *values);
  double *logits = malloc(tokens * sizeof *logits);
  double *query = malloc((size_t)dim * sizeof *query);
  for (int32_t pair = 0; pair < sequences * shape->query_heads; pair++) {
    int32_t i = pair / shape->query_heads, head = pair % shape->query_heads;
    double slope = shape->alibi_slopes != NULL ? shape->alibi_slopes[head] : 0;
    const int32_t *pages = shape->page_table + (int64_t)i * shape->max_pages;
    int32_t rows = row_starts[i + 1] - row_starts[i];
    gather(shape, keys, pages, past[i] + rows, head / group, 0);
    gather(shape, values, pages, past[i] + rows, head / group, 1);
    for (int32_t row = 0; row < rows; row++) {
      int64_t at = row_starts[i] + row;
      for (int32_t k = 0; k < dim; k++) {
        query[k] = half_load(shape->dtype, q, at * q_stride + head * dim + k);
      }
      attend(shape, out + (at * shape->query_heads + head) * dim, query, keys, values, slope,
             past[i] + row + 1, logits);
    }
  }
  free(keys);
  free(values);
  free(logits);
  free(query);
}
