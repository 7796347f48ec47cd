/* Another clock than the performance models: an iteration's sequences, one by one, for whoever
 * really runs them. */
#include "sim/core/decode_run.h"
#include "sim/core/loop.h"
#include <assert.h>

static ExecutorBatch batch_of(Simulation *self, const Instance *instance, const BatchShape *shape,
                              int64_t done) {
  const size_t n_prefills = instance->loop->list(self, instance, shape, done);
  const int32_t n_decodes = (int32_t)(self->n_sequences - n_prefills);
  assert(n_decodes <= shape->decode_seqs);
  return (ExecutorBatch){.instance = instance->ix,
                         .shape = *shape,
                         .sequences = self->sequences,
                         .n_prefills = (int32_t)n_prefills,
                         .n_decodes = n_decodes};
}

Tick sim_execute(Simulation *self, const Instance *instance, const BatchShape *shape,
                 int64_t done) {
  if (self->failed) return -1; // other instances that the same event woke
  const ExecutorBatch batch = batch_of(self, instance, shape, done);
  const Executor *executor = self->config->executor;
  const Tick ticks = executor->iteration(executor->context, &batch, self->diag);
  assert(ticks != 0);
  return ticks;
}

Tick sim_execute_stage(Simulation *self, const Instance *instance, const BatchShape *shape,
                       Tick *ret_last) {
  const int64_t n = instance->pipeline->n_stages;
  const Executor *executor = self->config->executor;
  if (!executor->stage) {
    const Tick ticks = sim_execute(self, instance, shape, 0);
    *ret_last = ticks - (n - 1) * (ticks / n);
    return ticks < 0 ? ticks : ticks / n;
  }
  const ExecutorBatch batch = batch_of(self, instance, shape, 0);
  return executor->stage(executor->context, &batch, ret_last, self->diag);
}
