/* The checks of what reads and writes pages of KV, in a pool of a few pages and for attention of at
 * most two of the shard's key and value heads with all that share them. */
#include "kernels/cuda_check.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"
#include <math.h>
#include <string.h>

enum { APPEND_PAGES = 8, ATTENTION_PAGES = 64, MAX_KV_HEADS = 2 };

/* A place in few pages, so that all of them can be fetched. */
static CalibStatus set_batch(Check *self, int32_t kv_heads, int64_t n_pages,
                             const CalibBatch *batch) {
  BatchPlace place = lane_place(self->state, 1);
  place.kv_heads = kv_heads;
  if (place.n_pages > n_pages) place.n_pages = n_pages;
  return lane_set_batch_at(self->state, self->lane, &place, batch, self->error);
}

CalibStatus check_rope_append(Check *self, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  const LayerShape *s = &state->shape;
  const CalibSequence sequences[] = {{12, 7}, {5, 0}};
  const CalibBatch batch = {.sequences = sequences, .n_prefills = 2};
  TRY(set_batch(self, s->kv_heads, APPEND_PAGES, &batch));
  CudaLane *lane = self->lane;
  const int64_t pool = lane->layout.part_pages * state->memory.page_bytes / 2;
  const KernelAttention attention = model_attention(state, lane, 0);
  const bool has_rope = state->model.positions == CALIB_ROPE;
  void *qkv = NULL;
  const uint16_t *before = NULL;
  TRY(check_fetch(self, &qkv, check_tensor(self, TENSOR_QKV), 2 * (int64_t)CHECK_ROWS * s->qkv));
  TRY(check_fetch(self, &before, state->kv.data, 2 * pool));
  double *q = check_take(self, 8 * (int64_t)CHECK_ROWS * s->attention),
         *pages = check_take(self, 8 * pool);
  for (int64_t i = 0; i < pool; i++)
    pages[i] = half_decode(state->model.dtype, before[i]);
  reference_rope_append(&attention, q, pages, qkv, lane->layout.at.slots,
                        has_rope ? lane->layout.at.positions : NULL, 1e4, CHECK_ROWS);
  CUDA_TRY(kernel_rope_append(lane->stream, &attention, check_tensor(self, TENSOR_QKV),
                              state->kv.data, lane->batch.slots,
                              has_rope ? lane->batch.positions : NULL, 1e4f, CHECK_ROWS));
  double pages_error = 0;
  TRY(check_compare(self, state->kv.data, pages, pool, &pages_error));
  *ret_error = pages_error;
  /* q is the head of each row of qkv. */
  for (int64_t row = 0; row < CHECK_ROWS; row++) {
    const char *at = (const char *)check_tensor(self, TENSOR_QKV) + 2 * row * s->qkv;
    double row_error = 0;
    TRY(check_compare(self, at, q + row * s->attention, s->attention, &row_error));
    *ret_error = fmax(*ret_error, row_error);
  }
  return CALIB_OK;
}

/* At most MAX_KV_HEADS of the heads, with their whole groups; a pool of those. */
static KernelAttention few_heads(const Check *self) {
  KernelAttention attention = model_attention(self->state, self->lane, 0);
  const int32_t group = attention.query_heads / attention.kv_heads;
  if (attention.kv_heads > MAX_KV_HEADS) attention.kv_heads = MAX_KV_HEADS;
  attention.query_heads = group * attention.kv_heads;
  return attention;
}

/* The same attention on the host. Rows of decodes count as chunks of one token. */
static CalibStatus compare_attention(Check *self, const KernelAttention *attention,
                                     const int32_t *row_starts, const int32_t *past,
                                     double *ret_error) {
  CudaState *state = self->state;
  const BatchLayout *layout = &self->lane->layout;
  const int64_t heads = attention->query_heads, columns = heads * attention->head_dim;
  KernelAttention host = *attention;
  void *q = NULL, *pages = NULL, *slopes = NULL;
  const int64_t page_elements =
      2 * (int64_t)attention->kv_heads * attention->head_dim * attention->block_size;
  TRY(check_fetch(self, &q, check_tensor(self, TENSOR_QKV),
                  2 * (int64_t)layout->tokens * state->shape.qkv));
  TRY(check_fetch(self, &pages, attention->kv_pages, 2 * layout->part_pages * page_elements));
  if (attention->alibi_slopes)
    TRY(check_fetch(self, &slopes, attention->alibi_slopes, heads * (int64_t)sizeof(float)));
  host.kv_pages = pages;
  host.alibi_slopes = slopes;
  host.page_table = layout->at.page_table;
  double *out = check_take(self, 8 * layout->tokens * columns);
  reference_attention(&host, out, q, state->shape.qkv, row_starts, past,
                      layout->n_prefills + layout->n_decodes);
  return check_compare(self, check_tensor(self, TENSOR_ATTENTION), out, layout->tokens * columns,
                       ret_error);
}

CalibStatus check_prefill(Check *self, double *ret_error) {
  char *error = self->error;
  const CalibSequence sequences[] = {{CHECK_ROWS, 0}, {1, 30}, {33, 64}};
  const CalibBatch batch = {.sequences = sequences, .n_prefills = 3};
  TRY(set_batch(self, MAX_KV_HEADS, ATTENTION_PAGES, &batch));
  CudaLane *lane = self->lane;
  const KernelAttention attention = few_heads(self);
  TRY(check_poison(self, check_tensor(self, TENSOR_ATTENTION),
                   2 * (int64_t)lane->layout.tokens * attention.query_heads * attention.head_dim));
  CUDA_TRY(kernel_attention_prefill(lane->stream, &attention, check_tensor(self, TENSOR_ATTENTION),
                                    check_tensor(self, TENSOR_QKV), self->state->shape.qkv,
                                    lane->batch.row_starts, lane->batch.past,
                                    lane->layout.n_prefills, lane->layout.max_new));
  return compare_attention(self, &attention, lane->layout.at.row_starts, lane->layout.at.past,
                           ret_error);
}

CalibStatus check_decode(Check *self, double *ret_error) {
  enum { N = 4 };
  char *error = self->error;
  const CalibSequence sequences[N] = {{1, 0}, {1, 16}, {1, 128}, {1, 299}};
  const CalibBatch batch = {.sequences = sequences, .n_decodes = N};
  TRY(set_batch(self, MAX_KV_HEADS, ATTENTION_PAGES, &batch));
  CudaLane *lane = self->lane;
  const KernelAttention attention = few_heads(self);
  TRY(check_poison(self, check_tensor(self, TENSOR_ATTENTION),
                   2 * (int64_t)N * attention.query_heads * attention.head_dim));
  CUDA_TRY(kernel_attention_decode(lane->stream, &attention, check_tensor(self, TENSOR_ATTENTION),
                                   check_tensor(self, TENSOR_QKV), self->state->shape.qkv,
                                   lane->batch.contexts, lane->batch.split_starts,
                                   lane->batch.split_sequences, lane->layout.split_tokens, N,
                                   lane->layout.total_splits, check_tensor(self, TENSOR_SPLITS)));
  const int32_t rows[N + 1] = {0, 1, 2, 3, 4}, past[N] = {0, 16, 128, 299};
  return compare_attention(self, &attention, rows, past, ret_error);
}

/* Gather some pages, scatter them to others: bytes must be the same. */
CalibStatus check_kv_copy(Check *self, double *ret_error) {
  enum { N = 5 };
  CudaState *state = self->state;
  char *error = self->error;
  const int64_t bytes = state->memory.page_bytes;
  const int32_t pages[2 * N] = {9, 2, 11, 4, 7, 8, 1, 10, 3, 6};
  cudaStream_t stream = self->lane->stream;
  TRY(buffer_reserve(&state->pages, sizeof pages, error));
  TRY(buffer_reserve(&state->copy, N * bytes, error));
  TRY(lane_upload(self->lane, state->pages.data, pages, sizeof pages, error));
  const int32_t *from = state->pages.data;
  const char *gathered = NULL, *pool = NULL;
  TRY(check_poison(self, state->copy.data, N * bytes));
  CUDA_TRY(kernel_kv_gather(stream, state->copy.data, state->kv.data, from, N, bytes));
  CUDA_TRY(kernel_kv_scatter(stream, state->kv.data, state->copy.data, from + N, N, bytes));
  TRY(check_fetch(self, &gathered, state->copy.data, N * bytes));
  TRY(check_fetch(self, &pool, state->kv.data, 12 * bytes));
  *ret_error = 0;
  for (int i = 0; i < N; i++)
    if (memcmp(gathered + i * bytes, pool + pages[i] * bytes, (size_t)bytes) != 0 ||
        memcmp(gathered + i * bytes, pool + pages[N + i] * bytes, (size_t)bytes) != 0)
      *ret_error = (double)INFINITY;
  return CALIB_OK;
}
