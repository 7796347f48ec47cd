/* gemm_run against the reference, on a GPU: odd shapes, every epilogue, the choice of an algorithm
 * once per shape, and what is refused. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

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

/* A first run must not be captured; a later one may. */
static void check_capture(Gemm *gemm) {
  char error[GEMM_ERROR_SIZE] = "";
  const GemmShape known = {1, 64, 64, CALIB_BF16, GEMM_PLAIN};
  const GemmShape fresh = {2, 64, 64, CALIB_BF16, GEMM_PLAIN};
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
  const GemmShape odd = {1, 64, 60, CALIB_BF16, GEMM_PLAIN};
  const GemmShape odd_epilogue = {3, 60, 64, CALIB_BF16, GEMM_BIAS};
  const GemmShape with_bias = {3, 64, 64, CALIB_BF16, GEMM_BIAS}; // not run before
  expect_true(gemm_run(gemm, NULL, &odd, NULL, NULL, NULL, NULL, error) < 0, "odd depth");
  expect_true(gemm_run(gemm, NULL, &with_bias, NULL, NULL, NULL, NULL, error) < 0, "no bias");
  expect_true(gemm_run(gemm, NULL, &odd_epilogue, NULL, NULL, NULL, &odd, error) < 0,
              "odd columns");
}

int main(int argc, char **argv) {
  const bool is_small = is_small_run(argc, argv);
  char error[GEMM_ERROR_SIZE] = "";
  kernel_testing_begin("gemm");
  void *const workspace = device_alloc(GEMM_WORKSPACE_BYTES);
  const GemmMemory memory = {.workspace = workspace,
                             .workspace_bytes = GEMM_WORKSPACE_BYTES,
                             .flush = workspace,
                             .flush_bytes = GEMM_WORKSPACE_BYTES};
  Gemm *gemm = NULL;
  if (gemm_open(&gemm, &memory, error) < 0) {
    expect_true(false, "gemm_open: %s", error);
    return kernel_testing_end();
  }
  for (size_t i = 0; i < (is_small ? 2 : sizeof SIZES / sizeof *SIZES); i++)
    for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++)
      for (GemmEpilogue epilogue = GEMM_PLAIN; epilogue <= GEMM_BIAS_RELU; epilogue++)
        if (epilogue == GEMM_PLAIN || SIZES[i][1] % 8 == 0)
          check(gemm, (GemmShape){SIZES[i][0], SIZES[i][1], SIZES[i][2], dtype, epilogue});
  check_capture(gemm);
  check_refused(gemm);
  gemm_close(gemm);
  device_free(workspace);
  return kernel_testing_end();
}
