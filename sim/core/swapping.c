/* See swapping.h. */
#include "sim/core/swapping.h"
#include "sim/core/copying.h"

/* Blocks of a request that neither runs nor is being prefilled, wherever they are. */
static int64_t blocks_held(const Machine *machine, const Request *request) {
  return machine_held_blocks(machine, request_tokens(request));
}

bool sim_can_swap_out(const Machine *machine, const Request *request) {
  return machine->kvtier->swaps && blocks_held(machine, request) <= machine->free_cpu_blocks;
}

int64_t sim_swap(Simulation *self, Machine *machine, const Request *request,
                 LinkDirection direction) {
  const bool out = direction == LINK_TO_CPU;
  const int64_t blocks = blocks_held(machine, request);
  const int64_t bytes = blocks * machine->pool->kv_block_bytes;
  // Copies of a machine's tier follow each other, whichever way they go.
  const Tick from = machine->copied_at > self->now ? machine->copied_at : self->now;
  MachineTotals *totals = &machine->totals;
  machine->free_cpu_blocks += out ? -blocks : blocks;
  machine->copied_at = sim_copy(self, machine, direction, bytes, from);
  *(out ? &totals->swapped_out_bytes : &totals->swapped_in_bytes) += bytes;
  *(out ? &totals->swaps_out : &totals->swaps_in) += 1;
  sim_log(self, out ? OUTCOME_SWAP_OUT : OUTCOME_SWAP_IN, request, machine->ix,
          request->generated_tokens, blocks);
  return blocks;
}

void sim_drop_swapped(Machine *machine, const Request *request) {
  machine->free_cpu_blocks += blocks_held(machine, request);
}
