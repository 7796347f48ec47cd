/* What the checks of cuda_verify.c and cuda_verify_pages.c share. */
#ifndef KERNELS_CUDA_CHECK_H
#define KERNELS_CUDA_CHECK_H
#include "kernels/cuda_state.h"

enum { CHECK_ROWS = 17, CHECK_MAX_BLOCKS = 24 };

/* One check of one operator, with the host memory that it takes. */
typedef struct Check {
  CudaState *state;
  CudaLane *lane;
  char *error;
  int n_blocks;
  void *blocks[CHECK_MAX_BLOCKS];
} Check;

/* Zeroed host memory until the end of the check. */
void *check_take(Check *self, int64_t bytes);
/* A host copy of device memory, after all that is queued. */
CalibStatus check_fetch(Check *self, void *ret_host, const void *device, int64_t bytes);
/* Fills an output with NaN. */
CalibStatus check_poison(Check *self, void *device, int64_t bytes);
/* ‖out − reference‖ / ‖reference‖ of a tensor on the device; infinite for what is no number. */
CalibStatus check_compare(Check *self, const void *device, const double *reference, int64_t n,
                          double *ret_error);
static inline void *check_tensor(const Check *self, CudaTensor name) {
  return self->lane->tensors[name].data;
}

/* --- cuda_verify_pages.c: operators on pages of KV */
CalibStatus check_rope_append(Check *self, double *ret_error);
CalibStatus check_prefill(Check *self, double *ret_error);
CalibStatus check_decode(Check *self, double *ret_error);
CalibStatus check_kv_copy(Check *self, double *ret_error);
#endif
