/* kernels/gemm.h by the reference, for the fake GPU. */
#include "kernels/fp8.h"
#include "kernels/gemm.h"
#include "kernels/half.h"
#include "tests/kernels/cuda_runtime_fake.h"
#include "tests/kernels/expected.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 1024 };

struct Gemm {
  int n_shapes;
  GemmShape shapes[MAX_SHAPES];
};

int gemm_open(Gemm **ret_gemm, void *workspace, size_t workspace_bytes, char *error) {
  (void)workspace;
  (void)workspace_bytes;
  (void)error;
  *ret_gemm = calloc(1, sizeof **ret_gemm);
  return *ret_gemm ? 0 : -1;
}

void gemm_close(Gemm *self) {
  free(self);
}

static bool is_known(Gemm *self, const GemmShape *shape) {
  for (int i = 0; i < self->n_shapes; i++)
    if (memcmp(&self->shapes[i], shape, sizeof *shape) == 0) return true;
  return false;
}

/* Known from now on. */
static int tune(Gemm *self, const GemmShape *shape, char *error) {
  if (is_known(self, shape)) return 0;
  if (fake_is_capturing() || self->n_shapes == MAX_SHAPES) {
    snprintf(error, GEMM_ERROR_SIZE, "a shape that is not tuned, in a capture");
    return -1;
  }
  self->shapes[self->n_shapes++] = *shape;
  return 0;
}

static void store(const GemmShape *shape, void *c, double *product) {
  const int64_t n = (int64_t)shape->m * shape->n;
  for (int64_t i = 0; i < n; i++)
    half_store(shape->dtype, c, i, product[i]);
  free(product);
  fake_advance(2);
}

int gemm_run(Gemm *self, KernelStream stream, const GemmShape *shape, void *c, const void *a,
             const void *w, const void *bias, char *error) {
  (void)stream;
  double *product = malloc((size_t)shape->m * (size_t)shape->n * sizeof *product);
  if (!product || shape->weights != CALIB_WEIGHTS_PLAIN || tune(self, shape, error)) return -1;
  expected_gemm(shape, product, a, w, bias);
  store(shape, c, product);
  return 0;
}

const char *gemm_missing(CalibWeights weights, int32_t sm) {
  return weights != CALIB_WEIGHTS_PLAIN && sm < 89 ? "no products of 8 bits" : NULL;
}

/* Rows up to a whole four are written, as cuBLASLt may. */
int gemm_run_scaled(Gemm *self, KernelStream stream, const GemmShape *shape, void *c,
                    const uint8_t *a, const float *a_scales, const uint8_t *w,
                    const float *w_scales, char *error) {
  (void)stream;
  double *product = malloc((size_t)shape->m * (size_t)shape->n * sizeof *product);
  if (!product || shape->weights == CALIB_WEIGHTS_PLAIN || tune(self, shape, error)) return -1;
  if (shape->weights == CALIB_FP8_BLOCK)
    memset(c, 0xff, (size_t)fp8_rows(shape->m) * (size_t)shape->n * 2);
  expected_gemm_scaled(shape, product, a, a_scales, w, w_scales);
  store(shape, c, product);
  return 0;
}

const char *gemm_algorithm(const Gemm *self, const GemmShape *shape) {
  (void)self;
  (void)shape;
  return "";
}
