/* What the cpu backend uses of OpenBLAS, opened when the backend is: a program that links it has a
 * thread per CPU started before main, each with tens of megabytes of address space, whatever it is
 * asked to do. By its Fortran names: GSL brings a CBLAS of its own with the same C names, thirty
 * times slower. Matrices are column-major; sizes are those of a 32-bit build. */
#ifndef CALIB_CPU_BLAS_H
#define CALIB_CPU_BLAS_H
#include "calib/backend.h"

typedef struct CpuBlas {
  /* c [m][n] = alpha·op(a)·op(b) + beta·c; "N": as it is, "T": transposed. */
  void (*sgemm)(const char *op_a, const char *op_b, const int32_t *m, const int32_t *n,
                const int32_t *k, const float *alpha, const float *a, const int32_t *a_stride,
                const float *b, const int32_t *b_stride, const float *beta, float *c,
                const int32_t *c_stride);
  /* y = alpha·op(a)·x + beta·y, a [m][n]. */
  void (*sgemv)(const char *op_a, const int32_t *m, const int32_t *n, const float *alpha,
                const float *a, const int32_t *a_stride, const float *x, const int32_t *x_step,
                const float *beta, float *y, const int32_t *y_step);
  void (*set_num_threads)(int threads);
  char *(*config)(void); // "OpenBLAS 0.3.21 … SkylakeX"; static
} CpuBlas;

/* Opens the library of $TANDEM_OPENBLAS, or the system's, for the rest of the process, and makes it
 * run on its caller's thread only. CALIB_ENVIRONMENT when there is none. */
CalibStatus cpu_blas_open(CpuBlas *self, char *error);
#endif
