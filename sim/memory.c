/* Blocks of KV memory: who holds how many, and who gives way when they run out (DESIGN §5).
 *
 * Machine.free_blocks is exact between decode runs. During one it knows of the blocks that the run
 * has taken up to DecodeRun.booked; engine_free_blocks knows of all, and engine_catch_up books
 * them. Whoever takes or gives blocks during a run has its length fitted to what is left, so that a
 * run never outgrows the memory. */
#include "sim/engine.h"
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
  const int64_t most = (machine->run.limit / batch->block_size + 1) * (int64_t)batch->n_seqs;
  return n <= machine->free_blocks - most || n <= engine_free_blocks(self, machine);
}

bool engine_has_room(const Engine *self, const Machine *machine, int64_t n) {
  if (machine->batcher->reserves_output) return engine_has_blocks(self, machine, n);
  const int64_t margin = batch_margin(&machine->batch, unbooked_iterations(self, machine), 0);
  return engine_has_blocks(self, machine, n + margin);
}

void engine_take_blocks(Engine *self, Machine *machine, int64_t n) {
  take(self, machine, n);
  if (n < 0 && machine->wanted_blocks < machine->kv_blocks) engine_withhold_blocks(self, machine);
  if (machine->activity == ACTIVITY_DECODE) engine_refit_run(self, machine);
}

void engine_promise_blocks(Engine *self, Machine *machine, int64_t n) {
  machine->promised_blocks += n;
  assert(machine->promised_blocks >= 0);
  column_add(self->view.kv_blocks, machine->ix, n);
}

void engine_leave_batch(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const int64_t made = request->output_tokens - batch_remaining(&machine->batch, request);
  const int64_t context = request->prompt_tokens + made;
  batch_remove(&machine->batch, self->requests.slots, ix, context);
  if (!machine->batcher->reserves_output)
    request->kv_blocks = (int32_t)machine_held_blocks(machine, context);
  request->computing_ticks += machine->decoded_ticks;
  if (made == request->generated_tokens) return; // it was about to join
  request->generated_tokens = (int32_t)made;
  request->last_token_at = machine->decoded_at;
}

void engine_requeue(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  assert(request->kv_blocks == 0);
  request->prefilled_tokens = 0;
  request->prefill_tokens = request->prompt_tokens + request->generated_tokens;
  request->state = REQUEST_WAITS_PREFILL;
  request->preemptions++;
  request->evictions++;
  request_queue_push_front(&machine->prefill_queue, self->requests.slots, ix);
  machine->n_prefills++;
  column_add(self->view.pending_tokens, machine->ix, request->prefill_tokens);
  self->metrics.evictions++;
  engine_log(self, OUTCOME_EVICTION, request, machine->ix, request->generated_tokens, 0);
}

/* The earlier chunks of a prefill are lost; the request keeps its place in the queue. No eviction,
 * each of which has a token made by a prefill of its own. */
void engine_drop_chunks(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  assert(request->prefilled_tokens > 0 && request->transfer == TRANSFER_NONE);
  engine_take_blocks(self, machine, -request->kv_blocks);
  request->kv_blocks = 0;
  request->preemptions++;
  machine->n_started--;
  self->metrics.preemptions++;
  self->metrics.dropped_tokens += request->prefilled_tokens;
  column_add(self->view.pending_tokens, machine->ix, request->prefilled_tokens);
  engine_log(self, OUTCOME_PREEMPTION, request, machine->ix, request->prefilled_tokens, 0);
  request->prefilled_tokens = 0;
}

void engine_suspend(Engine *self, Machine *machine, RequestIx ix) {
  Request *slots = self->requests.slots;
  Request *request = &slots[ix];
  assert(machine->activity == ACTIVITY_IDLE);
  if (request->state == REQUEST_RUNS) {
    engine_leave_batch(self, machine, ix);
  } else if (request->state == REQUEST_BLOCKED) {
    request_queue_remove(&machine->blocked, slots, ix);
  } else {
    assert(request->state == REQUEST_WAITS_DECODE);
    request_queue_remove(&machine->decode_queue, slots, ix);
  }
}

void engine_evict(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (request->state == REQUEST_WAITS_PREFILL) {
    engine_drop_chunks(self, machine, ix);
    return;
  }
  engine_suspend(self, machine, ix);
  engine_take_blocks(self, machine, -request->kv_blocks);
  request->kv_blocks = 0;
  if (engine_can_swap_out(machine, request))
    engine_swap_out(self, machine, ix);
  else
    engine_requeue(self, machine, ix);
}
