/* See iteration.h. */
#include "sim/core/iteration.h"
#include "sim/books/observing.h"
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/placement.h"
#include "sim/core/prefill_run.h"
#include "sim/core/roles.h"
#include "sim/core/scheduling.h"
#include "sim/core/tier.h"
#include <assert.h>

/* --- what the batcher plans */

void plan_prefill(BatchPlan *plan, RequestIx request, int32_t tokens) {
  ARENA_RESERVE(plan->arena, plan->prefills, plan->prefills_capacity, plan->n_prefills + 1);
  plan->prefills[plan->n_prefills++] = (PlanItem){request, tokens};
  if (plan->machine && plan->machine->cache)
    life_hits_held(plan->simulation, plan->machine, request);
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
static void begin_decodes(Simulation *self, const Machine *machine) {
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    Request *request = &self->requests.slots[self->plan.admits[i]];
    if (request->state != REQUEST_RUNS || request->decode_began_at >= 0) continue;
    request->decode_began_at = self->now;
    sim_log(self, OUTCOME_DECODE_BEGIN, request, machine->ix, 0, 0);
  }
}

static void apply_prefills(Simulation *self, Machine *machine) {
  machine->n_chunks = 0;
  if (self->plan.n_prefills == 0) return;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const RequestIx ix = self->plan.prefills[i].request;
    const Request *request = &self->requests.slots[ix];
    life_chunk_began(self, machine, ix, self->plan.prefills[i].tokens);
    ARENA_RESERVE(self->arena, machine->chunks, machine->chunks_capacity, machine->n_chunks + 1);
    machine->chunks[machine->n_chunks++] = ix;
    if (request->state == REQUEST_ENDS_PREFILL && request_moves_from(request, machine->ix))
      sim_offer_layers(self, ix);
  }
}

/* Evicts until the batch can grow by one token per sequence; whether anybody had to go. */
static bool make_room(Simulation *self, Machine *machine) {
  if (machine->batcher->reserves_output) return false;
  bool evicted = false;
  while (machine_decodes(machine) && batch_next_growth(&machine->batch) > machine->free_blocks) {
    const MachineView view = sim_view(self, machine);
    life_gave_way(self, machine, machine->kvtier->pick(machine->kvtier_options, &view));
    evicted = true;
  }
  return evicted;
}

/* Carries out self->plan on a machine between iterations, as far as a group's store has room;
 * whether anybody gave way. */
static bool carry_out(Simulation *self, Machine *machine) {
  assert(!self->plan.pause_decodes || self->plan.n_admits == 0);
  if (machine->group) tell_group_plans(self, machine);
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

/* --- beginning */

/* Everybody left out of the iteration that begins is one older. */
static void age_blocked(Simulation *self, const Machine *machine) {
  Request *slots = self->requests.slots;
  for (RequestIx ix = machine->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    slots[ix].preemptions++;
}

/* What is computed for nothing is a chunk of its own. */
static void spread_chunks(Simulation *self, Machine *machine) {
  ranks_begin(&self->ranks, machine->pool->attention_ranks, INT64_MAX, self->arena);
  for (size_t i = 0; i < machine->n_chunks; i++) {
    const Request *request = &self->requests.slots[machine->chunks[i]];
    const int64_t past = request->prefilled_tokens, chunk = request->chunk_tokens;
    ranks_add(&self->ranks, chunk, chunk * (2 * past + chunk));
  }
  ranks_add(&self->ranks, machine->padding.prefill_tokens, machine->padding.prefill_area2);
  machine->busiest = ranks_busiest(&self->ranks);
}

static BatchShape shape_of(const Simulation *self, const Machine *machine) {
  BatchShape shape = {.prefill_tokens = machine->padding.prefill_tokens,
                      .prefill_area2 = machine->padding.prefill_area2};
  for (size_t i = 0; i < machine->n_chunks; i++) {
    const Request *request = &self->requests.slots[machine->chunks[i]];
    const int64_t past = request->prefilled_tokens, chunk = request->chunk_tokens;
    shape.prefill_tokens += chunk;
    shape.prefill_area2 += chunk * (2 * past + chunk);
    shape.logit_seqs += past + chunk == request_prefill_tokens(request);
  }
  if (machine_decodes(machine)) {
    shape.decode_seqs = (int64_t)machine->batch.n_seqs + machine->padding.decode_seqs;
    shape.context_tokens = machine->batch.context_tokens + machine->padding.context_tokens;
    shape.logit_seqs += shape.decode_seqs;
  }
  return shape;
}

/* Nothing can run though decodes wait or several prefills have begun, and no transfer out of here
 * will free memory: one of them must give way. False when nothing can be done now. */
static bool unstick(Simulation *self, Machine *machine) {
  const bool stuck =
      machine->decode_queue.count > 0 || machine->blocked.count > 0 || machine->n_started > 1;
  if (!stuck || machine->n_outgoing > 0 || !machine->kvtier->pick) return false;
  const MachineView view = sim_view(self, machine);
  const RequestIx victim = machine->kvtier->pick(machine->kvtier_options, &view);
  if (victim == REQUEST_NONE) return false;
  life_gave_way(self, machine, victim);
  return true;
}

/* Whether the batcher has anybody to plan for. */
static bool is_empty(const Machine *machine) {
  return machine->batch.n_seqs == 0 && machine->prefill_queue.count == 0 &&
         machine->decode_queue.count == 0 && machine->blocked.count == 0 &&
         machine->swapped.count == 0;
}

/* Asks the batcher what is next and begins it; the machine idles if that is nothing. */
static void begin(Simulation *self, Machine *machine) {
  BatchPlan *plan = &self->plan;
  if (machine->group) sim_mark_group(self, machine->group);
  if (!machine_works(machine) || is_empty(machine) ||
      (machine->group && group_waits(machine->group))) {
    sim_book_idleness(self, machine, true);
    return;
  }
  bool nothing, evicted, made_room = false;
  do {
    plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
    plan->padding = (BatchShape){0};
    plan->pause_decodes = false;
    plan->simulation = self;
    plan->machine = machine;
    MachineView view = sim_view(self, machine);
    view.made_room = made_room;
    machine->batcher->plan(machine->batcher_options, machine->batcher_state, &view, plan);
    evicted = carry_out(self, machine);
    nothing = machine->n_chunks == 0 && !machine_decodes(machine);
    if (nothing && !evicted) evicted = unstick(self, machine);
    made_room |= evicted;
  } while (nothing && evicted);
  sim_book_idleness(self, machine, nothing);
  if (nothing) return;
  age_blocked(self, machine);
  sim_note_joined(self, machine);
  if (machine->n_chunks > 0) {
    const BatchShape shape = shape_of(self, machine);
    if (machine->pool->attention_ranks > 1) spread_chunks(self, machine);
    sim_begin_prefills(self, machine, &shape);
  } else {
    sim_begin_run(self, machine, made_room);
  }
}

void sim_begin(Simulation *self, Machine *machine) {
  if (machine->activity == ACTIVITY_IDLE && machine->scheduler)
    scheduler_begin(self, machine);
  else if (machine->activity == ACTIVITY_IDLE)
    begin(self, machine);
  else if (machine->activity == ACTIVITY_DECODE)
    sim_cut_run(self, machine);
}

/* --- ending */

static void end_chunk(Simulation *self, Machine *machine, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const bool last = life_chunk_ended(self, machine, ix);
  if (request_leaves(request)) {
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, last);
    return;
  }
  sim_dispatch(self, ix);
  if (!last) {
    if (request_moves_from(request, machine->ix)) sim_offer_chunk(self, ix);
    return;
  }
  life_prefilled(self, machine, ix);
  if (request->generated_tokens == request->output_tokens)
    life_finished(self, machine, ix);
  else if (request->decode_machine == machine->ix)
    life_waits_decode(self, machine, ix);
  else if (machine->group)
    tell_group_prefilled(self, ix);
  else
    sim_begin_transfer(self, ix);
}

/* Those of the batch who have given up, `undelivered` tokens of each made meanwhile. */
static void end_leaving(Simulation *self, Machine *machine, int32_t undelivered) {
  while (machine->leaving.count > 0) {
    const RequestIx ix = machine->leaving.first;
    request_queue_remove(&machine->leaving, self->requests.slots, ix);
    life_left_early(self, ix, undelivered);
  }
}

/* The batch has made `n` iterations, the last of which ends now. */
static void end_decodes(Simulation *self, Machine *machine, int64_t n) {
  const Batch *batch = &machine->batch;
  sim_book_iterations(self, machine, n);
  machine->run.booked = 0;
  machine->decoded_at = self->now;
  machine->decoded_ticks += self->now - machine->run.began_at;
  end_leaving(self, machine, 1);
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0)
    life_finished(self, machine, batch->entries[0].request);
}

/* Those whose chunks have ended, in the order of the plan. */
static void end_chunks(Simulation *self, Machine *machine) {
  const size_t n_chunks = machine->n_chunks;
  machine->n_chunks = 0;
  for (size_t i = 0; i < n_chunks; i++)
    end_chunk(self, machine, machine->chunks[i]);
}

void sim_handle_iteration(Simulation *self, uint32_t target) {
  Machine *machine = &self->machines[target];
  const bool prefills = machine->activity == ACTIVITY_PREFILL;
  const bool resized =
      machine->moves_kv && sim_advance_tier(machine, self->now - machine->run.part_began_at);
  if (prefills) sim_end_prefills(self, machine);
  if (!prefills && !sim_end_part(self, machine, resized)) return; // the run goes on
  sim_observe_end(self, machine, prefills ? 1 : machine->run.done);
  machine->activity = ACTIVITY_IDLE;
  sim_mark(self, machine, MARK_BEGIN);
  if (machine->availability == MACHINE_DRAINS) sim_mark(self, machine, MARK_DRAIN);
  if (self->keeps_parts) parts_iterations_end(self, machine, prefills);
  bool changes = true;
  if (machine->scheduler) {
    changes = scheduler_end(self, machine, prefills);
  } else {
    if (machine_decodes(machine)) end_decodes(self, machine, prefills ? 1 : machine->run.done);
    if (prefills) end_chunks(self, machine);
  }
  if (resized) sim_fit_capacity(self, machine);
  if (!changes) return;
  sim_admit_inbound(self, machine);
  sim_review_role(self, machine);
}

/* --- what a failure breaks off */

/* The batch is as of its last iteration that ended, but for the blocks that the present one took.
 */
static void break_off_batch(Simulation *self, Machine *machine) {
  const DecodeRun *run = &machine->run;
  sim_book_iterations(self, machine, run->done + 1);
  machine->unfinished = true;
  if (run->done > 0) machine->decoded_at = run->part_began_at;
  machine->decoded_ticks += self->now - run->began_at;
}

/* Chunks are not done, and wait where they were in line. */
static void break_off_chunks(Simulation *self, Machine *machine) {
  const size_t n_chunks = machine->n_chunks;
  machine->n_chunks = 0;
  for (size_t i = n_chunks; i-- > 0;)
    life_chunk_broken_off(self, machine, machine->chunks[i]);
  for (size_t i = 0; i < n_chunks; i++) {
    const RequestIx ix = machine->chunks[i];
    if (!request_leaves(&self->requests.slots[ix])) continue;
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
  }
}

void sim_break_off(Simulation *self, Machine *machine) {
  if (machine->activity == ACTIVITY_IDLE) return;
  const bool prefills = machine->activity == ACTIVITY_PREFILL, decodes = machine_decodes(machine);
  const bool resized = !prefills && sim_break_off_run(self, machine);
  if (prefills) sim_break_off_prefills(self, machine);
  agenda_clear(&self->agenda, EVENT_ITERATION, machine->ix);
  machine->activity = ACTIVITY_IDLE;
  sim_observe_end(self, machine, machine->run.done);
  sim_book_idleness(self, machine, true);
  if (self->keeps_parts) parts_broken_off(self, machine);
  if (machine->copied_at > self->now) machine->copied_at = self->now;
  if (machine->counted_from > self->now) machine->counted_from = self->now;
  if (machine->scheduler) {
    scheduler_break_off(self, machine);
  } else {
    if (decodes) break_off_batch(self, machine);
    end_leaving(self, machine, 0);
    break_off_chunks(self, machine);
  }
  if (resized) sim_fit_capacity(self, machine);
}
