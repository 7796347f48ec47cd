/* Another clock than the performance models: an iteration's sequences, one by one, for whoever
 * really runs them. */
#include "sim/core/decode_run.h"
#include "sim/core/loop.h"
#include <assert.h>

Tick sim_execute(Simulation *self, const Instance *instance, const BatchShape *shape,
                 int64_t done) {
  if (self->failed) return -1; // other instances that the same event woke
  const size_t n_prefills = instance->loop->list(self, instance, shape, done);
  const Executor *executor = self->config->executor;
  const ExecutorBatch batch = {.instance = instance->ix,
                               .shape = *shape,
                               .sequences = self->sequences,
                               .n_prefills = (int32_t)n_prefills,
                               .n_decodes = (int32_t)(self->n_sequences - n_prefills)};
  const Tick ticks = executor->iteration(executor->context, &batch, self->diag);
  assert(ticks != 0 && batch.n_decodes <= shape->decode_seqs);
  return ticks;
}
