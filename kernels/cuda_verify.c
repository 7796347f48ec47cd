/* Each operator against its reference (kernels/reference) before it is timed, once per model and
 * type, on a few rows with the model's own columns and heads: a wrong kernel may be a fast one.
 * Outputs are poisoned first. */
#include "kernels/cuda_check.h"
#include "kernels/reference/half.h"
#include "kernels/reference/reference.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLED_COLUMNS = 64 };
static const double LIMIT = 1e-2;

void *check_take(Check *self, int64_t bytes) {
  void *block = self->n_blocks < CHECK_MAX_BLOCKS ? calloc(1, (size_t)bytes + 1) : NULL;
  if (!block) abort();
  return self->blocks[self->n_blocks++] = block;
}

CalibStatus check_fetch(Check *self, void *ret_host, const void *device, int64_t bytes) {
  char *error = self->error;
  void *host = check_take(self, bytes);
  CUDA_TRY(cudaStreamSynchronize(self->lane->stream));
  CUDA_TRY(cudaMemcpy(host, device, (size_t)bytes, cudaMemcpyDeviceToHost));
  memcpy(ret_host, &host, sizeof host);
  return CALIB_OK;
}

CalibStatus check_poison(Check *self, void *device, int64_t bytes) {
  char *error = self->error;
  CUDA_TRY(cudaMemsetAsync(device, 0xff, (size_t)bytes, self->lane->stream));
  return CALIB_OK;
}

CalibStatus check_compare(Check *self, const void *device, const double *reference, int64_t n,
                          double *ret_error) {
  const uint16_t *out = NULL;
  double difference = 0, size = 0;
  TRY(check_fetch(self, &out, device, 2 * n));
  for (int64_t i = 0; i < n; i++) {
    const double value = half_decode(self->state->model.dtype, out[i]);
    difference += (value - reference[i]) * (value - reference[i]);
    size += reference[i] * reference[i];
  }
  free(self->blocks[--self->n_blocks]);
  *ret_error = isfinite(difference) ? sqrt(difference / (size > 0 ? size : 1)) : (double)INFINITY;
  return CALIB_OK;
}

// --- operators on rows -------------------------------------------------------------------------

static CalibStatus set_rows(Check *self, CalibOp op) {
  return lane_set_tokens(self->state, self->lane, op, CHECK_ROWS, 1, self->error);
}

static CalibStatus check_norm(Check *self, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  const int32_t hidden = state->shape.hidden;
  const int64_t n = (int64_t)CHECK_ROWS * hidden;
  TRY(set_rows(self, CALIB_NORM));
  const CudaLayer layer = model_layer(state, 0);
  void *residual = NULL, *x = NULL, *weight = NULL, *bias = NULL;
  TRY(check_fetch(self, &residual, check_tensor(self, TENSOR_RESIDUAL), 2 * n));
  TRY(check_fetch(self, &x, check_tensor(self, TENSOR_ADDED), 2 * n));
  TRY(check_fetch(self, &weight, layer.norm_weights[0], 2 * hidden));
  if (layer.norm_biases[0]) TRY(check_fetch(self, &bias, layer.norm_biases[0], 2 * hidden));
  TRY(check_poison(self, check_tensor(self, TENSOR_NORMED), 2 * n));
  CUDA_TRY(kernel_norm(self->lane->stream, state->model.dtype, state->model.norm,
                       check_tensor(self, TENSOR_NORMED), check_tensor(self, TENSOR_RESIDUAL),
                       check_tensor(self, TENSOR_ADDED), layer.norm_weights[0],
                       layer.norm_biases[0], 1e-5f, CHECK_ROWS, hidden));
  double *out = check_take(self, 8 * n), *sum = check_take(self, 8 * n), residual_error = 0;
  reference_norm(state->model.dtype, state->model.norm, out, residual, x, weight, bias, 1e-5,
                 CHECK_ROWS, hidden);
  for (int64_t i = 0; i < n; i++)
    sum[i] = half_load(state->model.dtype, residual, i);
  TRY(check_compare(self, check_tensor(self, TENSOR_NORMED), out, n, ret_error));
  TRY(check_compare(self, check_tensor(self, TENSOR_RESIDUAL), sum, n, &residual_error));
  *ret_error = fmax(*ret_error, residual_error);
  return CALIB_OK;
}

static CalibStatus check_activation(Check *self, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  const int64_t n = (int64_t)CHECK_ROWS * state->shape.ffn;
  TRY(set_rows(self, CALIB_ACTIVATION));
  void *in = NULL;
  double *out = check_take(self, 8 * n);
  TRY(check_fetch(self, &in, check_tensor(self, TENSOR_UP),
                  2 * (int64_t)CHECK_ROWS * state->shape.up));
  TRY(check_poison(self, check_tensor(self, TENSOR_ACTIVE), 2 * n));
  CUDA_TRY(kernel_activation(self->lane->stream, state->model.dtype, state->model.activation,
                             check_tensor(self, TENSOR_ACTIVE), check_tensor(self, TENSOR_UP), NULL,
                             CHECK_ROWS, state->shape.ffn));
  reference_activation(state->model.dtype, state->model.activation, out, in, NULL, CHECK_ROWS,
                       state->shape.ffn);
  return check_compare(self, check_tensor(self, TENSOR_ACTIVE), out, n, ret_error);
}

/* Only the rows of the table that are asked for are fetched. */
static CalibStatus check_embedding(Check *self, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  const int64_t hidden = state->shape.hidden, n = CHECK_ROWS * hidden;
  TRY(set_rows(self, CALIB_EMBEDDING));
  const int32_t *ids = NULL;
  int32_t rows[CHECK_ROWS];
  void *positions = NULL;
  char *table = check_take(self, 2 * n);
  TRY(check_fetch(self, &ids, state->ids.data, sizeof rows));
  for (int32_t i = 0; i < CHECK_ROWS; i++) {
    const char *row = (const char *)state->embedding.data + 2 * hidden * ids[i];
    CUDA_TRY(cudaMemcpy(table + 2 * hidden * i, row, (size_t)(2 * hidden), cudaMemcpyDeviceToHost));
    rows[i] = i;
  }
  if (state->positions.data) TRY(check_fetch(self, &positions, state->positions.data, 2 * n));
  TRY(check_poison(self, check_tensor(self, TENSOR_RESIDUAL), 2 * n));
  CUDA_TRY(kernel_embedding(self->lane->stream, state->model.dtype,
                            check_tensor(self, TENSOR_RESIDUAL), state->ids.data,
                            state->embedding.data, positions ? self->lane->batch.positions : NULL,
                            state->positions.data, CHECK_ROWS, (int32_t)hidden));
  double *out = check_take(self, 8 * n);
  reference_embedding(state->model.dtype, out, rows, table, rows, positions, CHECK_ROWS,
                      (int32_t)hidden);
  return check_compare(self, check_tensor(self, TENSOR_RESIDUAL), out, n, ret_error);
}

static CalibStatus check_argmax(Check *self, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  const int32_t vocab = state->shape.vocab, *ids = NULL;
  int32_t expected[CHECK_ROWS];
  void *logits = NULL;
  TRY(set_rows(self, CALIB_ARGMAX));
  TRY(check_fetch(self, &logits, check_tensor(self, TENSOR_LOGITS),
                  2 * (int64_t)CHECK_ROWS * vocab));
  TRY(check_poison(self, check_tensor(self, TENSOR_IDS), sizeof expected));
  CUDA_TRY(kernel_argmax(self->lane->stream, state->model.dtype, check_tensor(self, TENSOR_IDS),
                         check_tensor(self, TENSOR_LOGITS), CHECK_ROWS, vocab,
                         check_tensor(self, TENSOR_ARGMAX)));
  reference_argmax(state->model.dtype, expected, logits, CHECK_ROWS, vocab);
  TRY(check_fetch(self, &ids, check_tensor(self, TENSOR_IDS), sizeof expected));
  *ret_error = memcmp(ids, expected, sizeof expected) == 0 ? 0 : (double)INFINITY;
  return CALIB_OK;
}

/* All rows of some columns, spread over all. */
static CalibStatus check_product(Check *self, CudaProduct product, CalibOp op, CudaTensor in_name,
                                 CudaTensor out_name, double *ret_error) {
  CudaState *state = self->state;
  char *error = self->error;
  TRY(set_rows(self, op));
  const LayerProduct p = layer_product_of(state, product, 0);
  TRY(check_poison(self, check_tensor(self, out_name), 2 * (int64_t)CHECK_ROWS * p.n));
  TRY(layer_product(state, self->lane, product, 0, check_tensor(self, out_name),
                    check_tensor(self, in_name), CHECK_ROWS, error));
  void *in = NULL, *bias = NULL;
  const uint16_t *out = NULL;
  TRY(check_fetch(self, &in, check_tensor(self, in_name), 2 * (int64_t)CHECK_ROWS * p.k));
  TRY(check_fetch(self, &out, check_tensor(self, out_name), 2 * (int64_t)CHECK_ROWS * p.n));
  if (p.bias) TRY(check_fetch(self, &bias, p.bias, 2 * (int64_t)p.n));

  const int32_t columns = p.n < SAMPLED_COLUMNS ? p.n : SAMPLED_COLUMNS;
  char *weights = check_take(self, 2 * (int64_t)columns * p.k);
  uint16_t *sampled_bias = check_take(self, 2 * (int64_t)columns);
  double *reference = check_take(self, 8 * (int64_t)CHECK_ROWS * columns), difference = 0, size = 0;
  const GemmShape shape = {CHECK_ROWS, columns, p.k, state->model.dtype, p.epilogue};
  for (int64_t i = 0; i < columns; i++) {
    const int64_t column = i * p.n / columns;
    CUDA_TRY(cudaMemcpy(weights + 2 * i * p.k, (const char *)p.weights + 2 * column * p.k,
                        2 * (size_t)p.k, cudaMemcpyDeviceToHost));
    if (bias) sampled_bias[i] = ((const uint16_t *)bias)[column];
  }
  reference_gemm_blocked(&shape, reference, in, weights, sampled_bias);
  for (int64_t i = 0; i < (int64_t)CHECK_ROWS * columns; i++) {
    const int64_t column = i % columns * p.n / columns;
    const double value = half_decode(state->model.dtype, out[i / columns * p.n + column]);
    difference += (value - reference[i]) * (value - reference[i]);
    size += reference[i] * reference[i];
  }
  *ret_error = isfinite(difference) && size > 0 ? sqrt(difference / size) : (double)INFINITY;
  return CALIB_OK;
}

/* Up, across and down again: bytes must be the same. */
static CalibStatus check_copy(Check *self, double *ret_error) {
  enum { BYTES = 1 << 20 };
  char *error = self->error;
  cudaStream_t stream = self->lane->stream;
  CudaState *state = self->state;
  TRY(pinned_reserve(&state->pinned, 2 * BYTES, error));
  TRY(buffer_reserve(&state->copy, 2 * BYTES, error));
  unsigned char *up = state->pinned.data, *down = up + BYTES;
  char *device = state->copy.data;
  for (int i = 0; i < BYTES; i++)
    up[i] = (unsigned char)(i * 7 + i / 251);
  memset(down, 0, BYTES);
  TRY(check_poison(self, device, 2 * BYTES));
  CUDA_TRY(cudaMemcpyAsync(device, up, BYTES, cudaMemcpyHostToDevice, stream));
  CUDA_TRY(cudaMemcpyAsync(device + BYTES, device, BYTES, cudaMemcpyDeviceToDevice, stream));
  CUDA_TRY(cudaMemcpyAsync(down, device + BYTES, BYTES, cudaMemcpyDeviceToHost, stream));
  CUDA_TRY(cudaStreamSynchronize(stream));
  *ret_error = memcmp(up, down, BYTES) == 0 ? 0 : (double)INFINITY;
  return CALIB_OK;
}

// --- which, and when ---------------------------------------------------------------------------

static CalibStatus run_check(Check *self, CudaCheck check, double *ret_error) {
  switch (check) {
  case CHECK_NORM:
    return check_norm(self, ret_error);
  case CHECK_ROPE_APPEND:
    return check_rope_append(self, ret_error);
  case CHECK_PREFILL_ATTENTION:
    return check_prefill(self, ret_error);
  case CHECK_DECODE_ATTENTION:
    return check_decode(self, ret_error);
  case CHECK_ACTIVATION:
    return check_activation(self, ret_error);
  case CHECK_EMBEDDING:
    return check_embedding(self, ret_error);
  case CHECK_ARGMAX:
    return check_argmax(self, ret_error);
  case CHECK_GEMM_QKV:
    return check_product(self, PRODUCT_QKV, CALIB_GEMM_QKV, TENSOR_NORMED, TENSOR_QKV, ret_error);
  case CHECK_GEMM_O:
    return check_product(self, PRODUCT_O, CALIB_GEMM_O, TENSOR_ATTENTION, TENSOR_ADDED, ret_error);
  case CHECK_GEMM_UP:
    return check_product(self, PRODUCT_UP, CALIB_GEMM_UP, TENSOR_NORMED, TENSOR_UP, ret_error);
  case CHECK_GEMM_DOWN:
    return check_product(self, PRODUCT_DOWN, CALIB_GEMM_DOWN, TENSOR_ACTIVE, TENSOR_ADDED,
                         ret_error);
  case CHECK_GEMM_HEAD:
    return check_product(self, PRODUCT_HEAD, CALIB_GEMM_HEAD, TENSOR_ROW_NORMED, TENSOR_LOGITS,
                         ret_error);
  case CHECK_KV_COPY:
    return check_kv_copy(self, ret_error);
  case CHECK_COPY:
  case CUDA_N_CHECKS:
    break;
  }
  return check_copy(self, ret_error);
}

static unsigned checks_of_parts(unsigned parts) {
  unsigned checks = 0;
  if (parts & PART_LINEAR)
    checks |= 1u << CHECK_NORM | 1u << CHECK_ROPE_APPEND | 1u << CHECK_ACTIVATION |
              1u << CHECK_EMBEDDING | 1u << CHECK_GEMM_QKV | 1u << CHECK_GEMM_O |
              1u << CHECK_GEMM_UP | 1u << CHECK_GEMM_DOWN;
  if (parts & PART_PREFILL) checks |= 1u << CHECK_PREFILL_ATTENTION;
  if (parts & PART_DECODE) checks |= 1u << CHECK_DECODE_ATTENTION;
  if (parts & PART_HEAD) checks |= 1u << CHECK_NORM | 1u << CHECK_GEMM_HEAD | 1u << CHECK_ARGMAX;
  return checks;
}

static unsigned checks_of(const CudaWork *work) {
  switch (work->op) {
  case CALIB_GEMM_QKV:
    return 1u << CHECK_GEMM_QKV;
  case CALIB_GEMM_O:
    return 1u << CHECK_GEMM_O;
  case CALIB_GEMM_UP:
    return 1u << CHECK_GEMM_UP;
  case CALIB_GEMM_DOWN:
    return 1u << CHECK_GEMM_DOWN;
  case CALIB_GEMM_HEAD:
    return 1u << CHECK_GEMM_HEAD;
  case CALIB_NORM:
    return 1u << CHECK_NORM;
  case CALIB_ROPE_APPEND:
    return 1u << CHECK_ROPE_APPEND;
  case CALIB_ACTIVATION:
    return 1u << CHECK_ACTIVATION;
  case CALIB_EMBEDDING:
    return 1u << CHECK_EMBEDDING;
  case CALIB_ARGMAX:
    return 1u << CHECK_ARGMAX;
  case CALIB_KV_GATHER:
  case CALIB_KV_SCATTER:
  case CALIB_KV_OUT:
    return 1u << CHECK_KV_COPY;
  default:
    return operator_is_copy(work->op) ? 1u << CHECK_COPY : checks_of_parts(work->parts);
  }
}

static CalibStatus verify_one(CudaState *state, CudaCheck which, double *ret_error, char *error) {
  static const char *const names[] = {
#define X(id, name) name,
      CUDA_CHECKS(X)
#undef X
  };
  Check check = {.state = state, .lane = &state->main, .error = error};
  double off = 0;
  CalibStatus status = run_check(&check, which, &off);
  for (int i = 0; i < check.n_blocks; i++)
    free(check.blocks[i]);
  TRY(status);
  *ret_error = off;
  if (off <= LIMIT) return CALIB_OK;
  snprintf(error, CALIB_ERROR_SIZE,
           "%s is wrong: %.2g off its reference, at most %.2g is allowed (%s, %d rows, hidden_size "
           "%d, %d query and %d key and value heads of %d)",
           names[which], off, LIMIT, state->model.dtype == CALIB_BF16 ? "bf16" : "fp16",
           (int)CHECK_ROWS, (int)state->shape.hidden, (int)state->shape.query_heads,
           (int)state->shape.kv_heads, (int)state->shape.head_dim);
  return CALIB_WRONG;
}

CalibStatus work_verify(CudaState *self, double *ret_error, char *error) {
  *ret_error = (double)NAN;
  if (!self->options.verify) return CALIB_OK;
  const unsigned needed = checks_of(&self->work);
  for (int check = 0; check < CUDA_N_CHECKS; check++) {
    if ((needed & ~self->checked & 1u << check) == 0) continue;
    double off = 0;
    TRY(verify_one(self, (CudaCheck)check, &off, error));
    *ret_error = fmax(*ret_error, off); // of NAN and a number, the number
    self->checked |= 1u << check;
  }
  return CALIB_OK;
}
