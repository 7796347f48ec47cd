/* Requests that are given up, and instances that fail, while steps are decided or run. */
#include "sim/core/counting.h"
#include "sim/core/encoder.h"
#include "sim/core/lifecycle.h"
#include "sim/core/scheduling.h"

int32_t scheduler_scrub(Step *step, RequestIx ix) {
  int32_t n = 0;
  for (size_t i = 0; i < step->n_items; i++) {
    ScheduledItem *item = &step->items[i];
    if (item->request != ix) continue;
    item->request = REQUEST_NONE;
    n += item->kind < STEP_LEAVES && item->last && !item->lost;
  }
  return n;
}

/* Chunks of it in a step that will never have been computed. One from before it was preempted is
 * among the tokens that were dropped then, unless it is the last one and its token still counts.
 * The admission of rounds is a place, which changes while a chunk runs, and nobody gets another
 * chunk before that has ended. */
static void take_back_chunks(Simulation *self, const Instance *instance, const Step *step,
                             RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->request != ix || item->kind != STEP_CHUNK) continue;
    const int32_t tokens = item->tokens - item->drafts;
    const bool earlier = !instance->scheduler->rounds && item->admission != request->admission;
    if (request->state == REQUEST_WAITS_PREFILL || earlier) {
      if (!item->last || item->lost) sim_books(self, request)->dropped_tokens -= tokens;
      continue;
    }
    request->prefilled_tokens -= tokens;
    column_add(self->columns.pending_tokens, instance->ix, tokens);
  }
}

void scheduler_take_back(Simulation *self, const Instance *instance, RequestIx ix) {
  const Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_places; i++)
    take_back_chunks(self, instance, &scheduler->steps[i], ix);
}

void scheduler_recall_prefill(Simulation *self, Instance *instance, RequestIx ix) {
  const Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  if (request->state != REQUEST_WAITS_PREFILL || request->first_token_at >= 0) return;
  for (size_t i = 0; i < scheduler->n_places && instance_works(instance); i++) {
    const Step *step = &scheduler->steps[i];
    for (size_t k = 0; k < step->n_items; k++) {
      const ScheduledItem *item = &step->items[k];
      if (item->request != ix || item->kind != STEP_CHUNK || !item->last || item->lost) continue;
      life_chunk_decided(self, instance, ix, item->done - request->prefilled_tokens);
    }
  }
}

/* Those in a step; its chunks are taken out of `request`. */
static int64_t count_in_step(const Step *step, RequestIx ix, bool in_batch, Request *request) {
  const Request with = *request;
  int64_t made = in_batch && step_has_row(step, request);
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->request != ix) continue;
    made += item->kind == STEP_LEAVES || (item->kind < STEP_LEAVES && item->last);
    if (item->kind == STEP_CHUNK) request->prefilled_tokens -= item->tokens;
  }
  return made + request_computed_tokens(&with) - request_computed_tokens(request);
}

/* Whether the batch has one of those that run, as of the newest decision. */
static bool is_in_batch(const Request *request) {
  return (request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES) &&
         request->scheduled == SCHEDULED_BATCH;
}

/* The time of steps that have ended which it was in with the batch. */
static void add_ticks(const Instance *instance, Request *request) {
  const Scheduler *scheduler = instance->scheduler;
  if (!scheduler->current || request->joined_step < scheduler->current->number)
    request->computing_ticks += instance->decoded_ticks - scheduler->ending_ticks;
}

void scheduler_count_ahead(const Simulation *self, const Instance *instance, RequestIx ix) {
  const Scheduler *scheduler = instance->scheduler;
  Request request = self->requests.slots[ix];
  const bool in_batch = is_in_batch(&request);
  for (size_t i = 0; i < scheduler->n_places; i++) {
    Step *step = &scheduler->steps[i];
    const bool pending = scheduler->rank && step == scheduler->current &&
                         step != scheduler->ending && instance->activity == ACTIVITY_IDLE;
    const bool ahead = scheduler->flights
                           ? step != scheduler->current
                           : pending || (scheduler->has_next && step == scheduler->next);
    step->n_ahead =
        ahead && instance_works(instance) ? count_in_step(step, ix, in_batch, &request) : 0;
  }
}

int64_t scheduler_withdraw_from_batch(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const int64_t context = batch_context(&instance->batch, request);
  batch_remove(&instance->batch, self->requests.slots, ix, context);
  instance->scheduler->version++;
  if (instance->kv_groups)
    batch_visit_no_more(&instance->batch, self->requests.slots, ix,
                        self->memory[ix].in_groups.visit);
  else
    request->kv_blocks = (int32_t)instance_held_blocks(instance, context);
  return context - request->prompt_tokens;
}

int32_t scheduler_withdraw(Simulation *self, Instance *instance, RequestIx ix) {
  Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  if (!instance_works(instance)) scheduler_take_back(self, instance, ix);
  scheduler->untold = true;
  const bool runs = request->state == REQUEST_COMPUTES || request->state == REQUEST_GENERATES;
  const int64_t n_steps = (scheduler->current != NULL) + scheduler->has_next;
  const int64_t since_joined = (int64_t)scheduler->number - request->joined_step + 1;
  const bool in_next = scheduler->has_next && step_ends(scheduler->next, ix);
  const bool in_current = step_ends(scheduler->current, ix);
  const bool in_batch = runs && request->scheduled == SCHEDULED_BATCH;
  if (instance->kv_groups && (in_batch || in_next || in_current)) add_ticks(instance, request);
  int32_t by_itself = 0;
  for (size_t i = 0; i < scheduler->n_places; i++)
    by_itself += scheduler_scrub(&scheduler->steps[i], ix);
  int64_t made = request->generated_tokens, in_flight = in_current;
  if (in_batch) {
    made = scheduler_withdraw_from_batch(self, instance, ix);
    in_flight = since_joined < n_steps ? since_joined : n_steps;
    scheduler->n_seconds[sim_counts(self, request)] -= request_delivered(request, made) == 1;
  } else if (in_next || in_current) {
    if (runs && request->scheduled == SCHEDULED_ENDS) made = request->output_tokens;
    if (in_next) in_flight = since_joined < n_steps ? since_joined : n_steps;
  } else {
    in_flight = by_itself;
    made += by_itself;
  }
  if (runs && request->scheduled == SCHEDULED_ALONE) scheduler_forget_alone(scheduler, ix);
  request->generated_tokens = (int32_t)(made - in_flight);
  request->ahead = request->drafts = 0;
  request->decided_step = 0;
  return instance_works(instance) ? (int32_t)in_flight : 0;
}

void step_forfeits(Simulation *self, Step *step, int64_t *booked, int64_t tokens) {
  ARENA_RESERVE(self->arena, step->forfeits, step->forfeits_capacity, step->n_forfeits + 1);
  step->forfeits[step->n_forfeits++] = (Forfeit){booked, tokens};
}

void step_take_back_forfeits(Step *step) {
  for (size_t i = 0; i < step->n_forfeits; i++)
    *step->forfeits[i].booked -= step->forfeits[i].tokens;
  step->n_forfeits = 0;
}

void scheduler_forget(Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_places; i++) {
    step_take_back_forfeits(&scheduler->steps[i]);
    scheduler->steps[i].n_items = 0;
  }
  Encoder *encoder = scheduler->encoder;
  if (encoder) encoder_init(encoder, encoder->size, encoder->arena);
  scheduler->current = NULL;
  scheduler->has_next = scheduler->waits = scheduler->holds_prompts = false;
  scheduler->n_waited = scheduler->n_steps = 0;
  if (scheduler->by_items) scheduler->let_in_at = 0;
  scheduler->prefilled_step = -scheduler->limits.prefill_interval;
  scheduler->crowded = false;
  scheduler->pause = PAUSE_NONE;
  scheduler->plain_version = 0;
}
