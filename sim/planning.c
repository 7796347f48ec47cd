/* What a batcher has planned for the next iteration, carried out. */
#include "sim/iteration.h"
#include "sim/lifecycle.h"
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
  plan->padding.prefill_tokens += tokens;
  plan->padding.prefill_area2 += area2;
}

void plan_pad_decodes(BatchPlan *plan, int64_t seqs, int64_t context) {
  plan->padding.decode_seqs = seqs;
  plan->padding.context_tokens = context;
}

void plan_preempt(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->preempts, plan->preempts_capacity, plan->n_preempts + 1);
  plan->preempts[plan->n_preempts++] = request;
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

static void apply_prefills(Engine *self, Machine *machine) {
  machine->n_chunks = 0;
  if (self->plan.n_prefills == 0) return;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const RequestIx ix = self->plan.prefills[i].request;
    const Request *request = &self->requests.slots[ix];
    life_chunk_began(self, machine, ix, self->plan.prefills[i].tokens);
    ARENA_RESERVE(self->arena, machine->chunks, machine->chunks_capacity, machine->n_chunks + 1);
    machine->chunks[machine->n_chunks++] = ix;
    if (request->state == REQUEST_ENDS_PREFILL && request_moves_from(request, machine->ix))
      engine_offer_layers(self, ix);
  }
}

/* Evicts until the batch can grow by one token per sequence; whether anybody had to go. */
static bool make_room(Engine *self, Machine *machine) {
  if (machine->batcher->reserves_output) return false;
  bool evicted = false;
  while (machine_decodes(machine) && batch_next_growth(&machine->batch) > machine->free_blocks) {
    const MachineView view = engine_view(self, machine);
    life_gave_way(self, machine, machine->kvtier->pick(machine->kvtier_options, &view));
    evicted = true;
  }
  return evicted;
}

bool engine_carry_out(Engine *self, Machine *machine) {
  assert(!self->plan.pause_decodes || self->plan.n_admits == 0);
  if (machine->group && machine->group->shape == SHAPE_PREFILL) engine_fit_store(self, machine);
  machine->decodes_paused = self->plan.pause_decodes;
  machine->padding = self->plan.padding;
  for (size_t i = 0; i < self->plan.n_preempts; i++)
    life_blocked(self, machine, self->plan.preempts[i]);
  for (size_t i = 0; i < self->plan.n_admits; i++)
    life_admitted(self, machine, self->plan.admits[i]);
  const bool evicted = make_room(self, machine);
  assert(!evicted || self->plan.n_prefills == 0);
  begin_decodes(self, machine);
  apply_prefills(self, machine);
  return evicted;
}
