/* What the cpu backend uses of OpenBLAS, by its Fortran names: GSL brings a CBLAS of its own with
 * the same C names, thirty times slower, and which of the two a C name finds hangs on the order of
 * libraries. Matrices are column-major; sizes are those of a 32-bit build. */
#ifndef CALIB_CPU_BLAS_H
#define CALIB_CPU_BLAS_H
#include <stdint.h>

/* c [m][n] = alpha·op(a)·op(b) + beta·c; "N": as it is, "T": transposed. */
void sgemm_(const char *op_a, const char *op_b, const int32_t *m, const int32_t *n,
            const int32_t *k, const float *alpha, const float *a, const int32_t *a_stride,
            const float *b, const int32_t *b_stride, const float *beta, float *c,
            const int32_t *c_stride);
/* y = alpha·op(a)·x + beta·y, a [m][n]. */
void sgemv_(const char *op_a, const int32_t *m, const int32_t *n, const float *alpha,
            const float *a, const int32_t *a_stride, const float *x, const int32_t *x_step,
            const float *beta, float *y, const int32_t *y_step);

void openblas_set_num_threads(int threads);
char *openblas_get_config(void);
#endif
