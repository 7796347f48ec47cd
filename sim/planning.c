/* What a batcher has planned for the next iteration, carried out. */
#include "sim/iteration.h"
#include "sim/memory.h"
#include "sim/moving.h"
#include "sim/shaping.h"
#include <assert.h>

void plan_prefill(BatchPlan *plan, RequestIx request, int32_t tokens) {
  ARENA_RESERVE(plan->arena, plan->prefills, plan->prefills_capacity, plan->n_prefills + 1);
  plan->prefills[plan->n_prefills++] = (PlanItem){request, tokens};
}

void plan_admit(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->admits, plan->admits_capacity, plan->n_admits + 1);
  plan->admits[plan->n_admits++] = request;
}

void plan_pad(BatchPlan *plan, int64_t tokens, int64_t area2) {
  assert(plan->n_prefills > 0);
  plan->padding_tokens += tokens;
  plan->padding_area2 += area2;
}

void plan_pad_decodes(BatchPlan *plan, int64_t seqs, int64_t context) {
  plan->padding_seqs = seqs;
  plan->padding_context = context;
}

void plan_preempt(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->preempts, plan->preempts_capacity, plan->n_preempts + 1);
  plan->preempts[plan->n_preempts++] = request;
}

static void apply_preempts(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  for (size_t i = 0; i < self->plan.n_preempts; i++) {
    const RequestIx ix = self->plan.preempts[i];
    Request *request = &slots[ix];
    assert(request->state == REQUEST_RUNS);
    engine_leave_batch(self, machine, ix);
    request->state = REQUEST_BLOCKED;
    request_queue_push(&machine->blocked, slots, ix);
    self->metrics.preemptions++;
    engine_log(self, OUTCOME_PREEMPTION, request, machine->ix, 0, 0);
  }
}

/* A request that is to run leaves the queue in which it waited. */
static void leave_queue(Engine *self, Machine *machine, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].state == REQUEST_SWAPPED) {
    engine_swap_in(self, machine, ix);
  } else {
    const bool blocked = slots[ix].state == REQUEST_BLOCKED;
    assert(blocked || slots[ix].state == REQUEST_WAITS_DECODE);
    request_queue_remove(blocked ? &machine->blocked : &machine->decode_queue, slots, ix);
  }
}

static void apply_admits(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  const bool reserves = machine->batcher->reserves_output;
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    const RequestIx ix = self->plan.admits[i];
    Request *request = &slots[ix];
    leave_queue(self, machine, ix);
    if (reserves) {
      const MachineView view = engine_view(self, machine);
      const int64_t more = view_admit_blocks(&view, ix, true);
      engine_take_blocks(self, machine, more);
      request->kv_blocks += (int32_t)more;
    }
    request->state = REQUEST_RUNS;
    batch_push(&machine->batch, slots, ix, request->prompt_tokens + request->generated_tokens,
               request->output_tokens - request->generated_tokens, self->arena);
    request->computing_ticks -= machine->decoded_ticks;
  }
}

/* Of those admitted, who is still there once the batch has room. */
static void begin_decodes(Engine *self, const Machine *machine) {
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    Request *request = &self->requests.slots[self->plan.admits[i]];
    if (request->state != REQUEST_RUNS || request->decode_began_at >= 0) continue;
    request->decode_began_at = self->now;
    engine_log(self, OUTCOME_DECODE_BEGIN, request, machine->ix, 0, 0);
  }
}

/* The first prefill of a request begins: the blocks promised for it are now taken as it goes. */
static void begin_prefill(Engine *self, Machine *machine, Request *request) {
  request->prefill_began_at = self->now;
  engine_promise_blocks(self, machine, -machine_prompt_blocks(machine, request));
  engine_book_store(machine, request);
  engine_log(self, OUTCOME_PREFILL_BEGIN, request, machine->ix, request->prefill_tokens, 0);
}

static void apply_prefills(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  machine->n_chunks = 0;
  if (self->plan.n_prefills == 0) return;
  const MachineView view = engine_view(self, machine);
  machine->padding_tokens = self->plan.padding_tokens;
  machine->padding_area2 = self->plan.padding_area2;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const PlanItem item = self->plan.prefills[i];
    Request *request = &slots[item.request];
    assert(request->state == REQUEST_WAITS_PREFILL && item.tokens > 0 &&
           request->prefilled_tokens + item.tokens <= request->prefill_tokens);
    if (request->prefill_began_at < 0) begin_prefill(self, machine, request);
    const int64_t more = view_prefill_blocks(&view, item.request, item.tokens);
    engine_take_blocks(self, machine, more);
    request->kv_blocks += (int32_t)more;
    request->state = REQUEST_PREFILLS;
    request->chunk_tokens = item.tokens;
    ARENA_RESERVE(self->arena, machine->chunks, machine->chunks_capacity, machine->n_chunks + 1);
    machine->chunks[machine->n_chunks++] = item.request;
    if (request->prefilled_tokens + item.tokens < request->prefill_tokens) continue;
    request_queue_remove(&machine->prefill_queue, slots, item.request);
    machine->n_started -= request->prefilled_tokens > 0;
    if (request_moves_from(request, machine->ix)) engine_offer_layers(self, item.request);
  }
}

/* Evicts until the batch can grow by one token per sequence; whether anybody had to go. */
static bool make_room(Engine *self, Machine *machine) {
  if (machine->batcher->reserves_output) return false;
  bool evicted = false;
  while (machine_decodes(machine) && batch_growth(&machine->batch, 1) > machine->free_blocks) {
    const MachineView view = engine_view(self, machine);
    engine_evict(self, machine, machine->kvtier->pick(machine->kvtier_options, &view));
    evicted = true;
  }
  return evicted;
}

bool engine_carry_out(Engine *self, Machine *machine) {
  assert(!self->plan.pause_decodes || self->plan.n_admits == 0);
  if (machine->group && machine->group->shape == SHAPE_PREFILL) engine_fit_store(self, machine);
  machine->decodes_paused = self->plan.pause_decodes;
  machine->padding_seqs = self->plan.padding_seqs;
  machine->padding_context = self->plan.padding_context;
  apply_preempts(self, machine);
  apply_admits(self, machine);
  const bool evicted = make_room(self, machine);
  assert(!evicted || self->plan.n_prefills == 0);
  begin_decodes(self, machine);
  apply_prefills(self, machine);
  return evicted;
}
