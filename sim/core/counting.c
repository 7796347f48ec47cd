/* See counting.h. */
#include "sim/core/counting.h"

int64_t sim_counted_seqs(const Simulation *self, const Instance *instance) {
  const Batch *batch = &instance->batch;
  if (metrics_ended(&self->warm_up_metrics) == self->warm_up_metrics.asked.requests)
    return (int64_t)batch->n_seqs;
  int64_t n = 0;
  for (size_t i = 0; i < batch->n_seqs; i++)
    n += sim_counts(self, &self->requests.slots[batch->entries[i].request]);
  return n;
}
