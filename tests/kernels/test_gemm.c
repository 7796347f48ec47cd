/* gemm_run against the reference, on a GPU or with cuBLASLt as it is documented
 * (cublaslt_fake.h): odd shapes, every epilogue, scales of 8 bits, the choice of an algorithm once
 * per shape, and what is refused. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fp8.h"
#include "kernels/gemm.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"
#ifdef FAKE_GPU
#include "tests/kernels/cuda_runtime_fake.h"
enum { FLUSH_BYTES = 1 << 12 }; // what is emulated has no cache, and reads slowly
#else
enum { FLUSH_BYTES = GEMM_WORKSPACE_BYTES };
#endif

/* Decodes and chunks of tokens; depths and widths of shards; a vocabulary of odd size. */
static const int32_t SIZES[][3] = {
    {1, 64, 64},   {17, 1280, 1024}, {129, 768, 512}, {1, 5120, 1728},
    {65, 448, 64}, {257, 1024, 640}, {3, 4002, 256},
};

/* The library's GELU has the tanh of the hardware, of 11 bits. */
static const double HARDWARE_TANH_ERROR = 0x1p-9;

typedef struct Operands {
  size_t n_a, n_w, n_c;
  uint16_t *a, *w, *bias; // on the host
  void *on_device_a, *on_device_w, *on_device_bias, *c;
} Operands;

static Operands make_operands(const GemmShape *shape) {
  Operands o = {.n_a = (size_t)shape->m * (size_t)shape->k,
                .n_w = (size_t)shape->n * (size_t)shape->k,
                .n_c = (size_t)shape->m * (size_t)shape->n};
  o.a = random_elements(shape->dtype, (int64_t)o.n_a, 1, 51);
  o.w = random_elements(shape->dtype, (int64_t)o.n_w, 0.1, 52);
  o.bias = random_elements(shape->dtype, shape->n, 1, 53);
  o.on_device_a = device_copy(o.a, o.n_a * 2);
  o.on_device_w = device_copy(o.w, o.n_w * 2);
  o.on_device_bias = device_copy(o.bias, (size_t)shape->n * 2);
  o.c = device_alloc(o.n_c * 2);
  return o;
}

static void free_operands(Operands *o) {
  free(o->a);
  free(o->w);
  free(o->bias);
  device_free(o->on_device_a);
  device_free(o->on_device_w);
  device_free(o->on_device_bias);
  device_free(o->c);
}

static int run(Gemm *gemm, KernelStream stream, const GemmShape *shape, const Operands *o,
               char *error) {
  return gemm_run(gemm, stream, shape, o->c, o->on_device_a, o->on_device_w,
                  shape->epilogue == GEMM_PLAIN ? NULL : o->on_device_bias, error);
}

static void check(Gemm *gemm, GemmShape shape) {
  char error[GEMM_ERROR_SIZE] = "";
  Operands o = make_operands(&shape);
  expect_true(strcmp(gemm_algorithm(gemm, &shape), "") == 0, "no algorithm before the first run");
  expect_true(run(gemm, NULL, &shape, &o, error) == 0, "first product: %s", error);
  const char *const algorithm = gemm_algorithm(gemm, &shape);
  expect_true(strncmp(algorithm, "algo ", 5) == 0, "the algorithm is told: '%s'", algorithm);
  device_upload(o.c, o.a, o.n_a < o.n_c ? o.n_a : o.n_c); // what the measuring left is not it
  expect_true(run(gemm, NULL, &shape, &o, error) == 0, "second product: %s", error);
  expect_true(gemm_algorithm(gemm, &shape) == algorithm, "the algorithm stays");

  const bool is_gelu = shape.epilogue == GEMM_BIAS_GELU;
  double *const expected = malloc(o.n_c * sizeof *expected);
  expected_gemm(&shape, expected, o.a, o.w, o.bias);
  uint16_t *const got = device_fetch(o.c, o.n_c * 2);
  expect_error_below(greatest_error(shape.dtype, got, expected, (int64_t)o.n_c, 1),
                     2 * half_error(shape.dtype) + (is_gelu ? HARDWARE_TANH_ERROR : 0),
                     "product %dx%dx%d, dtype %d, epilogue %d", shape.m, shape.n, shape.k,
                     shape.dtype, shape.epilogue);
  free(expected);
  free(got);
  free_operands(&o);
}

/* Bytes of e4m3 that are numbers, and scales that differ by powers of two. */
static uint8_t *random_bytes(int64_t n, uint64_t seed) {
  uint8_t *bytes = calloc((size_t)n, 1);
  for (int64_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)(random_below(&seed, 256) & 0xbf); // at most 1.875
  return bytes;
}
static float *random_scales(int64_t n, uint64_t seed) {
  float *scales = calloc((size_t)n, sizeof *scales);
  for (int64_t i = 0; i < n; i++)
    scales[i] = (float)ldexp(1, (int)random_below(&seed, 5) - 2);
  return scales;
}

static void check_scaled(Gemm *gemm, CalibWeights weights, int32_t m, int32_t n, int32_t k) {
  const GemmShape shape = {m, n, k, CALIB_BF16, GEMM_PLAIN, weights};
  const int32_t rows = fp8_rows(m); // those past m are written, and mean nothing
  const int64_t n_a = (int64_t)rows * k, n_w = (int64_t)n * k, n_c = (int64_t)rows * n;
  const int64_t n_a_scales = fp8_input_scales(weights, m, k);
  const int64_t n_w_scales = fp8_weight_scales(weights, n, k);
  uint8_t *const a = random_bytes(n_a, 54), *const w = random_bytes(n_w, 55);
  float *const a_scales = random_scales(n_a_scales, 56), *const w_scales =
                                                             random_scales(n_w_scales, 57);
  void *const there[] = {device_copy(a, (size_t)n_a), device_copy(w, (size_t)n_w),
                         device_copy(a_scales, (size_t)n_a_scales * sizeof *a_scales),
                         device_copy(w_scales, (size_t)n_w_scales * sizeof *w_scales),
                         device_alloc((size_t)n_c * 2)};
  char error[GEMM_ERROR_SIZE] = "";
  double *const expected = calloc((size_t)n_c, sizeof *expected);
  expect_true(gemm_run_scaled(gemm, NULL, &shape, there[4], there[0], there[2], there[1], there[3],
                              error) == 0,
              "product of 8 bits: %s", error);
  expected_gemm_scaled(&shape, expected, a, a_scales, w, w_scales);
  uint16_t *const got = device_fetch(there[4], (size_t)n_c * 2);
  for (int32_t row = 0; row < m; row++)
    expect_error_below(
        relative_error(CALIB_BF16, got + (int64_t)row * n, expected + (int64_t)row * n, n),
        half_error(CALIB_BF16), "row %d of %dx%dx%d, weights %d", row, m, n, k, weights);
  for (int i = 0; i < 5; i++)
    device_free(there[i]);
  free(a);
  free(w);
  free(a_scales);
  free(w_scales);
  free(expected);
  free(got);
}

/* Where the device has them. */
static void check_all_scaled(Gemm *gemm) {
  static const int32_t SHAPES[][3] = {{1, 128, 128}, {17, 272, 640}, {129, 384, 256}};
  struct cudaDeviceProp device;
  expect_true(cudaGetDeviceProperties(&device, 0) == cudaSuccess, "the device's properties");
  for (CalibWeights weights = CALIB_FP8; weights <= CALIB_FP8_BLOCK; weights++) {
    if (gemm_missing(weights, 10 * device.major + device.minor)) continue;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
      check_scaled(gemm, weights, SHAPES[i][0], SHAPES[i][1], SHAPES[i][2]);
  }
  expect_true(gemm_missing(CALIB_FP8, 80) != NULL && gemm_missing(CALIB_FP8, 89) == NULL &&
                  gemm_missing(CALIB_FP8_BLOCK, 89) != NULL &&
                  gemm_missing(CALIB_FP8_BLOCK, 100) != NULL &&
                  gemm_missing(CALIB_WEIGHTS_PLAIN, 80) == NULL,
              "what a device lacks is said");
}

/* cuBLASLt 13 refuses scales that do not begin at 16 bytes; what it answers is said. */
static void check_misaligned(Gemm *gemm) {
  const GemmShape shape = {16, 128, 128, CALIB_BF16, GEMM_PLAIN, CALIB_FP8};
  char error[GEMM_ERROR_SIZE] = "";
  struct cudaDeviceProp device;
  expect_true(cudaGetDeviceProperties(&device, 0) == cudaSuccess, "the device's properties");
  if (gemm_missing(CALIB_FP8, 10 * device.major + device.minor)) return;
  uint8_t *const bytes = random_bytes(128 * 128, 58);
  float *const scales = random_scales(8, 59);
  void *const there = device_copy(bytes, 128 * 128);
  float *const scales_there = device_copy(scales, 8 * sizeof *scales);
  void *const out = device_alloc(16 * 128 * 2);
  const int status =
      gemm_run_scaled(gemm, NULL, &shape, out, there, scales_there, there, scales_there + 1, error);
  expect_true(status < 0 || !device_is_emulated(), "scales at 4 bytes are refused");
  expect_true(status == 0 || (strstr(error, "CUBLAS_STATUS_") && strstr(error, "4 (weights)")),
              "the status and the alignment are named: '%s'", error);
  expect_true(gemm_run_scaled(gemm, NULL, &shape, out, there, scales_there, there, scales_there + 4,
                              error) == 0,
              "scales at 16 bytes: %s", error);
  device_free(out);
  device_free(scales_there);
  device_free(there);
  free(scales);
  free(bytes);
}

/* A first run must not be captured; a later one may. */
static void check_capture(Gemm *gemm) {
  char error[GEMM_ERROR_SIZE] = "";
  const GemmShape known = {1, 64, 64, CALIB_BF16, GEMM_PLAIN, CALIB_WEIGHTS_PLAIN};
  const GemmShape fresh = {2, 64, 64, CALIB_BF16, GEMM_PLAIN, CALIB_WEIGHTS_PLAIN};
  Operands o = make_operands(&fresh);
  cudaStream_t stream;
  cudaGraph_t graph;
  expect_true(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "stream");
  expect_true(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess,
              "capture");
  expect_true(run(gemm, stream, &fresh, &o, error) < 0 && strstr(error, "captured") != NULL,
              "a first product in a capture is refused: '%s'", error);
  expect_true(run(gemm, stream, &known, &o, error) == 0, "a known one is not: %s", error);
  expect_true(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "capture ends");
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  free_operands(&o);
}

static void check_refused(Gemm *gemm) {
  char error[GEMM_ERROR_SIZE] = "";
  const GemmShape odd = {1, 64, 60, CALIB_BF16, GEMM_PLAIN, CALIB_WEIGHTS_PLAIN};
  const GemmShape odd_epilogue = {3, 60, 64, CALIB_BF16, GEMM_BIAS, CALIB_WEIGHTS_PLAIN};
  const GemmShape with_bias = {3,          64,        64,
                               CALIB_BF16, GEMM_BIAS, CALIB_WEIGHTS_PLAIN}; // not run before
  const GemmShape odd_block = {4, 64, 192, CALIB_BF16, GEMM_PLAIN, CALIB_FP8_BLOCK};
  expect_true(gemm_run(gemm, NULL, &odd, NULL, NULL, NULL, NULL, error) < 0, "odd depth");
  expect_true(gemm_run_scaled(gemm, NULL, &odd_block, NULL, NULL, NULL, NULL, NULL, error) < 0,
              "half a block");
  expect_true(gemm_run(gemm, NULL, &with_bias, NULL, NULL, NULL, NULL, error) < 0, "no bias");
  expect_true(gemm_run(gemm, NULL, &odd_epilogue, NULL, NULL, NULL, &odd, error) < 0,
              "odd columns");
}

int main(int argc, char **argv) {
  const bool is_small = is_small_run(argc, argv);
  char error[GEMM_ERROR_SIZE] = "";
  kernel_testing_begin("gemm");
#ifdef FAKE_GPU
  fake_gpu_set((FakeGpu){.n_devices = 1, .major = 9, .has_driver = true, .memory_bytes = 1 << 30});
#endif
  void *const workspace = device_alloc(GEMM_WORKSPACE_BYTES);
  const GemmMemory memory = {.workspace = workspace,
                             .workspace_bytes = GEMM_WORKSPACE_BYTES,
                             .flush = workspace,
                             .flush_bytes = FLUSH_BYTES};
  Gemm *gemm = NULL;
  if (gemm_open(&gemm, &memory, error) < 0) {
    expect_true(false, "gemm_open: %s", error);
    return kernel_testing_end();
  }
  for (size_t i = 0; i < (is_small ? 2 : sizeof SIZES / sizeof *SIZES); i++)
    for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++)
      for (GemmEpilogue epilogue = GEMM_PLAIN; epilogue <= GEMM_BIAS_RELU; epilogue++)
        if (epilogue == GEMM_PLAIN || SIZES[i][1] % 8 == 0)
          check(gemm, (GemmShape){SIZES[i][0], SIZES[i][1], SIZES[i][2], dtype, epilogue,
                                  CALIB_WEIGHTS_PLAIN});
  check_all_scaled(gemm);
  check_misaligned(gemm);
  check_capture(gemm);
  check_refused(gemm);
  gemm_close(gemm);
  device_free(workspace);
  return kernel_testing_end();
}
