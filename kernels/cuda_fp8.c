/* Products of 8 bits: random weights with scales, and inputs that are quantized before each. */
#include "kernels/cuda_state.h"
#include "kernels/half.h"
#include <stdlib.h>

static const double WEIGHT_DEVIATION = 0.02;
static const double E4M3_DEVIATION = 64; // of weights over their scales: 7 of them fit

// --- weights -----------------------------------------------------------------------------------

/* Normal numbers in pieces, through the memory of rotating operands, as rows of a width that
 * divides them. */
static CalibStatus fill_matrices(CudaState *self, float *one, char *error) {
  enum { WIDTH = 2048, PIECE = 1 << 25, NARROW = 8 };
  const int64_t all = self->memory.layers * self->memory.matrix_bytes;
  uint8_t *matrices = self->matrices.data;
  TRY(buffer_reserve(&self->rotation, 2 * (all < PIECE ? all : PIECE), error));
  for (int64_t at = 0, n; at < all; at += n) {
    n = all - at < PIECE ? all - at : PIECE;
    if (n > WIDTH) n = n / WIDTH * WIDTH;
    const int32_t width = n % WIDTH == 0 ? WIDTH : NARROW;
    CUDA_TRY(kernel_fill_normal(self->main.stream, self->model.dtype, self->rotation.data, n,
                                (float)E4M3_DEVIATION,
                                self->options.seed * 16 + (uint64_t)(at / PIECE + 1) * 65536));
    CUDA_TRY(kernel_quantize(self->main.stream, self->model.dtype, CALIB_FP8, matrices + at, one,
                             self->rotation.data, (int32_t)(n / width), width));
  }
  return CALIB_OK;
}

/* Scales of blocks differ in both directions, so that no order but the right one is right. */
static CalibStatus make_scales(CudaState *self, char *error) {
  const int64_t n = layer_scales(&self->shape), all = n * self->memory.layers;
  float *scales = must(malloc((size_t)all * sizeof *scales));
  for (int64_t i = 0; i < all; i++) {
    const int64_t step = self->model.weights == CALIB_FP8_BLOCK ? (i % n + i % n / 16) % 3 : 1;
    scales[i] = (float)(WEIGHT_DEVIATION / E4M3_DEVIATION * (double)(1 << step) / 2);
  }
  return lane_give(&self->main, &self->scales, scales, (size_t)all * sizeof *scales, error);
}

CalibStatus fp8_make_weights(CudaState *self, char *error) {
  const float one = 1, of_inputs = (float)CALIB_FP8_INPUT_SCALE;
  TRY(buffer_reserve(&self->matrices, self->memory.layers * self->memory.matrix_bytes, error));
  TRY(buffer_reserve(&self->input_scale, sizeof one, error));
  TRY(lane_upload(&self->main, self->input_scale.data, &one, sizeof one, error));
  TRY(fill_matrices(self, self->input_scale.data, error));
  CUDA_TRY(cudaStreamSynchronize(self->main.stream));
  TRY(lane_upload(&self->main, self->input_scale.data, &of_inputs, sizeof of_inputs, error));
  return make_scales(self, error);
}

// --- products ----------------------------------------------------------------------------------

CalibStatus fp8_reserve(CudaState *self, CudaLane *lane, char *error) {
  const int32_t tokens = lane->layout.tokens;
  int64_t elements = 0, scales = 0;
  if (self->model.weights == CALIB_WEIGHTS_PLAIN) return CALIB_OK;
  for (int i = 0; i < 4; i++) {
    const int32_t k = layer_product_shape(&self->shape, i).k;
    const int64_t n = (int64_t)fp8_rows(tokens) * k;
    const int64_t n_scales = fp8_input_scales(self->model.weights, tokens, k);
    elements = n > elements ? n : elements;
    scales = n_scales > scales ? n_scales : scales;
  }
  TRY(buffer_reserve(&lane->tensors[CUDA_QUANTIZED], elements, error));
  return buffer_reserve(&lane->tensors[CUDA_INPUT_SCALES], (int64_t)sizeof(float) * scales, error);
}

CalibStatus fp8_product(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error) {
  const CalibProduct p = calib_product(op);
  const CudaLayer weights = model_layer(self, layer);
  const int ix = op - CALIB_GEMM_QKV;
  const ProductShape product = layer_product_shape(&self->shape, ix);
  const GemmShape shape = {.m = lane->layout.tokens,
                           .n = product.n,
                           .k = product.k,
                           .dtype = self->model.dtype,
                           .weights = self->model.weights};
  float *scales = self->model.weights == CALIB_FP8 ? self->input_scale.data
                                                   : lane->tensors[CUDA_INPUT_SCALES].data;
  uint8_t *in = lane->tensors[CUDA_QUANTIZED].data;
  char why[GEMM_ERROR_SIZE];
  CUDA_TRY(kernel_quantize(lane->stream, shape.dtype, shape.weights, in, scales,
                           lane->tensors[p.in].data, shape.m, shape.k));
  if (gemm_run_scaled(lane->gemm, lane->stream, &shape, lane->tensors[p.out].data, in, scales,
                      weights.products[ix], weights.scales[ix], why) >= 0)
    return CALIB_OK;
  return product_failed(lane, &shape, why, error);
}

// --- for verification --------------------------------------------------------------------------

CalibStatus fp8_read_weights(CudaState *self, int product, int64_t layer, int64_t row,
                             int64_t n_rows, double *ret_values, char *error) {
  const CudaLayer weights = model_layer(self, layer);
  const ProductShape shape = layer_product_shape(&self->shape, product);
  const int64_t n_scales = layer_product_scales(&self->shape, product), k = shape.k;
  uint8_t *bytes = must(malloc((size_t)(n_rows * k) + 1));
  float *scales = must(malloc((size_t)n_scales * sizeof *scales));
  cudaError_t code = cudaStreamSynchronize(self->main.stream);
  if (code == cudaSuccess)
    code = cudaMemcpy(bytes, (const uint8_t *)weights.products[product] + row * k,
                      (size_t)(n_rows * k), cudaMemcpyDeviceToHost);
  if (code == cudaSuccess)
    code = cudaMemcpy(scales, weights.scales[product], (size_t)n_scales * sizeof *scales,
                      cudaMemcpyDeviceToHost);
  for (int64_t i = 0; code == cudaSuccess && i < n_rows * k; i++) {
    const int64_t block = (row + i / k) / FP8_BLOCK * fp8_k_blocks(shape.k) + i % k / FP8_BLOCK;
    const float scale = scales[self->model.weights == CALIB_FP8_BLOCK ? block : 0];
    ret_values[i] = e4m3_decode(bytes[i]) * scale;
  }
  free(bytes);
  free(scales);
  return cuda_status((int)code, "cudaMemcpy", error);
}
