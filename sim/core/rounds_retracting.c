/* Who gives way, or leaves early. See rounds.h. */
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/hicache_storage.h"
#include "sim/core/lifecycle.h"
#include "sim/core/rounds.h"
#include "sim/core/step_listing.h"
#include <assert.h>
#include <stdlib.h>

enum { RETRACT_STEPS = 20 }; // tokens of each of the others for which room is made then

void rounds_forget_joined(Rounds *rounds, RequestIx ix) {
  size_t n = 0;
  for (size_t i = 0; i < rounds->n_joined; i++)
    if (rounds->joined[i] != ix) rounds->joined[n++] = rounds->joined[i];
  rounds->n_joined = n;
}

/* The row that it has in the step that begins is for nobody. */
static void lose_row(Simulation *self, Step *step, RequestIx ix) {
  const bool counted = sim_counts(self, &self->requests.slots[ix]);
  for (size_t i = 0; i < step->n_items; i++)
    step->n_joins[counted] -= step->items[i].request == ix && step->items[i].kind == STEP_JOINS;
  scheduler_scrub(step, ix);
  step->n_thrown[counted]++;
}

/* It leaves the batch with the tokens that are known of it. */
static void leave_batch(Simulation *self, Instance *instance, RequestIx ix) {
  Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  const int64_t context = batch_context(&instance->batch, request);
  const bool in_flight = rounds_in_flight(instance, request);
  const int64_t made = context - request->prompt_tokens - in_flight;
  batch_remove(&instance->batch, self->requests.slots, ix, context);
  scheduler->version++;
  request->kv_blocks = (int32_t)instance_held_blocks(instance, context);
  request->scheduled = SCHEDULED_ENDS;
  rounds_forget_joined(rounds_of(instance), ix);
  if (in_flight && request->joined_step == scheduler->current->number) {
    rounds_item_of(scheduler->current, ix)->lost = true;
    return;
  }
  if (in_flight) lose_row(self, scheduler->current, ix);
  if (made > request->generated_tokens) request->last_token_at = instance->decoded_at;
  request->generated_tokens = (int32_t)made;
  request->computing_ticks += instance->decoded_ticks;
  if (self->keeps_parts) parts_left(self, instance, ix, made);
}

void rounds_retract_one(Simulation *self, Instance *instance, RequestIx ix, int64_t n_others) {
  const Request *request = &self->requests.slots[ix];
  const bool evicted = request->state == REQUEST_GENERATES;
  if (request->scheduled == SCHEDULED_BATCH)
    leave_batch(self, instance, ix);
  else
    scheduler_forget_alone(instance->scheduler, ix);
  if (!evicted) sim_books(self, request)->dropped_tokens += request->prefilled_tokens;
  life_preempted(self, instance, ix, REQUEST_NONE, evicted);
  rounds_make_room(instance, blocks_of(instance, n_others * RETRACT_STEPS));
  if (rounds_of(instance)->options->enable_priority_scheduling)
    rounds_tried(self, instance, ix)->hits = 0;
}

/* --- where the next step of all does not fit */

/* Those who keep longest come first: with the most outputs, of these with the shortest prompt. */
static int by_outputs(const void *a_, const void *b_) {
  const Retractable *a = a_, *b = b_;
  if (a->made != b->made) return a->made > b->made ? -1 : 1;
  if (a->prompt_tokens != b->prompt_tokens) return a->prompt_tokens < b->prompt_tokens ? -1 : 1;
  return a->place < b->place ? -1 : 1;
}

static size_t sort_running(Simulation *self, Instance *instance) {
  Rounds *rounds = rounds_of(instance);
  const Request *slots = self->requests.slots;
  size_t n = 0;
  ARENA_RESERVE(self->arena, rounds->order, rounds->order_capacity,
                (size_t)instance->running.count);
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next) {
    if (!rounds_runs(&slots[ix])) continue;
    rounds->order[n] = (Retractable){.made = rounds_made(instance, &slots[ix]),
                                     .prompt_tokens = slots[ix].prompt_tokens,
                                     .request = ix,
                                     .place = (uint32_t)n};
    n++;
  }
  qsort(rounds->order, n, sizeof *rounds->order, by_outputs);
  return n;
}

/* Admission all but stops until those who are left have made as much again. */
static void raise_ratio(const Simulation *self, const Instance *instance, Rounds *rounds,
                        size_t n) {
  int64_t made = 0, most = 0;
  for (size_t i = 0; i < n; i++) {
    made += rounds->order[i].made;
    most += rounds_most_made(instance, &self->requests.slots[rounds->order[i].request]);
  }
  const double ratio = (double)(made + RETRACT_STEPS * (int64_t)n) / (double)(most + 1);
  rounds->ratio = ratio < 1 ? ratio : 1;
  rounds->ratio_at = -1;
}

/* Whether a step in progress makes its last token: then it needs no pages any more. */
static bool ends(const Rounds *rounds, RequestIx ix) {
  for (size_t i = 0; i < rounds->n_ends; i++)
    if (rounds->ends[i] == ix) return true;
  return false;
}

int64_t rounds_retract(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const size_t n_before = sort_running(self, instance);
  size_t n = n_before;
  for (bool first = true; n > 1 && (first || !rounds_fits(self, instance)); first = false) {
    n--;
    rounds_retract_one(self, instance, rounds->order[n].request, (int64_t)n);
  }
  // KV that is not of those who run is in its way
  if (n == 1 && !rounds_fits(self, instance) && !ends(rounds, rounds->order[0].request))
    rounds_retract_one(self, instance, rounds->order[--n].request, 0);
  for (size_t i = 0; i < n; i++)
    rounds_put_last(self, instance, rounds->order[i].request);
  raise_ratio(self, instance, rounds, n);
  for (size_t i = n_before; i-- > n;) {
    rounds_enqueue(self, instance, rounds->order[i].request);
    sim_list_preempted(self, step, rounds->order[i].request);
  }
  return (int64_t)(n_before - n);
}

int64_t rounds_free_place(Simulation *self, Instance *instance, Step *step) {
  Rounds *rounds = rounds_of(instance);
  const RequestIx ix = rounds->chunked;
  if (ix == REQUEST_NONE || instance->decode_queue.count == 0 || instance->scheduler->current ||
      rounds_n_running(instance) + instance->n_outgoing > 0)
    return 0;
  rounds->chunked = REQUEST_NONE;
  life_preempted(self, instance, ix, REQUEST_NONE, false);
  if (rounds->options->enable_priority_scheduling) rounds_tried(self, instance, ix)->hits = 0;
  rounds_enqueue(self, instance, ix);
  sim_list_preempted(self, step, ix);
  return 1;
}

/* --- who leaves early */

/* Tokens of it, that is in the batch, which steps that have not ended make with that. */
static int64_t rows_in_flight(const Scheduler *scheduler, const Request *request) {
  return step_has_row(scheduler->current, request) +
         (scheduler->has_next && step_has_row(scheduler->next, request));
}

int32_t rounds_withdraw(Simulation *self, Instance *instance, RequestIx ix) {
  Scheduler *scheduler = instance->scheduler;
  Rounds *rounds = rounds_of(instance);
  Request *request = &self->requests.slots[ix];
  const bool runs = request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES;
  if (!instance_works(instance)) scheduler_take_back(self, instance, ix);
  if (scheduler->hicache) hicache_forget_fetch(instance, ix);
  if (rounds->chunked == ix) rounds->chunked = REQUEST_NONE;
  const bool in_current = scheduler->current && step_ends(scheduler->current, ix);
  int64_t made = request->generated_tokens, in_flight = scheduler_scrub(scheduler->next, ix);
  if (scheduler->current) in_flight += scheduler_scrub(scheduler->current, ix);
  if (runs && request->scheduled == SCHEDULED_BATCH) {
    made = scheduler_withdraw_from_batch(self, instance, ix);
    in_flight += rows_in_flight(scheduler, request);
  } else if (runs && in_current) {
    made = request->output_tokens;
    in_flight = 1;
  } else {
    made += in_flight;
  }
  if (runs && request->scheduled == SCHEDULED_ALONE) scheduler_forget_alone(scheduler, ix);
  rounds_forget_joined(rounds, ix);
  rounds->left |= runs;
  request->generated_tokens = (int32_t)(made - in_flight);
  return instance_works(instance) ? (int32_t)in_flight : 0;
}

void rounds_forget(Instance *instance) {
  Rounds *rounds = rounds_of(instance);
  scheduler_forget(instance);
  rounds->ratio = rounds->init_ratio;
  rounds->ratio_at = 0;
  rounds->full = rounds->left = rounds->has_prefill = rounds->had_step = false;
  rounds->rests = rounds->n_unlooked = 0;
  rounds->chunked = REQUEST_NONE;
  rounds->n_joined = rounds->n_ends = 0;
}
