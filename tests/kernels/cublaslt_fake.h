/* cuBLASLt for the fake GPU (cuda_runtime_fake.h): as much of it as gemm.c calls. It proposes three
 * algorithms, 7, 8 and 9, of which one is the fastest; all give the product that it is told of. */
#ifndef TESTS_KERNELS_CUBLASLT_FAKE_H
#define TESTS_KERNELS_CUBLASLT_FAKE_H
#include <stdint.h>

enum { FAKE_ALGORITHMS = 3, FAKE_FIRST_ALGORITHM = 7 };

/* Which is fastest, 8 until it is told; 0: none is known any more, and all are as fast. */
void fake_blas_set_fastest(int algorithm);
/* Since the last call: how often it was asked to propose algorithms. */
int64_t fake_blas_take_proposals(void);
/* Products of so many columns have a status in place of a result; 0: none. */
void fake_blas_refuse(int64_t columns);
#endif
