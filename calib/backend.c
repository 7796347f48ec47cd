/* What backend.h lists, by name. */
#include "calib/backend.h"
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

static const char *const TENSORS[] = {
#define X(id, name) name,
    CALIB_TENSORS(X)
#undef X
};

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
  return TENSORS[tensor];
}

bool calib_has_op(const CalibModel *model, CalibOp op) {
  if (op == CALIB_GEMM_UP || op == CALIB_GEMM_DOWN) return model->num_experts == 0;
  return op < CALIB_MOE_ROUTING || op > CALIB_MOE_COMBINE || model->num_experts > 0;
}
