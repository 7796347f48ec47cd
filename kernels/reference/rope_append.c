/* Rotary positions (Su et al. 2021) with the pairs (i, i + head_dim/2) that Llama has; pages. */
#include <math.h>

#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"

/* Element i of a head turned by its position. */
static double rotated(CalibDtype dtype, const uint16_t *head, int32_t head_dim, int32_t i,
                      int32_t position, double theta) {
  const int32_t half = head_dim / 2, pair = i % half;
  const double angle = position * pow(theta, -2.0 * pair / head_dim);
  const double first = half_load(dtype, head, pair), second = half_load(dtype, head, pair + half);
  return i < half ? first * cos(angle) - second * sin(angle)
                  : second * cos(angle) + first * sin(angle);
}

/* Element 0 of a token's K (kind 0) or V (kind 1) in [page][kind][kv_head][token][head_dim]. */
static int64_t pool_index(const KernelAttention *shape, int32_t slot, int kind, int32_t head) {
  const int64_t page = slot / shape->block_size, offset = slot % shape->block_size;
  return (((page * 2 + kind) * shape->kv_heads + head) * shape->block_size + offset) *
         shape->head_dim;
}

void reference_rope_append(const KernelAttention *shape, double *q, double *kv_pages,
                           const void *qkv, const int32_t *slots, const int32_t *positions,
                           double theta, int32_t tokens) {
  const int32_t d = shape->head_dim, n_q = shape->query_heads, n_kv = shape->kv_heads;
  for (int64_t t = 0; t < tokens; t++) {
    for (int32_t head = 0; head < n_q + 2 * n_kv; head++) {
      const uint16_t *const from = (const uint16_t *)qkv + (t * (n_q + 2 * n_kv) + head) * d;
      const int32_t kv = head - n_q;
      double *const to = head < n_q ? q + (t * n_q + head) * d
                                    : kv_pages + pool_index(shape, slots[t], kv >= n_kv, kv % n_kv);
      for (int32_t i = 0; i < d; i++)
        to[i] = positions && head < n_q + n_kv
                    ? rotated(shape->dtype, from, d, i, positions[t], theta)
                    : half_load(shape->dtype, from, i);
    }
  }
}
