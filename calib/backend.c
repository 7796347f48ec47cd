/* What backend.h lists, by name. */
#include "calib/backend.h"
#include "calib/model.h"
#include "calib/operators.h"
#include <assert.h>

const char *const calib_op_names[] = {
#define X(id, name, size) name,
    CALIB_OPS(X)
#undef X
        NULL};

static const CalibSize SIZES[] = {
#define X(id, name, size) CALIB_SIZE_##size,
    CALIB_OPS(X)
#undef X
};

const char *const calib_tensor_names[] = {
#define X(id, name) name,
    CALIB_TENSORS(X)
#undef X
        NULL};

const char *const calib_dtype_names[] = {
    [CALIB_BF16] = "bf16", [CALIB_FP16] = "fp16", [CALIB_FP32] = "fp32", NULL};

const char *const calib_weights_names[] = {
    [CALIB_WEIGHTS_PLAIN] = "plain", [CALIB_FP8] = "fp8", [CALIB_FP8_BLOCK] = "fp8_block", NULL};

const char *const calib_attention_names[] = {
    [CALIB_ATTENTION_OWN] = "tandem", [CALIB_ATTENTION_CUDNN] = "cudnn", NULL};

const char *calib_op_name(CalibOp op) {
  assert(op >= 0 && op < CALIB_N_OPS);
  return calib_op_names[op];
}

CalibSize calib_op_size(CalibOp op) {
  assert(op >= 0 && op < CALIB_N_OPS);
  return SIZES[op];
}

const char *calib_tensor_name(CalibTensor tensor) {
  assert(tensor >= 0 && tensor < CALIB_N_TENSORS);
  return calib_tensor_names[tensor];
}

bool calib_has_op(const CalibModel *model, CalibOp op) {
  if (op == CALIB_GEMM_UP || op == CALIB_GEMM_DOWN) return model->num_experts == 0;
  return op < CALIB_MOE_ROUTING || op > CALIB_MOE_COMBINE || model->num_experts > 0;
}
