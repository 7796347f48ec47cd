/* Holds an operator of the cpu backend to its reference, on odd sizes. */
#ifndef CALIB_CPU_VERIFY_H
#define CALIB_CPU_VERIFY_H
#include "calib/cpu_run.h"

#define CPU_TOLERANCE 1e-4 // of the relative error, for fp32

/* ‖out − reference‖ / ‖reference‖ of an operator, the greatest over its sizes; infinite where a
 * copy or an argmax is not exact. CALIB_OUT_OF_MEMORY when even these sizes do not fit. */
CalibStatus cpu_verify(CpuModel *model, CalibOp op, int64_t available_bytes, double *ret_error,
                       char *error);
#endif
