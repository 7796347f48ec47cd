/* Any point of a plan on a CPU, ready to be run again and again.
 *
 * Cold weights are slices of all there are, in turn; pages come from the next set and layer. What
 * the operator before has just written (activations, logits) is as warm as it would be then. */
#ifndef CALIB_CPU_POINT_H
#define CALIB_CPU_POINT_H
#include "calib/cpu_run.h"

typedef struct CpuPoint {
  CpuModel *model;
  CalibPoint point; // its batch must live as long
  CpuBatch batch;   // of terms, and of those single operators that take rows
  int64_t round;
  float *buffer;        // of pages, gathered
  const float *weights; // that a product or the head ran on last; NULL: those of the layers
} CpuPoint;

/* NULL, or why a CPU has no such point. */
const char *cpu_point_supports(const CalibPoint *point);
/* Memory comes from `arena`. */
CalibStatus cpu_point_init(CpuPoint *self, CpuModel *model, const CalibPoint *point,
                           int64_t available_bytes, Arena *arena, char *error);
void cpu_point_run(CpuPoint *self);

/* --- cpu_tensors.c: what the point reads and writes, as backend.h has it. */
int64_t cpu_point_columns(const CpuPoint *self, CalibTensor tensor);
void cpu_point_move(const CpuPoint *self, const CalibSlice *slice, double *values, bool writes);
#endif
