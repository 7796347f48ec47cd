/* What a machine does next, and what the end of it brings. */
#include "sim/iteration.h"
#include "sim/decode_run.h"
#include "sim/lifecycle.h"
#include "sim/limits.h"
#include "sim/marks.h"
#include "sim/memory.h"
#include "sim/moving.h"
#include "sim/placement.h"
#include "sim/roles.h"
#include "sim/shaping.h"
#include "sim/swapping.h"
#include "sim/tier.h"

/* --- beginning */

/* Everybody left out of the iteration that begins is one older. */
static void age_blocked(Engine *self, const Machine *machine) {
  Request *slots = self->requests.slots;
  for (RequestIx ix = machine->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    slots[ix].preemptions++;
}

static BatchShape shape_of(const Engine *self, const Machine *machine) {
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
    shape.decode_seqs = machine_decode_seqs(machine);
    shape.context_tokens = machine_decode_context(machine);
    shape.logit_seqs += shape.decode_seqs;
  }
  return shape;
}

/* What predicting the outputs of the prompts that begin here adds to their iteration. */
static Tick prediction_ticks(Engine *self, const Machine *machine, Tick ticks) {
  if (!self->predictor->cost || machine->role != ROLE_PREFILL) return 0;
  const MachineView view = engine_view(self, machine);
  const double more = self->predictor->cost(self->states[POLICY_PREDICTOR], &view, ticks);
  return engine_passes_the_end(self, (double)ticks + more) ? 0 : (Tick)more;
}

static void begin_prefill_iteration(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  run->began_at = run->part_began_at = self->now;
  run->done = run->booked = 0;
  run->part = 1;
  const BatchShape shape = shape_of(self, machine);
  Tick ticks = engine_iteration_ticks(self, machine, &shape, 0);
  ticks += prediction_ticks(self, machine, ticks);
  run->series = run->compute = (Series){.first = ticks};
  run->tokens = shape.logit_seqs - machine->padding.decode_seqs;
  if (machine->moves_kv) {
    engine_plan_tier(self, machine, &shape);
    ticks = engine_passes_the_end(self, (double)run->series.first) ? 1 : run->series.first;
  }
  ticks += engine_stall(self, machine, ticks);
  machine->activity = ACTIVITY_PREFILL;
  histogram_add(machine->batch_tokens, shape.prefill_tokens + shape.decode_seqs,
                microseconds_between(self->now, self->now + ticks));
  machine->totals.prefill_iterations++;
  machine->totals.prefill_ticks += ticks;
  if (machine_decodes(machine)) machine->totals.mixed_ticks += ticks;
  machine->totals.prefill_tokens += shape.prefill_tokens - machine->padding.prefill_tokens;
  machine->totals.padding_tokens += machine->padding.prefill_tokens;
  machine->totals.decode_tokens += shape.decode_seqs - machine->padding.decode_seqs;
  if (machine_decodes(machine)) engine_book_first_gaps(self, machine, self->now + ticks);
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, self->now + ticks);
}

/* Nothing can run though decodes wait or several prefills have begun, and no transfer out of here
 * will free memory: one of them must give way. False when nothing can be done now. */
static bool unstick(Engine *self, Machine *machine) {
  const bool stuck =
      machine->decode_queue.count > 0 || machine->blocked.count > 0 || machine->n_started > 1;
  if (!stuck || machine->n_outgoing > 0 || !machine->kvtier->pick) return false;
  const MachineView view = engine_view(self, machine);
  const RequestIx victim = machine->kvtier->pick(machine->kvtier_options, &view);
  if (victim == REQUEST_NONE) return false;
  life_gave_way(self, machine, victim);
  return true;
}

static void book_idleness(Engine *self, Machine *machine, bool idle) {
  if (idle == (machine->idle_since >= 0)) return;
  if (machine->group) {
    engine_book_group(self, machine->group);
    machine->group->n_busy += idle ? -1u : 1u;
  }
  if (!idle) machine->idle_ticks += self->now - machine->idle_since;
  machine->idle_since = idle ? self->now : -1;
}

/* Whether the batcher has anybody to plan for. */
static bool is_empty(const Machine *machine) {
  return machine->batch.n_seqs == 0 && machine->prefill_queue.count == 0 &&
         machine->decode_queue.count == 0 && machine->blocked.count == 0 &&
         machine->swapped.count == 0;
}

/* Asks the batcher what is next and begins it; the machine idles if that is nothing. */
static void begin(Engine *self, Machine *machine) {
  BatchPlan *plan = &self->plan;
  if (machine->group) engine_mark_group(self, machine->group);
  if (machine->availability == MACHINE_AWAY || is_empty(machine) ||
      (machine->group && group_waits(machine->group))) {
    book_idleness(self, machine, true);
    return;
  }
  bool nothing, evicted, made_room = false;
  do {
    plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
    plan->padding = (BatchShape){0};
    plan->pause_decodes = false;
    MachineView view = engine_view(self, machine);
    view.made_room = made_room;
    machine->batcher->plan(machine->batcher_options, machine->batcher_state, &view, plan);
    evicted = engine_carry_out(self, machine);
    nothing = machine->n_chunks == 0 && !machine_decodes(machine);
    if (nothing && !evicted) evicted = unstick(self, machine);
    made_room |= evicted;
  } while (nothing && evicted);
  book_idleness(self, machine, nothing);
  if (nothing) return;
  age_blocked(self, machine);
  if (machine->n_chunks > 0) {
    begin_prefill_iteration(self, machine);
  } else {
    engine_begin_run(self, machine, made_room);
    engine_book_first_gaps(self, machine, self->now + series_sum(machine->run.series, 1));
  }
}

void engine_begin(Engine *self, Machine *machine) {
  if (machine->activity == ACTIVITY_IDLE)
    begin(self, machine);
  else if (machine->activity == ACTIVITY_DECODE)
    engine_cut_run(self, machine);
}

/* --- ending */

static void end_chunk(Engine *self, Machine *machine, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const bool last = life_chunk_ended(self, machine, ix);
  engine_dispatch(self, ix);
  if (!last) {
    if (request_moves_from(request, machine->ix)) engine_offer_chunk(self, ix);
    return;
  }
  life_prefilled(self, machine, ix);
  if (request->generated_tokens == request->output_tokens)
    life_finished(self, machine, ix);
  else if (request->decode_machine == machine->ix)
    life_waits_decode(self, machine, ix);
  else if (machine->group)
    engine_copy_out(self, ix);
  else
    engine_begin_transfer(self, ix);
}

/* The batch has made `n` iterations, the last of which ends now. */
static void end_decodes(Engine *self, Machine *machine, int64_t n) {
  const Batch *batch = &machine->batch;
  engine_book_iterations(self, machine, n);
  machine->run.booked = 0;
  machine->decoded_at = self->now;
  machine->decoded_ticks += self->now - machine->run.began_at;
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0)
    life_finished(self, machine, batch->entries[0].request);
}

/* Those whose chunks have ended, in the order of the plan. */
static void end_chunks(Engine *self, Machine *machine) {
  const size_t n_chunks = machine->n_chunks;
  machine->n_chunks = 0;
  for (size_t i = 0; i < n_chunks; i++)
    end_chunk(self, machine, machine->chunks[i]);
}

void engine_handle_iteration(Engine *self, Machine *machine) {
  const bool resized = machine->moves_kv && engine_advance_tier(self, machine);
  const bool prefills = machine->activity == ACTIVITY_PREFILL;
  if (!prefills && !engine_end_part(self, machine, resized)) return; // the run goes on
  machine->activity = ACTIVITY_IDLE;
  engine_mark(self, machine, MARK_BEGIN);
  if (machine_decodes(machine)) end_decodes(self, machine, prefills ? 1 : machine->run.done);
  if (prefills) end_chunks(self, machine);
  if (resized) engine_fit_capacity(self, machine);
  engine_admit_inbound(self, machine);
  engine_review_role(self, machine);
}
