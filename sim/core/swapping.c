/* See swapping.h. */
#include "sim/core/swapping.h"
#include "sim/core/copying.h"

/* Blocks of a request that neither runs nor is being prefilled, wherever they are. */
static int64_t blocks_held(const Instance *instance, const Request *request) {
  return instance_held_blocks(instance, request_tokens(request));
}

bool sim_can_swap_out(const Instance *instance, const Request *request) {
  return instance->kvtier->swaps && blocks_held(instance, request) <= instance->free_cpu_blocks;
}

int64_t sim_swap(Simulation *self, Instance *instance, const Request *request,
                 LinkDirection direction) {
  const bool out = direction == LINK_TO_CPU;
  const int64_t blocks = blocks_held(instance, request);
  const int64_t bytes = blocks * instance->pool->kv_block_bytes;
  // Copies of an instance's tier follow each other, whichever way they go.
  const Tick from = instance->copied_at > self->now ? instance->copied_at : self->now;
  InstanceTotals *totals = &instance->totals;
  instance->free_cpu_blocks += out ? -blocks : blocks;
  instance->copied_at = sim_copy(self, instance, direction, bytes, from);
  *(out ? &totals->swapped_out_bytes : &totals->swapped_in_bytes) += bytes;
  *(out ? &totals->swaps_out : &totals->swaps_in) += 1;
  sim_log(self, out ? OUTCOME_SWAP_OUT : OUTCOME_SWAP_IN, request, instance->ix,
          request->generated_tokens, blocks);
  return blocks;
}

void sim_drop_swapped(Instance *instance, const Request *request) {
  instance->free_cpu_blocks += blocks_held(instance, request);
}
