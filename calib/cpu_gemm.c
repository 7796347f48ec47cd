/* OpenBLAS on one thread per part. Its own threads stay unused: beside ours they would compete for
 * the same CPUs, and their idle spinning would enter other operators' times. A row-major matrix is
 * the transpose of a column-major one, so out's columns are computed as rows. */
#include "calib/cpu_gemm.h"
#include <string.h>

/* A matrix product repacks its weights first, which for few tokens costs more than going over them
 * once per token, in blocks that stay in a core's cache meanwhile. */
enum { MAX_TOKENS_BY_VECTOR = 8, BLOCK_BYTES = 256 << 10, COLUMNS = 16 };

/* Columns begin … end, one token after the other. */
static void multiply_vectors(const CpuGemm *gemm, int64_t begin, int64_t end, float keep) {
  const int64_t block = BLOCK_BYTES / (gemm->k * (int64_t)sizeof(float)) + 1;
  const int32_t k = (int32_t)gemm->k, one = 1;
  const float alpha = 1;
  for (int64_t at = begin; at < end; at += block) {
    const int32_t columns = (int32_t)(end - at < block ? end - at : block);
    for (int64_t t = 0; t < gemm->tokens; t++)
      gemm->blas->sgemv("T", &k, &columns, &alpha, gemm->weights + at * k, &k, gemm->in + t * k,
                        &one, &keep, gemm->out + t * gemm->n + at, &one);
  }
}

void cpu_gemm(const void *work, int32_t part, int32_t n_parts) {
  const CpuGemm *gemm = work;
  const int32_t n = (int32_t)gemm->n, k = (int32_t)gemm->k, tokens = (int32_t)gemm->tokens;
  int64_t begin, end;
  cpu_share(gemm->n, COLUMNS, part, n_parts, &begin, &end);
  const int32_t columns = (int32_t)(end - begin);
  if (columns == 0 || tokens == 0) return;
  float *out = gemm->out + begin;
  const float keep = gemm->bias ? 1 : 0, alpha = 1;
  for (int64_t t = 0; gemm->bias && t < gemm->tokens; t++)
    memcpy(out + t * gemm->n, gemm->bias + begin, (size_t)columns * sizeof *out);
  if (tokens <= MAX_TOKENS_BY_VECTOR)
    multiply_vectors(gemm, begin, end, keep);
  else
    gemm->blas->sgemm("T", "N", &columns, &tokens, &k, &alpha, gemm->weights + begin * k, &k,
                      gemm->in, &k, &keep, out, &n);
}
