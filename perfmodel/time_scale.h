/* All times of a model times a factor: what is not known of them, as a range of them. What its
 * pieces are over, and what was measured, stays. */
#ifndef PERFMODEL_TIME_SCALE_H
#define PERFMODEL_TIME_SCALE_H
#include "perfmodel/perfmodel.h"

#define TIME_SCALE_MIN 0.5
#define TIME_SCALE_MAX 2.0 // so that sums of terms at PWL_TICKS_MAX still are ticks

/* Of a compiled model without a host; `scale` is taken to 2^-32. 1 changes nothing, the digest
 * neither. */
void perfmodel_scale(PerfModel *self, double scale, Arena *arena);
#endif
