/* The operators by their formulas, in double and one number after the other: what the fast ones are
 * held to. Shapes as in cpu_ops.h; weights are the fast ones' own. */
#ifndef CALIB_CPU_REFERENCE_H
#define CALIB_CPU_REFERENCE_H
#include "calib/cpu_run.h"

void reference_norm(CalibNorm norm, double *out, double *residual, const double *x,
                    const float *weight, const float *bias, int64_t tokens, int64_t hidden);
/* Columns 0, step, 2·step … of the product, the others being left alone. */
void reference_gemm(double *out, const double *in, const float *weights, const float *bias,
                    int64_t tokens, int64_t n, int64_t k, int64_t step);
/* q and k of one token, at `position`. */
void reference_rotate(double *qkv, int32_t heads, int32_t head_dim, int64_t position);
void reference_activate(CalibActivation activation, double *out, const double *in, int64_t tokens,
                        int64_t ffn);
/* One query head over `context` keys and values, rows of head_dim `stride` apart. `weights` is room
 * for `context` numbers. slope 0: no ALiBi. */
void reference_attend(double *out, const double *query, const double *keys, const double *values,
                      int64_t stride, int64_t context, int32_t head_dim, double slope,
                      double *weights);

/* What a run leaves behind, of so many layers. Each [tokens] or [logits] rows. */
typedef struct ReferenceResult {
  double *attention;        // of the last layer, [tokens][query_heads·head_dim]
  double *residual, *delta; // [tokens][hidden]
  double *logits;           // [n_logits][vocab]; columns that are no multiple of `step` are 0
  int64_t step;
} ReferenceResult;

/* The same as a first round of cpu_run, of layers that are kept, on the model as it is before it:
 * pages and, of parts that do not run, the activations. Results are of `arena`. */
void reference_run(ReferenceResult *ret_result, const CpuModel *model, const CpuBatch *batch,
                   const CpuRun *run, int64_t step, Arena *arena);
#endif
