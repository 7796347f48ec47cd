/* Runs a decoder's layers over a batch: the whole of an iteration, or its terms
 * (perfmodel/perfmodel.h), by the same code. */
#ifndef CALIB_CPU_RUN_H
#define CALIB_CPU_RUN_H
#include "calib/cpu_batch.h"
#include "calib/cpu_gemm.h"

typedef struct CpuRun {
  unsigned parts; // CALIB_PART_…
  int32_t layers;
  bool hot; // one layer and one set again and again
} CpuRun;

/* `round` counts runs: those that differ use other layers and sets, as far as there are. What a run
 * computes is left in model->activations; a part that does not run leaves its results as they were.
 */
void cpu_run(CpuModel *model, const CpuBatch *batch, const CpuRun *run, int64_t round);

/* The head alone, on weights [vocab][hidden] other than the model's own. */
void cpu_run_head(CpuModel *model, const CpuBatch *batch, const float *weights);

/* Single operators, on the activations that an iteration has them on. */
void cpu_run_norm(CpuModel *model, const float *x, const float *weight, const float *bias,
                  int64_t tokens);
void cpu_run_embedding(CpuModel *model, const CpuBatch *batch);
void cpu_run_rope_append(CpuModel *model, const CpuBatch *batch, const CpuLayer *layer,
                         float *pages, int64_t set);
void cpu_run_activation(CpuModel *model, int64_t tokens);
void cpu_run_argmax(CpuModel *model, int64_t rows);
/* One of CALIB_GEMM_…, as a task for cpu_gemm; the head needs no layer. */
CpuGemm cpu_run_product(const CpuModel *model, CalibOp op, const CpuLayer *layer, int64_t rows);
#endif
