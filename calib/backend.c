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
