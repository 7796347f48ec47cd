/* cuBLASLt is column-major: what we call C = A·Wᵀ is to it Cᵀ [n][m] = W·Aᵀ with W stored
 * transposed, so its first operand is W, its rows are our columns, and a bias per row of its result
 * is ours per column. */
#include "kernels/gemm.h"
#include "kernels/fp8.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 8, RUNS = 3, ALIGNMENT_BYTES = 16, FIRST_CAPACITY = 256 };

/* A candidate this much slower than the best at first sight is not run again. */
static const double HOPELESS = 1.5;

typedef struct Plan {
  GemmShape shape; // m 0: an empty place
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t w, a, c;
  cublasLtMatmulAlgo_t algorithm;
  char text[GEMM_ALGORITHM_SIZE];
} Plan;

struct Gemm {
  cublasLtHandle_t blas;
  cudaEvent_t begin, end;
  GemmMemory memory;
  Plan **plans; // a hash table by shape with open addressing, at most half full
  size_t capacity, n_plans;
};

/* The operands of one call. */
typedef struct Operands {
  cudaStream_t stream;
  void *c;
  const void *a, *w, *bias;
  const float *a_scales, *w_scales; // NULL: none
} Operands;

static int fail(char *error, const char *what, const char *why) {
  snprintf(error, GEMM_ERROR_SIZE, "%s: %s", what, why);
  return -1;
}

static int check_cuda(cudaError_t status, const char *what, char *error) {
  return status == cudaSuccess ? 0 : fail(error, what, cudaGetErrorString(status));
}

static int check_blas(cublasStatus_t status, const char *what, char *error) {
  return status == CUBLAS_STATUS_SUCCESS ? 0 : fail(error, what, cublasLtGetStatusString(status));
}

/* The greatest power of two that divides an address, or 256, which is all that is asked for. */
static int alignment_of(const void *pointer) {
  const uintptr_t bits = (uintptr_t)pointer | 256;
  return (int)(bits & -bits);
}

/* A product's status by name, and where its operands lie, which is what cuBLASLt may not take. */
static int check_product(cublasStatus_t status, const char *what, const Operands *o, char *error) {
  if (status == CUBLAS_STATUS_SUCCESS) return 0;
  const int n =
      snprintf(error, GEMM_ERROR_SIZE,
               "%s: %s, %s; operands are aligned to %d (input), %d (weights) and %d (output) bytes",
               what, cublasLtGetStatusName(status), cublasLtGetStatusString(status),
               alignment_of(o->a), alignment_of(o->w), alignment_of(o->c));
  if (o->a_scales && n > 0 && n < GEMM_ERROR_SIZE)
    snprintf(error + n, (size_t)(GEMM_ERROR_SIZE - n), ", scales to %d (input) and %d (weights)",
             alignment_of(o->a_scales), alignment_of(o->w_scales));
  return -1;
}

// --- plans by shape ----------------------------------------------------------------------------

static size_t hash(const GemmShape *shape) { // FNV-1a over words
  const uint32_t words[] = {(uint32_t)shape->m,        (uint32_t)shape->n,
                            (uint32_t)shape->k,        (uint32_t)shape->dtype,
                            (uint32_t)shape->epilogue, (uint32_t)shape->weights};
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    sum = (sum ^ words[i]) * 1099511628211u;
  return (size_t)(sum >> 20);
}

/* Where the plan of a shape is, or would be. */
static Plan **find_place(Plan **plans, size_t capacity, const GemmShape *shape) {
  size_t i = hash(shape) % capacity;
  while (plans[i] && !gemm_shape_same(&plans[i]->shape, shape))
    i = (i + 1) % capacity;
  return &plans[i];
}

static int keep_plan(Gemm *self, Plan *plan, char *error) {
  if (2 * (self->n_plans + 1) > self->capacity) {
    const size_t capacity = self->capacity ? 2 * self->capacity : FIRST_CAPACITY;
    Plan **const plans = calloc(capacity, sizeof(Plan *));
    if (!plans) return fail(error, "plans of products", "out of memory");
    for (size_t i = 0; i < self->capacity; i++)
      if (self->plans[i]) *find_place(plans, capacity, &self->plans[i]->shape) = self->plans[i];
    free(self->plans);
    self->plans = plans;
    self->capacity = capacity;
  }
  *find_place(self->plans, self->capacity, &plan->shape) = plan;
  self->n_plans++;
  return 0;
}

static const Plan *find_plan(const Gemm *self, const GemmShape *shape) {
  return self->capacity ? *find_place(self->plans, self->capacity, shape) : NULL;
}

static void plan_free(Plan *plan) {
  if (plan->a) cublasLtMatrixLayoutDestroy(plan->a);
  if (plan->w) cublasLtMatrixLayoutDestroy(plan->w);
  if (plan->c) cublasLtMatrixLayoutDestroy(plan->c);
  if (plan->operation) cublasLtMatmulDescDestroy(plan->operation);
  free(plan);
}

// --- descriptions for cuBLASLt -----------------------------------------------------------------

static int describe_operation(Plan *plan, char *error) {
  static const cublasLtEpilogue_t EPILOGUES[] = {
      [GEMM_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
      [GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
      [GEMM_BIAS_GELU] = CUBLASLT_EPILOGUE_GELU_BIAS,
      [GEMM_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
  };
  const cublasOperation_t transpose = CUBLAS_OP_T;
  const cublasLtEpilogue_t epilogue = EPILOGUES[plan->shape.epilogue];
  cublasStatus_t status =
      cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                            &transpose, sizeof transpose);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                            &epilogue, sizeof epilogue);
  return check_blas(status, "describing a product", error);
}

/* As cublasLt.h of CUDA 12.9 has them; one before it does not. To it W comes first. */
enum { DESC_A_SCALE_MODE = 31, DESC_B_SCALE_MODE = 32 };
static const int32_t SCALE_VEC128_32F = 4, SCALE_BLK128X128_32F = 5;
enum { BLOCKS_SINCE = 120900 }; // cublasLtGetVersion

/* Sums of a tensor's products as engines have them, of fewer bits within a tensor core. */
static int describe_scales(Plan *plan, char *error) {
  const int8_t is_fast = 1;
  if (plan->shape.weights == CALIB_WEIGHTS_PLAIN) return 0;
  if (plan->shape.weights == CALIB_FP8)
    return check_blas(cublasLtMatmulDescSetAttribute(plan->operation,
                                                     CUBLASLT_MATMUL_DESC_FAST_ACCUM, &is_fast,
                                                     sizeof is_fast),
                      "describing a product", error);
  cublasStatus_t status = cublasLtMatmulDescSetAttribute(
      plan->operation, (cublasLtMatmulDescAttributes_t)DESC_A_SCALE_MODE, &SCALE_BLK128X128_32F,
      sizeof SCALE_BLK128X128_32F);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulDescSetAttribute(plan->operation,
                                            (cublasLtMatmulDescAttributes_t)DESC_B_SCALE_MODE,
                                            &SCALE_VEC128_32F, sizeof SCALE_VEC128_32F);
  return check_blas(status, "describing the scales of a product", error);
}

const char *gemm_missing(CalibWeights weights, int32_t sm) {
  if (weights == CALIB_WEIGHTS_PLAIN) return NULL;
  if (sm < 89) return "products of 8 bits need compute capability 8.9 or more (L4, H100)";
  if (weights == CALIB_FP8) return NULL;
  if (sm / 10 != 9) return "cuBLASLt has products with scales of blocks for Hopper alone";
  return cublasLtGetVersion() < BLOCKS_SINCE
             ? "products with scales of blocks need the cuBLASLt of CUDA 12.9 or later"
             : NULL;
}

static cudaDataType_t type_of(const GemmShape *shape) {
  return shape->dtype == CALIB_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static cudaDataType_t type_of_inputs(const GemmShape *shape) {
  return shape->weights == CALIB_WEIGHTS_PLAIN ? type_of(shape) : CUDA_R_8F_E4M3;
}

static int describe_matrices(Plan *plan, char *error) {
  const GemmShape *const s = &plan->shape;
  const cudaDataType_t type = type_of(s), in = type_of_inputs(s);
  const uint64_t m = (uint64_t)(s->weights == CALIB_FP8_BLOCK ? fp8_rows(s->m) : s->m);
  const uint64_t n = (uint64_t)s->n, k = (uint64_t)s->k;
  cublasStatus_t status = cublasLtMatrixLayoutCreate(&plan->w, in, k, n, s->k);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatrixLayoutCreate(&plan->a, in, k, m, s->k);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatrixLayoutCreate(&plan->c, type, n, m, s->n);
  return check_blas(status, "describing the matrices of a product", error);
}

/* Any operand may start at a multiple of 16 bytes, and parts of a split sum are added in fp32. */
static cublasStatus_t limit_algorithms(const Gemm *self, cublasLtMatmulPreference_t preference) {
  static const cublasLtMatmulPreferenceAttributes_t ALIGNMENTS[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  const uint64_t bytes = self->memory.workspace_bytes;
  const uint32_t alignment = ALIGNMENT_BYTES;
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
  for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
    status = cublasLtMatmulPreferenceSetAttribute(preference, ALIGNMENTS[i], &alignment,
                                                  sizeof alignment);
  return status;
}

/* The number of candidates, or below zero. */
static int find_candidates(Gemm *self, const Plan *plan, const Operands *o,
                           cublasLtMatmulHeuristicResult_t found[MAX_CANDIDATES], char *error) {
  int n = 0;
  cublasLtMatmulPreference_t preference = NULL;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
  if (status == CUBLAS_STATUS_SUCCESS) status = limit_algorithms(self, preference);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulAlgoGetHeuristic(self->blas, plan->operation, plan->w, plan->a, plan->c,
                                            plan->c, preference, MAX_CANDIDATES, found, &n);
  if (preference) cublasLtMatmulPreferenceDestroy(preference);
  if (check_product(status, "finding an algorithm for a product", o, error) < 0) return -1;
  return n > 0 ? n : fail(error, "finding an algorithm for a product", "cuBLASLt offers none");
}

// --- choices -----------------------------------------------------------------------------------

/* What an algorithm is made of, in the order of a choice's numbers. */
static const struct {
  cublasLtMatmulAlgoConfigAttributes_t attribute;
  size_t bytes;
  const char *name;
} PARTS[GEMM_CHOICE_NUMBERS] = {
    {CUBLASLT_ALGO_CONFIG_ID, 4, "algo"},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, 4, "tile"},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, "stages"},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, "cluster"},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, "inner"},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, "split-k"},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, "reduction"},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, "swizzle"},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, "option"},
};

/* Numbers of an algorithm that cuBLASLt has proposed. */
static void read_algorithm(const cublasLtMatmulAlgo_t *algorithm, GemmChoice *choice) {
  for (int i = 0; i < GEMM_CHOICE_NUMBERS; i++) {
    unsigned char bytes[4] = {0};
    size_t written = 0;
    uint16_t narrow;
    if (cublasLtMatmulAlgoConfigGetAttribute(algorithm, PARTS[i].attribute, bytes, PARTS[i].bytes,
                                             &written) != CUBLAS_STATUS_SUCCESS)
      continue;
    if (PARTS[i].bytes == sizeof narrow) {
      memcpy(&narrow, bytes, sizeof narrow);
      choice->numbers[i] = narrow;
    } else {
      memcpy(&choice->numbers[i], bytes, sizeof choice->numbers[i]);
    }
  }
}

static cublasStatus_t set_number(cublasLtMatmulAlgo_t *algorithm, int part, uint32_t number) {
  const uint16_t narrow = (uint16_t)number;
  if (PARTS[part].bytes == sizeof narrow && narrow != number) return CUBLAS_STATUS_INVALID_VALUE;
  return cublasLtMatmulAlgoConfigSetAttribute(
      algorithm, PARTS[part].attribute,
      PARTS[part].bytes == sizeof narrow ? (const void *)&narrow : (const void *)&number,
      PARTS[part].bytes);
}

/* The algorithm of a choice, if cuBLASLt knows it and would run it here. */
static bool rebuild(Gemm *self, Plan *plan, const GemmChoice *choice) {
  const cudaDataType_t type = type_of(&plan->shape), in = type_of_inputs(&plan->shape);
  cublasLtMatmulHeuristicResult_t result = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
  cublasLtMatmulAlgo_t algorithm;
  if (choice->numbers[0] > INT32_MAX) return false;
  cublasStatus_t status = cublasLtMatmulAlgoInit(self->blas, CUBLAS_COMPUTE_32F, CUDA_R_32F, in, in,
                                                 type, type, (int)choice->numbers[0], &algorithm);
  for (int i = 1; i < GEMM_CHOICE_NUMBERS && status == CUBLAS_STATUS_SUCCESS; i++)
    status = set_number(&algorithm, i, choice->numbers[i]);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmulAlgoCheck(self->blas, plan->operation, plan->w, plan->a, plan->c,
                                     plan->c, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > self->memory.workspace_bytes)
    return false;
  plan->algorithm = algorithm;
  return true;
}

/* "algo 66 tile 20 …, best of 8": what a record of a measurement should say. */
static void describe_algorithm(Plan *plan, const GemmChoice *choice) {
  size_t used = 0;
  for (int i = 0; i < GEMM_CHOICE_NUMBERS; i++)
    used += (size_t)snprintf(plan->text + used, sizeof plan->text - used, "%s %u ", PARTS[i].name,
                             choice->numbers[i]);
  snprintf(plan->text + used, sizeof plan->text - used, "best of %u", choice->candidates);
}

// --- running and measuring ---------------------------------------------------------------------

static cublasStatus_t set_bias(const Plan *plan, const Operands *o) {
  if (plan->shape.epilogue == GEMM_PLAIN) return CUBLAS_STATUS_SUCCESS;
  return cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                        &o->bias, sizeof o->bias);
}

static cublasStatus_t set_scales(const Plan *plan, const Operands *o) {
  if (plan->shape.weights == CALIB_WEIGHTS_PLAIN) return CUBLAS_STATUS_SUCCESS;
  const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
      plan->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->w_scales, sizeof o->w_scales);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                        &o->a_scales, sizeof o->a_scales);
}

static int multiply(const Gemm *self, const Plan *plan, const cublasLtMatmulAlgo_t *algorithm,
                    const Operands *o, char *error) {
  const float one = 1, zero = 0; // the scale type of fp32 sums
  cublasStatus_t status = set_bias(plan, o);
  if (status == CUBLAS_STATUS_SUCCESS) status = set_scales(plan, o);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cublasLtMatmul(self->blas, plan->operation, &one, o->w, plan->w, o->a, plan->a, &zero,
                            o->c, plan->c, o->c, plan->c, algorithm, self->memory.workspace,
                            self->memory.workspace_bytes, o->stream);
  return check_product(status, "cublasLtMatmul", o, error);
}

/* Seconds of one product out of a cache that holds nothing of it, and nothing to be written back.
 * Below zero: this algorithm does not run here, and why. */
static double measure(Gemm *self, const Plan *plan, const cublasLtMatmulAlgo_t *algorithm,
                      const Operands *o, char *error) {
  const int64_t flushed = (int64_t)self->memory.flush_bytes;
  float milliseconds;
  if (check_cuda((cudaError_t)kernel_read(o->stream, self->memory.flush, flushed),
                 "emptying the cache", error) < 0 ||
      check_cuda(cudaEventRecord(self->begin, o->stream), "cudaEventRecord", error) < 0 ||
      multiply(self, plan, algorithm, o, error) < 0 ||
      check_cuda(cudaEventRecord(self->end, o->stream), "cudaEventRecord", error) < 0 ||
      check_cuda(cudaEventSynchronize(self->end), "running a product", error) < 0 ||
      check_cuda(cudaEventElapsedTime(&milliseconds, self->begin, self->end),
                 "cudaEventElapsedTime", error) < 0)
    return -1;
  return milliseconds / 1e3;
}

/* The least of a few runs; the first one loads the kernel and does not count. */
static double measure_least(Gemm *self, const Plan *plan, const cublasLtMatmulAlgo_t *algorithm,
                            const Operands *o, double best, char *error) {
  double least = measure(self, plan, algorithm, o, error);
  if (least < 0) return -1;
  least = measure(self, plan, algorithm, o, error);
  for (int run = 1; run < RUNS && least >= 0 && (best < 0 || least < HOPELESS * best); run++) {
    const double seconds = measure(self, plan, algorithm, o, error);
    if (seconds < least) least = seconds;
  }
  return least;
}

static int measure_candidates(Gemm *self, Plan *plan, const Operands *o, GemmChoice *ret_choice,
                              char *error) {
  cublasLtMatmulHeuristicResult_t found[MAX_CANDIDATES];
  const int n = find_candidates(self, plan, o, found, error);
  if (n < 0) return -1;
  double best = -1;
  for (int i = 0; i < n; i++) {
    if (check_product(found[i].state, "an algorithm", o, error) < 0) continue;
    const double seconds = measure_least(self, plan, &found[i].algo, o, best, error);
    if (seconds < 0) cudaGetLastError(); // clears it
    if (seconds < 0 || (best >= 0 && seconds >= best)) continue;
    best = seconds;
    plan->algorithm = found[i].algo;
  }
  if (best < 0) return -1; // as the last has failed
  *ret_choice = (GemmChoice){.shape = plan->shape, .candidates = (uint32_t)n};
  read_algorithm(&plan->algorithm, ret_choice);
  return 0;
}

/* The one that an earlier run has chosen, else the fastest. */
static int choose_algorithm(Gemm *self, Plan *plan, const Operands *o, char *error) {
  GemmChoice choice;
  if (check_blas(set_bias(plan, o), "describing a product", error) < 0 ||
      check_blas(set_scales(plan, o), "describing a product", error) < 0)
    return -1;
  const bool is_kept = self->memory.choices &&
                       gemm_choices_find(self->memory.choices, &plan->shape, &choice) &&
                       rebuild(self, plan, &choice);
  if (!is_kept) {
    if (measure_candidates(self, plan, o, &choice, error) < 0) return -1;
    if (self->memory.choices) gemm_choices_add(self->memory.choices, &choice);
  }
  describe_algorithm(plan, &choice);
  return 0;
}

static int check_first_run(const GemmShape *shape, const Operands *o, char *error) {
  if (shape->m < 1 || shape->n < 1 || shape->k < 8 || shape->k % 8)
    return fail(error, "a product", "its depth is not a multiple of 8");
  if (shape->epilogue != GEMM_PLAIN && shape->n % 8)
    return fail(error, "a product", "its columns are not a multiple of 8, which an epilogue needs");
  if (shape->epilogue != GEMM_PLAIN && !o->bias) return fail(error, "a product", "it has no bias");
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(o->stream, &capture);
  if (check_cuda(status, "a product", error) < 0) return -1;
  if (capture != cudaStreamCaptureStatusNone)
    return fail(error, "a product", "its first run must not be captured");
  return 0;
}

static const Plan *make_plan(Gemm *self, const GemmShape *shape, const Operands *o, char *error) {
  if (check_first_run(shape, o, error) < 0) return NULL;
  Plan *const plan = calloc(1, sizeof *plan);
  if (!plan) {
    fail(error, "plans of products", "out of memory");
    return NULL;
  }
  plan->shape = *shape;
  if (describe_operation(plan, error) < 0 || describe_scales(plan, error) < 0 ||
      describe_matrices(plan, error) < 0 || choose_algorithm(self, plan, o, error) < 0 ||
      keep_plan(self, plan, error) < 0) {
    plan_free(plan);
    return NULL;
  }
  return plan;
}

static int run(Gemm *self, const GemmShape *shape, const Operands *operands, char *error) {
  const Plan *plan = find_plan(self, shape);
  if (!plan) plan = make_plan(self, shape, operands, error);
  if (!plan) return -1;
  return multiply(self, plan, &plan->algorithm, operands, error);
}

int gemm_run(Gemm *self, KernelStream stream, const GemmShape *shape, void *c, const void *a,
             const void *w, const void *bias, char *error) {
  const Operands operands = {.stream = stream, .c = c, .a = a, .w = w, .bias = bias};
  return run(self, shape, &operands, error);
}

int gemm_run_scaled(Gemm *self, KernelStream stream, const GemmShape *shape, void *c,
                    const uint8_t *a, const float *a_scales, const uint8_t *w,
                    const float *w_scales, char *error) {
  const Operands operands = {
      .stream = stream, .c = c, .a = a, .w = w, .a_scales = a_scales, .w_scales = w_scales};
  if (shape->epilogue != GEMM_PLAIN || shape->n % 16 || shape->k % 16 ||
      (shape->weights == CALIB_FP8_BLOCK && shape->k % FP8_BLOCK))
    return fail(error, "a product of 8 bits",
                "its sides are not multiples of 16, or its depth is not a multiple of a block");
  return run(self, shape, &operands, error);
}

const char *gemm_algorithm(const Gemm *self, const GemmShape *shape) {
  const Plan *const plan = find_plan(self, shape);
  return plan ? plan->text : "";
}

int gemm_open(Gemm **ret_gemm, const GemmMemory *memory, char *error) {
  Gemm *const self = calloc(1, sizeof *self);
  if (!self) return fail(error, "cuBLASLt", "out of memory");
  self->memory = *memory;
  if (check_blas(cublasLtCreate(&self->blas), "cuBLASLt", error) < 0 ||
      check_cuda(cudaEventCreate(&self->begin), "cuBLASLt", error) < 0 ||
      check_cuda(cudaEventCreate(&self->end), "cuBLASLt", error) < 0) {
    gemm_close(self);
    return -1;
  }
  *ret_gemm = self;
  return 0;
}

void gemm_close(Gemm *self) {
  for (size_t i = 0; i < self->capacity; i++)
    if (self->plans[i]) plan_free(self->plans[i]);
  free(self->plans);
  if (self->begin) cudaEventDestroy(self->begin);
  if (self->end) cudaEventDestroy(self->end);
  if (self->blas) cublasLtDestroy(self->blas);
  free(self);
}
