/* All times of a model times a factor: what is not known of them, as a range of them, or a machine
 * that is slower than its likes. What its pieces are over, and what was measured, stays. */
#ifndef PERFMODEL_TIME_SCALE_H
#define PERFMODEL_TIME_SCALE_H
#include "perfmodel/perfmodel.h"

#define TIME_SCALE_MIN 0.5
#define TIME_SCALE_MAX 2.0   // of what is not known
#define SLOWDOWN_MAX   100.0 // of a machine

/* Of a compiled model, with its engine's host if it has one; `scale`, TIME_SCALE_MIN to
 * SLOWDOWN_MAX, is taken to 2^-32. 1 changes nothing, the digest neither. */
void perfmodel_scale(PerfModel *self, double scale, Arena *arena);
/* The terms of a compiled model, before its host is added, each by its factor in the same range;
 * those of PERF_HOST and PERF_SUM are not read. Factors of 1 change nothing. */
void perfmodel_scale_terms(PerfModel *self, const double factors[PERF_TERMS], Arena *arena);
#endif
