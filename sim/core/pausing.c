/* Pauses of a scheduler, which it hears of between two steps (RULES.md, "Step by step"). */
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/encoder.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/scheduling.h"
#include "sim/core/step_listing.h"

/* Its KV is about to leave for another instance: no step has it any more. */
static bool has_moved_on(const Instance *instance, const Request *request) {
  return request->scheduled == SCHEDULED_ENDS && request->decode_instance != instance->ix &&
         request->output_tokens > 1;
}

/* Whether steps may have begun that the scheduler decides behind. */
static bool runs_ahead(const Instance *instance) {
  return instance->scheduler->flights || instance->scheduler->rank;
}

/* A token of a step is dropped: whether the instance computes that already, so that it has counted
 * what is thrown away. */
static bool drop_begun(Instance *instance, const Step *step) {
  if (!runs_ahead(instance) || step != instance->scheduler->current ||
      instance->activity == ACTIVITY_IDLE)
    return false;
  instance->padding.decode_seqs++;
  if (instance->activity == ACTIVITY_DECODE) {
    instance->run.tokens--;
  } else {
    instance->totals.decode_tokens--;
    instance->totals.padding_tokens++;
  }
  return true;
}

/* The batch had it in the step that runs, whose token is dropped. */
static void drop_token(Simulation *self, Instance *instance, Step *step, RequestIx ix,
                       int32_t made) {
  Request *request = &self->requests.slots[ix];
  const bool counts = sim_counts(self, request);
  drop_begun(instance, step);
  step->n_thrown[counts]++;
  step->n_seconds[counts] -= request_delivered(request, made) == 2;
  request->generated_tokens = made - 1;
  if (request->joined_step + 2 < instance->scheduler->number)
    request->last_token_at = instance->decoded_at;
  request->computing_ticks += instance->decoded_ticks;
  if (self->keeps_parts) parts_left(self, instance, ix, made - 1);
}

/* What a step that runs has of it is for nobody. */
static void drop_items(Simulation *self, Instance *instance, Step *step, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  for (size_t i = 0; i < step->n_items; i++) {
    ScheduledItem *item = &step->items[i];
    if (item->request != ix) continue;
    item->request = REQUEST_NONE;
    item->lost = !runs_ahead(instance);
    if (item->kind == STEP_LEAVES) drop_token(self, instance, step, ix, item->done);
    if (item->kind == STEP_DECODE && self->keeps_parts)
      parts_left(self, instance, ix, request->generated_tokens);
    if (item->kind == STEP_DECODE && runs_ahead(instance) && !drop_begun(instance, step))
      step->n_thrown[sim_counts(self, request)]++;
    if (item->kind != STEP_CHUNK) continue;
    life_prefill_began(self, instance, request);
    step_forfeits(self, step, &sim_books(self, request)->dropped_tokens,
                  item->tokens - item->drafts);
  }
}

static void preempt(Simulation *self, Instance *instance, Step *decided, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Scheduler *scheduler = instance->scheduler;
  if (request->scheduled == SCHEDULED_BATCH)
    scheduler_leave_batch(self, instance, ix);
  else if (request->scheduled == SCHEDULED_ALONE)
    scheduler_forget_alone(scheduler, ix);
  for (size_t i = 0; i < scheduler->n_places; i++)
    if (&scheduler->steps[i] != decided && &scheduler->steps[i] != scheduler->next)
      drop_items(self, instance, &scheduler->steps[i], ix);
  const bool prefilled = request->state == REQUEST_GENERATES;
  if (!prefilled && request->prefilled_tokens == request_prefill_tokens(request))
    sim_books(self, request)->dropped_tokens += request->prefilled_tokens; // their token is, too
  request->ahead = request->drafts = 0;
  encoding_leave(self, instance, ix, INT64_MAX);
  sim_list_reset(self, decided, ix);
  life_preempted(self, instance, ix, scheduler_head_for(self, instance, request), prefilled);
}

static void reset(Simulation *self, Instance *instance, Step *decided, const PauseSpec *pause) {
  const Request *slots = self->requests.slots;
  RequestIx ix = instance->running.last, previous;
  for (; ix != REQUEST_NONE && pause->mode == PAUSE_ALL; ix = previous) {
    previous = slots[ix].previous;
    if (!has_moved_on(instance, &slots[ix])) preempt(self, instance, decided, ix);
  }
  if (instance->cache && instance->free_blocks == instance->kv_blocks)
    prefix_cache_forget(instance->cache);
}

void scheduler_hear_pauses(Simulation *self, Instance *instance, Step *decided) {
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < scheduler->n_pauses; i++) {
    scheduler->pause = scheduler->pauses[i]->mode;
    if (scheduler->pauses[i]->reset) reset(self, instance, decided, scheduler->pauses[i]);
  }
  scheduler->n_pauses = 0;
}

void scheduler_pause(Simulation *self, Instance *instance, const PauseSpec *pause) {
  Scheduler *scheduler = instance->scheduler;
  ARENA_RESERVE(self->arena, scheduler->pauses, scheduler->pauses_capacity,
                scheduler->n_pauses + 1);
  scheduler->pauses[scheduler->n_pauses++] = pause;
  sim_mark(self, instance, MARK_BEGIN);
}
