/* KV between a machine's HBM and its CPU memory, for tiers that swap: synchronous, as vLLM does it,
 * all blocks of a request in one transfer. Copies follow each other on the host link, whichever way
 * they go, from the moment of the plan that wants them; the iteration that the plan begins does its
 * work when they are across. */
#include "sim/limits.h"
#include "sim/memory.h"
#include <assert.h>

/* Blocks of a request that neither runs nor is being prefilled, wherever they are. */
static int64_t blocks_held(const Machine *machine, const Request *request) {
  return machine_held_blocks(machine, (int64_t)request->prompt_tokens + request->generated_tokens);
}

static void copy(Engine *self, Machine *machine, int64_t bytes, LinkDirection direction) {
  const Tick begins = machine->copied_at > self->now ? machine->copied_at : self->now;
  const Tick ticks = host_link_ticks(&machine->pool->host_link, direction, bytes, begins);
  if (engine_passes_the_end(self, (double)(begins - self->now) + (double)ticks)) return;
  machine->copied_at = begins + ticks;
}

bool engine_can_swap_out(const Machine *machine, const Request *request) {
  return machine->kvtier->swaps && blocks_held(machine, request) <= machine->free_cpu_blocks;
}

/* The first of a queue in order of arrival that arrived after `request`. */
static RequestIx next_to_arrive(const RequestQueue *queue, const Request *slots,
                                const Request *request) {
  RequestIx ix = queue->first;
  while (ix != REQUEST_NONE && slots[ix].id < request->id)
    ix = slots[ix].next;
  return ix;
}

void engine_swap_out(Engine *self, Machine *machine, RequestIx ix) {
  Request *slots = self->requests.slots;
  Request *request = &slots[ix];
  const int64_t blocks = blocks_held(machine, request);
  assert(request->kv_blocks == 0 && blocks <= machine->free_cpu_blocks);
  machine->free_cpu_blocks -= blocks;
  request->state = REQUEST_SWAPPED;
  request->preemptions++;
  request->swaps++;
  request_queue_insert(&machine->swapped, slots, ix,
                       next_to_arrive(&machine->swapped, slots, request));
  const int64_t bytes = blocks * machine->pool->kv_block_bytes;
  copy(self, machine, bytes, LINK_TO_CPU);
  machine->totals.swapped_out_bytes += bytes;
  machine->totals.swaps_out++;
  engine_log(self, OUTCOME_SWAP_OUT, request, machine->ix, request->generated_tokens, blocks);
}

void engine_swap_in(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const int64_t blocks = blocks_held(machine, request);
  assert(request->kv_blocks == 0);
  request_queue_remove(&machine->swapped, self->requests.slots, ix);
  machine->free_cpu_blocks += blocks;
  engine_take_blocks(self, machine, blocks);
  request->kv_blocks = (int32_t)blocks;
  const int64_t bytes = blocks * machine->pool->kv_block_bytes;
  copy(self, machine, bytes, LINK_TO_GPU);
  machine->totals.swapped_in_bytes += bytes;
  machine->totals.swaps_in++;
  engine_log(self, OUTCOME_SWAP_IN, request, machine->ix, request->generated_tokens, blocks);
}

Tick engine_await_copies(Engine *self, Machine *machine, Tick work) {
  const Tick stall = machine->copied_at - self->now;
  if (engine_passes_the_end(self, (double)stall + (double)work)) return 0;
  machine->totals.stall_ticks += stall;
  return stall;
}
