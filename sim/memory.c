/* Blocks of KV memory: what is free and what is promised (DESIGN §5).
 *
 * Machine.free_blocks is exact between decode runs. During one it knows of the blocks that the run
 * has taken up to DecodeRun.booked; engine_free_blocks knows of all, and engine_catch_up books
 * them. Whoever takes or gives blocks during a run has its length fitted to what is left, so that a
 * run never outgrows the memory. */
#include "sim/memory.h"
#include "sim/decode_run.h"
#include "sim/marks.h"
#include "sim/tier.h"
#include <assert.h>

/* Iterations of the batch that have begun and are not booked yet. */
static int64_t unbooked_iterations(const Engine *self, const Machine *machine) {
  const int64_t booked = machine->run.booked;
  if (machine->activity == ACTIVITY_DECODE) return engine_begun_iterations(self, machine) - booked;
  return machine->activity == ACTIVITY_PREFILL && machine_decodes(machine) ? 1 - booked : 0;
}

int64_t engine_free_blocks(const Engine *self, const Machine *machine) {
  if (machine->batcher->reserves_output) return machine->free_blocks;
  return machine->free_blocks - batch_growth(&machine->batch, unbooked_iterations(self, machine));
}

static void take(Engine *self, Machine *machine, int64_t n) {
  machine->free_blocks -= n;
  assert(0 <= machine->free_blocks && machine->free_blocks <= machine->kv_blocks);
  column_add(self->view.kv_blocks, machine->ix, n);
}

void engine_book_iterations(Engine *self, Machine *machine, int64_t n) {
  const int64_t more = n - machine->run.booked;
  if (more == 0) return;
  if (!machine->batcher->reserves_output) take(self, machine, batch_growth(&machine->batch, more));
  batch_advance(&machine->batch, more);
  machine->run.booked = n;
}

void engine_catch_up(Engine *self, Machine *machine) {
  const int64_t more = unbooked_iterations(self, machine);
  if (more > 0) engine_book_iterations(self, machine, machine->run.booked + more);
}

bool engine_has_blocks(const Engine *self, const Machine *machine, int64_t n) {
  /* Enough even at the end of the longest run, usually: then nobody need know how far it is. */
  const Batch *batch = &machine->batch;
  const int64_t most = (batch_whole_blocks(batch, machine->run.limit) + 1) * (int64_t)batch->n_seqs;
  return n <= machine->free_blocks - most || n <= engine_free_blocks(self, machine);
}

bool engine_has_room(const Engine *self, const Machine *machine, int64_t n) {
  if (machine->batcher->reserves_output) return engine_has_blocks(self, machine, n);
  const bool hangs_on_growth = machine->batch.block_size > BATCH_MARGIN_TOKENS;
  const int64_t n_begun = hangs_on_growth ? unbooked_iterations(self, machine) : 0;
  const int64_t margin = batch_margin(&machine->batch, n_begun, 0);
  return engine_has_blocks(self, machine, n + margin);
}

void engine_take_blocks(Engine *self, Machine *machine, int64_t n) {
  take(self, machine, n);
  if (n < 0 && machine->wanted_blocks < machine->kv_blocks) engine_withhold_blocks(self, machine);
  if (machine->activity == ACTIVITY_DECODE) engine_mark(self, machine, MARK_REFIT);
}

void engine_promise_blocks(Engine *self, Machine *machine, int64_t n) {
  machine->promised_blocks += n;
  assert(machine->promised_blocks >= 0);
  column_add(self->view.kv_blocks, machine->ix, n);
}
