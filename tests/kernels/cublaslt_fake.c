/* See cublaslt_fake.h. The opaque structures of the library hold what is said here. */
#include "tests/kernels/cublaslt_fake.h"
#include "kernels/half.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/expected.h"
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

typedef struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
} Layout;

typedef struct Operation {
  cublasLtEpilogue_t epilogue;
  const void *bias;
} Operation;

/* By the numbers of cublasLtMatmulAlgoConfigAttributes_t. */
typedef struct Algorithm {
  uint32_t numbers[CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID + 1];
} Algorithm;

static struct {
  int fastest;
  int64_t proposals;
} fake = {.fastest = 8};

void fake_blas_set_fastest(int algorithm) {
  fake.fastest = algorithm;
}
int64_t fake_blas_take_proposals(void) {
  const int64_t proposals = fake.proposals;
  fake.proposals = 0;
  return proposals;
}

size_t cublasLtGetVersion(void) {
  return 130000;
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "a status of the fake";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  *handle = (cublasLtHandle_t)malloc(1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  free((void *)handle);
  return CUBLAS_STATUS_SUCCESS;
}

// --- descriptions ------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  (void)compute, (void)scale;
  *description = (cublasLtMatmulDesc_t)calloc(1, sizeof(Operation));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  free(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  Operation *operation = (Operation *)description;
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) memcpy(&operation->epilogue, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) memcpy(&operation->bias, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  Layout *made = calloc(1, sizeof *made);
  (void)leading;
  *made = (Layout){type, rows, columns};
  *layout = (cublasLtMatrixLayout_t)made;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  free(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = (cublasLtMatmulPreference_t)malloc(1);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  free(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  (void)preference, (void)attribute, (void)value, (void)bytes;
  return CUBLAS_STATUS_SUCCESS;
}

// --- algorithms --------------------------------------------------------------------------------

static size_t bytes_of(cublasLtMatmulAlgoConfigAttributes_t attribute) {
  return attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ||
                 attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID
             ? 2
             : 4;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *algorithm) {
  Algorithm made = {.numbers = {(uint32_t)id}};
  (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
  memset(algorithm, 0, sizeof *algorithm);
  memcpy(algorithm, &made, sizeof made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  Algorithm *made = (Algorithm *)algorithm;
  if (bytes != bytes_of(attribute)) return CUBLAS_STATUS_INVALID_VALUE;
  made->numbers[attribute] = 0;
  memcpy(&made->numbers[attribute], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written) {
  const Algorithm *made = (const Algorithm *)algorithm;
  if (bytes != bytes_of(attribute)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, &made->numbers[attribute], bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/* Each has a tile of its own, and no other goes with it. */
static uint32_t tile_of(uint32_t id) {
  return 13 + id;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result) {
  const Algorithm *made = (const Algorithm *)algorithm;
  const uint32_t id = made->numbers[CUBLASLT_ALGO_CONFIG_ID];
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d;
  result->workspaceSize = made->numbers[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] > 1 ? SIZE_MAX : 0;
  result->state = id >= FAKE_FIRST_ALGORITHM && id < FAKE_FIRST_ALGORITHM + FAKE_ALGORITHMS &&
                          made->numbers[CUBLASLT_ALGO_CONFIG_TILE_ID] == tile_of(id)
                      ? CUBLAS_STATUS_SUCCESS
                      : CUBLAS_STATUS_NOT_SUPPORTED;
  return result->state;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *n) {
  (void)preference;
  fake.proposals++;
  for (*n = 0; *n < wanted && *n < FAKE_ALGORITHMS; ++*n) {
    cublasLtMatmulHeuristicResult_t *result = &results[*n];
    const int id = FAKE_FIRST_ALGORITHM + *n;
    const uint32_t tile = tile_of((uint32_t)id);
    memset(result, 0, sizeof *result);
    cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF,
                           CUDA_R_16BF, CUDA_R_16BF, id, &result->algo);
    cublasLtMatmulAlgoConfigSetAttribute(&result->algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                         sizeof tile);
    cublasLtMatmulAlgoCheck(handle, operation, a, b, c, d, &result->algo, result);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// --- products ----------------------------------------------------------------------------------

static GemmEpilogue epilogue_of(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
  case CUBLASLT_EPILOGUE_BIAS:
    return GEMM_BIAS;
  case CUBLASLT_EPILOGUE_GELU_BIAS:
    return GEMM_BIAS_GELU;
  case CUBLASLT_EPILOGUE_RELU_BIAS:
    return GEMM_BIAS_RELU;
  default:
    return GEMM_PLAIN;
  }
}

/* Its first operand is our second, transposed: see gemm.c. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void *alpha, const void *w, cublasLtMatrixLayout_t w_layout,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Operation *operation = (const Operation *)description;
  const Layout *of_w = (const Layout *)w_layout, *of_a = (const Layout *)a_layout;
  const Algorithm *made = (const Algorithm *)algorithm;
  const GemmShape shape = {.m = (int32_t)of_a->columns,
                           .n = (int32_t)of_w->columns,
                           .k = (int32_t)of_a->rows,
                           .dtype = of_a->type == CUDA_R_16BF ? CALIB_BF16 : CALIB_FP16,
                           .epilogue = epilogue_of(operation->epilogue)};
  const int64_t n = (int64_t)shape.m * shape.n;
  (void)handle, (void)alpha, (void)beta, (void)c, (void)c_layout, (void)d_layout;
  (void)workspace, (void)workspace_bytes, (void)stream;
  double *product = malloc((size_t)n * sizeof *product);
  if (!product) return CUBLAS_STATUS_ALLOC_FAILED;
  expected_gemm(&shape, product, a, w, operation->bias);
  for (int64_t i = 0; i < n; i++)
    half_store(shape.dtype, d, i, product[i]);
  free(product);
  fake_advance((int)made->numbers[CUBLASLT_ALGO_CONFIG_ID] == fake.fastest ? 2 : 3);
  return CUBLAS_STATUS_SUCCESS;
}
