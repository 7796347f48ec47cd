/* What a serving engine's host adds to the time of its kernels: for models that were measured of
 * kernels alone. */
#ifndef PERFMODEL_HOST_TIME_H
#define PERFMODEL_HOST_TIME_H
#include "perfmodel/perfmodel.h"

typedef struct HostTime {
  Tick per_iteration, per_sequence; // the latter for each that needs logits
  /* Iterations with prefill of more than `graph_tokens` tokens are no graph: their kernels are
   * launched one by one, and they take `eager` at least. */
  Tick eager;
  int64_t graph_tokens;
} HostTime;

/* Adds it to a compiled model, which must be composed. */
void perfmodel_add_host(PerfModel *self, const HostTime *host, Arena *arena);
#endif
