/* kernels/gemm.h by the reference, for the fake GPU. */
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

int gemm_run(Gemm *self, KernelStream stream, const GemmShape *shape, void *c, const void *a,
             const void *w, const void *bias, char *error) {
  (void)stream;
  if (!is_known(self, shape)) {
    if (fake_is_capturing() || self->n_shapes == MAX_SHAPES) {
      snprintf(error, GEMM_ERROR_SIZE, "a shape that is not tuned, in a capture");
      return -1;
    }
    self->shapes[self->n_shapes++] = *shape;
  }
  const int64_t n = (int64_t)shape->m * shape->n;
  double *product = malloc((size_t)n * sizeof *product);
  if (!product) return -1;
  expected_gemm(shape, product, a, w, bias);
  for (int64_t i = 0; i < n; i++)
    half_store(shape->dtype, c, i, product[i]);
  free(product);
  fake_advance(2);
  return 0;
}

const char *gemm_algorithm(const Gemm *self, const GemmShape *shape) {
  (void)self;
  (void)shape;
  return "";
}
