/* Matrix products on a CPU: BLAS on one thread per part, each with its columns of the result. */
#ifndef CALIB_CPU_GEMM_H
#define CALIB_CPU_GEMM_H
#include "calib/cpu_blas.h"
#include "calib/cpu_threads.h"

/* out [tokens][n] = in [tokens][k] · weightsᵀ + bias; weights [n][k], bias [n] or NULL. Both in and
 * out are dense. */
typedef struct CpuGemm {
  const CpuBlas *blas;
  float *out;
  const float *in, *weights, *bias;
  int64_t tokens, n, k;
} CpuGemm;
void cpu_gemm(const void *work, int32_t part, int32_t n_parts);
#endif
