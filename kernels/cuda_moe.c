/* Layers of experts: where routes lie, and what is launched of them. */
#include "kernels/cuda_state.h"

static void *tensor(const CudaLane *lane, int name) {
  return lane->tensors[name].data;
}

CalibStatus moe_reserve(CudaState *self, CudaLane *lane, char *error) {
  const LayerShape *s = &self->shape;
  const int64_t pairs = (int64_t)lane->layout.tokens * s->picked, word = sizeof(int32_t);
  if (s->experts == 0) return CALIB_OK;
  TRY(buffer_reserve(&lane->tensors[CUDA_EXPERTS], word * pairs, error));
  TRY(buffer_reserve(&lane->tensors[CUDA_SHARES], word * pairs, error));
  TRY(buffer_reserve(&lane->tensors[CUDA_STARTS], word * (s->experts + 1), error));
  TRY(buffer_reserve(&lane->tensors[CUDA_PAIRS], word * pairs, error));
  TRY(buffer_reserve(&lane->tensors[CUDA_ROWS], word * pairs, error));
  /* An operator that is run alone has the routes of random logits. */
  return moe_run(self, lane, CALIB_MOE_ROUTING, 0, error);
}

KernelMoe lane_moe(const CudaState *self, const CudaLane *lane) {
  return (KernelMoe){.dtype = self->model.dtype,
                     .router = self->model.router,
                     .experts = self->shape.experts,
                     .per_token = self->shape.picked,
                     .tokens = lane->layout.tokens,
                     .chosen = tensor(lane, CUDA_EXPERTS),
                     .shares = tensor(lane, CUDA_SHARES),
                     .starts = tensor(lane, CUDA_STARTS),
                     .pairs = tensor(lane, CUDA_PAIRS),
                     .rows = tensor(lane, CUDA_ROWS)};
}

CalibStatus moe_run(CudaState *self, CudaLane *lane, CalibOp op, int64_t layer, char *error) {
  const LayerShape *s = &self->shape;
  const KernelMoe moe = lane_moe(self, lane);
  const CudaLayer weights = model_layer(self, layer);
  const int32_t rows = kernel_moe_tile_rows(&moe);
  switch (op) {
  case CALIB_MOE_ROUTING:
    return CUDA_STATUS(kernel_moe_routing(lane->stream, &moe, tensor(lane, TENSOR_ROUTER_LOGITS)));
  case CALIB_MOE_GEMM_UP:
    return CUDA_STATUS(kernel_moe_gemm(lane->stream, &moe, rows, true, tensor(lane, TENSOR_UP),
                                       tensor(lane, TENSOR_NORMED), weights.products[2], s->up,
                                       s->hidden));
  case CALIB_MOE_GEMM_DOWN:
    return CUDA_STATUS(kernel_moe_gemm(lane->stream, &moe, rows, false,
                                       tensor(lane, TENSOR_EXPERT_OUT), tensor(lane, TENSOR_ACTIVE),
                                       weights.products[3], s->hidden, s->ffn));
  default: // CALIB_MOE_COMBINE
    CUDA_TRY(kernel_moe_combine(lane->stream, &moe, tensor(lane, TENSOR_ADDED),
                                tensor(lane, TENSOR_EXPERT_OUT), s->hidden));
    return CALIB_OK;
  }
}

static CalibStatus route(CudaState *self, CudaLane *lane, int64_t layer, char *error) {
  const GemmShape shape = {.m = lane->layout.tokens,
                           .n = self->shape.experts,
                           .k = self->shape.hidden,
                           .dtype = self->model.dtype};
  char why[GEMM_ERROR_SIZE];
  if (gemm_run(lane->gemm, lane->stream, &shape, tensor(lane, TENSOR_ROUTER_LOGITS),
               tensor(lane, TENSOR_NORMED), model_layer(self, layer).router, NULL, why) >= 0)
    return moe_run(self, lane, CALIB_MOE_ROUTING, layer, error);
  return product_failed(lane, &shape, why, error);
}

CalibStatus layer_experts(CudaState *self, CudaLane *lane, int64_t layer, char *error) {
  TRY(route(self, lane, layer, error));
  TRY(moe_run(self, lane, CALIB_MOE_GEMM_UP, layer, error));
  TRY(layer_activation(self, lane, error));
  TRY(moe_run(self, lane, CALIB_MOE_GEMM_DOWN, layer, error));
  return moe_run(self, lane, CALIB_MOE_COMBINE, layer, error);
}
