/* The products of a layer through cuBLASLt: C [m][n] = A [m][k] · W [n][k]ᵀ (+ epilogue), all
 * row-major, m tokens, fp32 accumulation.
 *
 * cuBLASLt proposes algorithms by its heuristic; which of the first eight is fastest is measured
 * once per shape, with operands out of the cache, and kept; with GemmChoices from run to run, too,
 * as far as cuBLASLt still accepts what was chosen. Addresses start at multiples of 16
 * bytes; k is a multiple of 8, and n too where there is an epilogue. An epilogue costs no pass over
 * C, so a bias, and the activation of an up-projection (OPT, BLOOM), belong into it; SwiGLU needs
 * two columns at once and stays kernel_activation. Not for several threads at once. */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H
#include "kernels/gemm_choices.h"
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { GEMM_ERROR_SIZE = 256, GEMM_ALGORITHM_SIZE = 160 };
enum { GEMM_WORKSPACE_BYTES = 64 << 20 }; // what to give: more than any algorithm asks for

typedef struct Gemm Gemm;

/* Memory of the caller's: `workspace` of the device is what products use and overwrite; `flush`, of
 * more than twice the cache, is read before an algorithm is timed. Several Gemm may share both
 * `flush` and `choices`, which may be NULL. */
typedef struct GemmMemory {
  void *workspace;
  size_t workspace_bytes;
  const void *flush;
  size_t flush_bytes;
  GemmChoices *choices;
} GemmMemory;

/* Takes the current device. Below zero: `error` [GEMM_ERROR_SIZE] says what failed. */
int gemm_open(Gemm **ret_gemm, const GemmMemory *memory, char *error);
void gemm_close(Gemm *self);

/* Queues one product. The first of a shape measures its algorithms with these operands, which waits
 * for the stream and overwrites c; it therefore fails while the stream is captured. Below zero:
 * `error` [GEMM_ERROR_SIZE] says why. */
int gemm_run(Gemm *self, KernelStream stream, const GemmShape *shape, void *c, const void *a,
             const void *w, const void *bias, char *error);

/* NULL, or why products of these weights cannot be had on the device of this compute capability:
 * what it lacks, or cuBLASLt. */
const char *gemm_missing(CalibWeights weights, int32_t sm);
/* gemm_run with e4m3 operands and their scales, GEMM_PLAIN. n and k are multiples of 16; of blocks
 * k is one of 128, and a and c have fp8_rows(m) rows. */
int gemm_run_scaled(Gemm *self, KernelStream stream, const GemmShape *shape, void *c,
                    const uint8_t *a, const float *a_scales, const uint8_t *w,
                    const float *w_scales, char *error);

/* The algorithm of a shape that was run, as "algo 66 tile 20 stages 35 …" by cuBLASLt's numbers,
 * with how many were measured and its time; "" for another shape. Lives until gemm_close. */
const char *gemm_algorithm(const Gemm *self, const GemmShape *shape);

#ifdef __cplusplus
}
#endif
#endif
