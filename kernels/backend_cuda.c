/* The backend `cuda`: the table, and what it refuses. The work is in the files that cuda_state.h
 * lists. */
#include "kernels/cuda_state.h"
#include <stdio.h>
#include <stdlib.h>

static CalibStatus backend_open(const CalibOptions *options, void **ret_state, char *error) {
  CudaState *self = calloc(1, sizeof *self);
  if (!self) abort();
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

static CalibStatus backend_load(void *state, const CalibModel *model, char *error) {
  return model_load(state, model, error);
}

/* Sequences of a model that looks positions up must not be longer than its table. */
static const char *too_long(const CudaState *self, const CalibBatch *batch) {
  if (self->model.positions != CALIB_LEARNED) return NULL;
  for (int32_t i = 0; i < batch->n_prefills + batch->n_decodes; i++)
    if (batch->sequences[i].new_tokens + batch->sequences[i].past_tokens >
        self->model.max_position_embeddings)
      return "longer than max_position_embeddings";
  return NULL;
}

static const char *backend_supports(void *state, const CalibPoint *point) {
  CudaState *self = state;
  if (point->busy && point->mode == CALIB_EAGER) return "busy points are not launched one by one";
  if (self->is_loaded && self->model.num_experts == 0 && point->op >= CALIB_MOE_ROUTING &&
      point->op <= CALIB_MOE_COMBINE)
    return "the model has no experts";
  if (self->is_loaded && self->model.num_experts > 0 &&
      (point->op == CALIB_GEMM_UP || point->op == CALIB_GEMM_DOWN))
    return "the model has experts instead";
  switch (point->op) {
  case CALIB_COPY_PEER:
    return self->device.n_devices < 2 ? "one GPU" : NULL;
  case CALIB_ALL_REDUCE:
  case CALIB_ALL_REDUCE_PEER:
    return group_missing(self, point);
  case CALIB_ITERATION:
  case CALIB_PREFILL_ATTENTION:
  case CALIB_DECODE_ATTENTION:
    return too_long(self, &point->batch);
  default:
    return NULL;
  }
}

static bool needs_model(const CalibPoint *point) {
  return point->busy || point->op == CALIB_WEIGHT_RELOAD || !operator_is_copy(point->op);
}

static CalibStatus no_model(char *error) {
  return calib_failed(CALIB_REJECTED, error, "no model is loaded");
}

static CalibStatus backend_prepare(void *state, const CalibPoint *point, char *error) {
  CudaState *self = state;
  if (needs_model(point) && !self->is_loaded) return no_model(error);
  return work_prepare(self, point, error);
}

static CalibStatus backend_measure(void *state, int32_t repeats, double *ret_seconds, char *error) {
  return work_measure(state, repeats, ret_seconds, error);
}

static CalibStatus backend_run_batch(void *state, const CalibBatch *batch, double *ret_seconds,
                                     char *error) {
  CudaState *self = state;
  if (!self->is_loaded) return no_model(error);
  return work_run_batch(self, batch, ret_seconds, error);
}

static CalibStatus backend_run(void *state, char *error) {
  return work_run(state, error);
}

static int64_t backend_columns(void *state, CalibTensor tensor) {
  return tensor_columns(state, tensor);
}

static CalibStatus backend_read(void *state, const CalibSlice *slice, double *ret_values,
                                char *error) {
  return tensor_move(state, slice, ret_values, false, error);
}

static CalibStatus backend_write(void *state, const CalibSlice *slice, const double *values,
                                 char *error) {
  return tensor_move(state, slice, (double *)values, true, error);
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
    .load = backend_load,
    .supports = backend_supports,
    .prepare = backend_prepare,
    .measure = backend_measure,
    .run_batch = backend_run_batch,
    .run = backend_run,
    .columns = backend_columns,
    .read = backend_read,
    .write = backend_write,
    .telemetry = backend_telemetry,
    .close = backend_close,
};
