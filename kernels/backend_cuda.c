/* The backend `cuda`: the table, and what it refuses. The work is in the files that cuda_state.h
 * lists. */
#include "kernels/cuda_state.h"
#include <stdio.h>
#include <stdlib.h>

static CalibStatus backend_open(const CalibOptions *options, void **ret_state, char *error) {
  CudaState *self = must(calloc(1, sizeof *self));
  self->options = *options;
  const CalibStatus status = cuda_open(self, error);
  if (status == CALIB_OK) {
    *ret_state = self;
    return CALIB_OK;
  }
  cuda_close(self);
  free(self);
  return CALIB_ENVIRONMENT;
}

static void backend_close(void *state) {
  cuda_close(state);
  free(state);
}

static void backend_describe(void *state, CalibDevice *ret_device) {
  CudaState *self = state;
  size_t free_bytes = 0, all_bytes = 0;
  *ret_device = self->device;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess)
    ret_device->free_bytes = (int64_t)free_bytes;
}

static const char *backend_supports(void *state, const CalibPoint *point) {
  CudaState *self = state;
  if (point->busy && point->mode == CALIB_EAGER) return "busy points are not launched one by one";
  if (self->is_loaded && !calib_has_op(&self->model, point->op))
    return "the model has no such operator";
  switch (point->op) {
  case CALIB_COPY_PEER:
    return self->device.n_devices < 2 ? "one GPU" : NULL;
  case CALIB_ALL_REDUCE:
  case CALIB_ALL_REDUCE_PEER:
    return group_missing(self, point);
  default:
    return NULL;
  }
}

static bool needs_model(const CalibPoint *point) {
  return point->busy || point->op == CALIB_WEIGHT_RELOAD || calib_is_captured(point->op);
}

static CalibStatus no_model(char *error) {
  return calib_failed(CALIB_REJECTED, error, "no model is loaded");
}

static CalibStatus backend_prepare(void *state, const CalibPoint *point, char *error) {
  CudaState *self = state;
  if (needs_model(point) && !self->is_loaded) return no_model(error);
  return work_prepare(self, point, error);
}

static CalibStatus backend_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                     char *error) {
  CudaState *self = state;
  if (!self->is_loaded) return no_model(error);
  return work_run_batch(self, batch, ret_seconds, error);
}

static void backend_telemetry(void *state, CalibTelemetry *ret_telemetry) {
  const CudaState *self = state;
  const CalibOp op = self->work.op;
  nvml_read(self->nvml, ret_telemetry);
  if (self->work.is_prepared)
    attention_name(self, ret_telemetry->attn_kernel, sizeof ret_telemetry->attn_kernel);
  if (self->work.is_prepared && op >= CALIB_GEMM_QKV && op <= CALIB_GEMM_HEAD)
    snprintf(ret_telemetry->algorithm, sizeof ret_telemetry->algorithm, "%s",
             layer_algorithm(self, op));
  if (self->work.is_prepared)
    group_name(self, ret_telemetry->algorithm, sizeof ret_telemetry->algorithm);
}

const Backend backend_cuda = {
    .name = "cuda",
    .help = "an NVIDIA GPU of compute capability 8.0 or more",
    .open = backend_open,
    .describe = backend_describe,
    .load = model_load,
    .supports = backend_supports,
    .prepare = backend_prepare,
    .measure = work_measure,
    .run_batch = backend_run_batch,
    .run = work_run,
    .columns = tensor_columns,
    .move = tensor_move,
    .telemetry = backend_telemetry,
    .close = backend_close,
};
