/* As much of NCCL as cuda_rank.c calls. NCCL is opened with dlopen, and its header is no part of
 * the CUDA toolkit, so the backend needs neither to be built. Numbers are those of NCCL's
 * documented interface, the same in all of version 2; tests/kernels/headers.sh compares them with
 * nccl.h where there is one. */
#ifndef KERNELS_NCCL_H
#define KERNELS_NCCL_H
#include <cuda_runtime_api.h>
#include <stddef.h>

enum { NCCL_SUCCESS = 0 };                    // results; anything else failed
enum { NCCL_FLOAT16 = 6, NCCL_BFLOAT16 = 9 }; // types of elements, the latter since 2.10
enum { NCCL_SUM = 0 };                        // operations

typedef struct ncclComm *NcclComm;

/* By value, as NCCL has it. */
typedef struct NcclId {
  char bytes[128];
} NcclId;

/* Enumerations of C cross as int. All return a result but error_string, whose text is static. */
typedef struct NcclFunctions {
  int (*get_version)(int *version); // 22703 is 2.27.3
  int (*get_id)(NcclId *id);
  int (*init_rank)(NcclComm *comm, int n, NcclId id, int rank);
  int (*destroy)(NcclComm comm);
  int (*abort)(NcclComm comm);
  int (*all_reduce)(const void *in, void *out, size_t n, int type, int op, NcclComm comm,
                    cudaStream_t stream);
  const char *(*error_string)(int code);
} NcclFunctions;
#endif
