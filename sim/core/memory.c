/* Blocks of KV memory: what is free and what is promised (RULES.md, Blocks).
 *
 * Machine.free_blocks is exact between decode runs. During one it knows of the blocks that the run
 * has taken up to DecodeRun.booked; sim_free_blocks knows of all, and sim_catch_up books
 * them. Whoever takes or gives blocks during a run has its length fitted to what is left, so that a
 * run never outgrows the memory. */
#include "sim/core/memory.h"
#include "sim/core/decode_run.h"
#include "sim/core/marks.h"
#include "sim/core/tier.h"
#include <assert.h>

/* Iterations of the batch that have begun and are not booked yet. */
static int64_t unbooked_iterations(const Simulation *self, const Machine *machine) {
  const int64_t booked = machine->run.booked - machine->lag;
  if (machine->activity == ACTIVITY_DECODE) return sim_begun_iterations(self, machine) - booked;
  if (machine->scheduler) return 0;
  return machine->activity == ACTIVITY_PREFILL && machine_decodes(machine) ? 1 - booked : 0;
}

int64_t sim_free_blocks(const Simulation *self, const Machine *machine) {
  if (machine->batcher->reserves_output) return machine->free_blocks;
  return machine->free_blocks - batch_growth(&machine->batch, unbooked_iterations(self, machine));
}

static void take(Simulation *self, Machine *machine, int64_t n) {
  machine->free_blocks -= n;
  assert(0 <= machine->free_blocks && machine->free_blocks <= machine->kv_blocks);
  column_add(self->columns.kv_blocks, machine->ix, n);
}

void sim_book_iterations(Simulation *self, Machine *machine, int64_t n) {
  const int64_t more = n - machine->run.booked;
  if (more == 0) return;
  machine->run.booked = n;
  if (machine->cache) {
    for (int64_t i = 0; i < more; i++) {
      BatchGrowth growth = sim_begin_growth(self, machine);
      sim_grow_until(self, machine, &growth, UINT32_MAX);
      batch_advance(&machine->batch, 1);
    }
    return;
  }
  if (!machine->batcher->reserves_output) take(self, machine, batch_growth(&machine->batch, more));
  batch_advance(&machine->batch, more);
}

void sim_catch_up(Simulation *self, Machine *machine) {
  const int64_t more = unbooked_iterations(self, machine);
  if (more > 0) sim_book_iterations(self, machine, machine->run.booked + more);
}

void sim_catch_up_cache(Simulation *self, Machine *machine) {
  if (machine->cache) sim_catch_up(self, machine);
}

bool sim_has_blocks(const Simulation *self, const Machine *machine, int64_t n) {
  /* Enough even at the end of the longest run, usually: then nobody need know how far it is. */
  const Batch *batch = &machine->batch;
  const int64_t most = (batch_whole_blocks(batch, machine->run.limit) + 1) * (int64_t)batch->n_seqs;
  return n <= machine->free_blocks - most || n <= sim_free_blocks(self, machine);
}

bool sim_has_room(const Simulation *self, const Machine *machine, int64_t n) {
  if (machine->batcher->reserves_output) return sim_has_blocks(self, machine, n);
  if (machine->scheduler) return sim_has_blocks(self, machine, n + machine->running.count);
  const bool hangs_on_growth = machine->batch.block_size > BATCH_MARGIN_TOKENS;
  const int64_t n_begun = hangs_on_growth ? unbooked_iterations(self, machine) : 0;
  const int64_t margin = batch_margin(&machine->batch, n_begun, 0);
  return sim_has_blocks(self, machine, n + margin);
}

void sim_take_blocks(Simulation *self, Machine *machine, int64_t n) {
  take(self, machine, n);
  if (n < 0 && machine->wanted_blocks < machine->kv_blocks) sim_withhold_blocks(self, machine);
  if (machine->activity == ACTIVITY_DECODE) sim_mark(self, machine, MARK_REFIT);
}

/* --- what a request holds */

void sim_take_cached(Machine *machine, HeldBlocks *held, int64_t n) {
  const int64_t before = machine->cache->n_evictions;
  prefix_cache_take(machine->cache, held, n);
  machine->totals.evictions += machine->cache->n_evictions - before;
}

static void take_from_cache(Simulation *self, Machine *machine, RequestIx ix, int64_t n) {
  if (machine->cache) sim_take_cached(machine, &self->memory[ix].held, n);
}

void sim_hold_blocks(Simulation *self, Machine *machine, RequestIx ix, int64_t n) {
  if (n == 0) return;
  take_from_cache(self, machine, ix, n);
  self->requests.slots[ix].kv_blocks += (int32_t)n;
  sim_take_blocks(self, machine, n);
}

void sim_release_blocks(Simulation *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  int64_t n = request->kv_blocks;
  if (machine->cache) {
    const int64_t free_before = machine->cache->n_free;
    assert(self->memory[ix].held.n == n);
    prefix_cache_release(machine->cache, &self->memory[ix].held);
    n = machine->cache->n_free - free_before;
  }
  request->kv_blocks = 0;
  sim_take_blocks(self, machine, -n);
}

void sim_hit_blocks(Simulation *self, Machine *machine, RequestIx ix, int64_t n) {
  if (n == 0) return;
  const int64_t free_before = machine->cache->n_free;
  prefix_cache_hit(machine->cache, &self->memory[ix].held, &self->memory[ix].content,
                   machine->pool->block_size, n);
  self->requests.slots[ix].kv_blocks = (int32_t)n;
  sim_take_blocks(self, machine, free_before - machine->cache->n_free);
}

void sim_register_blocks(Simulation *self, Machine *machine, RequestIx ix, int64_t tokens) {
  if (!machine->cache) return;
  RequestMemory *memory = &self->memory[ix];
  prefix_cache_register(machine->cache, &memory->held, &memory->content, machine->pool->block_size,
                        tokens);
}

/* --- what the batch takes */

/* Where tokens are known an iteration late, a block is registered with the first token of the
 * next. */
BatchGrowth sim_begin_growth(Simulation *self, Machine *machine) {
  const Batch *batch = &machine->batch;
  if (batch->n_seqs == 0) return (BatchGrowth){REQUEST_NONE};
  take(self, machine, batch_next_growth(batch));
  if (!machine->cache) return (BatchGrowth){REQUEST_NONE};
  const Request *slots = self->requests.slots;
  const RequestIx first = batch_takers(batch, 0)->first;
  for (RequestIx ix = first; ix != REQUEST_NONE; ix = slots[ix].next_taker)
    take_from_cache(self, machine, ix, 1);
  return (BatchGrowth){machine->lag > 0 ? first : batch_takers(batch, 1)->first};
}

void sim_grow_until(Simulation *self, Machine *machine, BatchGrowth *growth, uint32_t admission) {
  const Request *slots = self->requests.slots;
  for (; growth->next != REQUEST_NONE && slots[growth->next].admission < admission;
       growth->next = slots[growth->next].next_taker) {
    const int64_t full = self->memory[growth->next].held.n - machine->lag;
    sim_register_blocks(self, machine, growth->next, full * machine->pool->block_size);
  }
}

void sim_grow_one(Simulation *self, Machine *machine, RequestIx ix, int64_t context) {
  if (blocks_of(machine, context) > blocks_of(machine, context - 1)) {
    take(self, machine, 1);
    take_from_cache(self, machine, ix, 1);
  }
  sim_register_blocks(self, machine, ix, context - machine->lag);
}

void sim_promise_blocks(Simulation *self, Machine *machine, int64_t n) {
  machine->promised_blocks += n;
  assert(machine->promised_blocks >= 0);
  column_add(self->columns.kv_blocks, machine->ix, n);
}
