/* Another clock than the performance models: an iteration's sequences, one by one, for whoever
 * really runs them. */
#include "sim/core/decode_run.h"
#include "sim/core/step_listing.h"
#include <assert.h>

static void push(Simulation *self, const Request *request, int64_t new_tokens,
                 int64_t past_tokens) {
  ARENA_RESERVE(self->arena, self->sequences, self->sequences_capacity, self->n_sequences + 1);
  self->sequences[self->n_sequences++] =
      (BatchSequence){request->id, (int32_t)new_tokens, (int32_t)past_tokens};
}

/* `done` iterations of a run are not booked in the batch yet. The newest token of a decode is the
 * one whose KV the iteration makes. */
static void push_decodes(Simulation *self, const Instance *instance, int64_t done) {
  const Batch *batch = &instance->batch;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const Request *request = &self->requests.slots[batch->entries[i].request];
    const int64_t remaining = batch->entries[i].finish - batch->iterations - done;
    const int64_t context = (int64_t)request->prompt_tokens + request->output_tokens - remaining;
    push(self, request, 1, context - 1);
  }
}

/* The sequences, the first `n_prefills` of which prefill. */
static Tick execute(Simulation *self, const Instance *instance, const BatchShape *shape,
                    size_t n_prefills) {
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

static Tick execute_step(Simulation *self, const Instance *instance, const BatchShape *shape) {
  const Step *step = instance->scheduler->current;
  const size_t n_prefills = step_sequences(step, true, NULL);
  self->n_sequences = n_prefills + step_sequences(step, false, NULL);
  ARENA_RESERVE(self->arena, self->sequences, self->sequences_capacity, self->n_sequences);
  step_sequences(step, true, self->sequences);
  step_sequences(step, false, self->sequences + n_prefills);
  return execute(self, instance, shape, n_prefills);
}

Tick sim_execute(Simulation *self, const Instance *instance, const BatchShape *shape,
                 int64_t done) {
  if (self->failed) return -1; // other instances that the same event woke
  self->n_sequences = 0;
  if (instance->scheduler) return execute_step(self, instance, shape);
  for (size_t i = 0; shape->prefill_tokens > 0 && i < instance->n_chunks; i++) {
    const Request *request = &self->requests.slots[instance->chunks[i]];
    push(self, request, request->chunk_tokens, request->prefilled_tokens);
  }
  const size_t n_prefills = self->n_sequences;
  if (shape->decode_seqs > 0) push_decodes(self, instance, done);
  return execute(self, instance, shape, n_prefills);
}
