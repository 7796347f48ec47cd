/* See step_listing.h. */
#include "sim/core/step_listing.h"
#include "sim/core/connector.h"
#include "sim/core/encoder.h"
#include <assert.h>

static bool is_wanted(const Simulation *self) {
  return self->config->on_step || self->config->executor;
}

void sim_begin_listing(Simulation *self, Step *step) {
  if (!is_wanted(self)) return;
  if (!step->listing) step->listing = ARENA_NEW(self->arena, StepListing);
  step->listing->n_listed = step->listing->n_running = 0;
  step->listing->n_preempted = step->listing->n_reset;
}

void sim_list_preempted(Simulation *self, Step *step, RequestIx ix) {
  StepListing *listing = step->listing;
  if (!listing) return;
  ARENA_RESERVE(self->arena, listing->preempted, listing->preempted_capacity,
                listing->n_preempted + 1);
  listing->preempted[listing->n_preempted++] = self->requests.slots[ix].id;
}

void sim_list_reset(Simulation *self, Step *step, RequestIx ix) {
  sim_list_preempted(self, step, ix);
  if (step->listing) step->listing->n_reset++;
}

static void list(Simulation *self, StepListing *listing, StepItem item, int64_t past_tokens,
                 bool prefills) {
  ARENA_RESERVE(self->arena, listing->listed, listing->listed_capacity, listing->n_listed + 1);
  item.past_tokens = (int32_t)past_tokens;
  item.prefills = prefills;
  listing->listed[listing->n_listed++] = item;
}

void sim_list_batch(Simulation *self, const Instance *instance, Step *step) {
  const Request *slots = self->requests.slots;
  if (!step->listing) return;
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next) {
    const Request *request = &slots[ix];
    if (request->scheduled != SCHEDULED_BATCH) continue;
    list(self, step->listing, (StepItem){.request = request->id, .tokens = 1, .hit_tokens = -1},
         batch_context(&instance->batch, request) - 1, false);
  }
}

/* What its connector has begun, and whose KV is on its way. */
static void list_loading(Simulation *self, const Instance *instance, StepListing *listing) {
  const Connector *connector = instance->scheduler->connector;
  const Request *slots = self->requests.slots;
  listing->n_loading = 0;
  listing->n_loads = connector->n_loads;
  listing->n_stores = connector->n_stores;
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE && slots[ix].loading;
       ix = slots[ix].next) {
    if (slots[ix].loading == LOADING_USED) continue;
    ARENA_RESERVE(self->arena, listing->loading, listing->loading_capacity, listing->n_loading + 1);
    listing->loading[listing->n_loading++] = slots[ix].id;
  }
}

void sim_list_step(Simulation *self, const Instance *instance, Step *step) {
  const Request *slots = self->requests.slots;
  StepListing *listing = step->listing;
  if (!listing) return;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    const Request *request = &slots[item->request];
    if (item->kind >= STEP_LEAVES) continue;
    const bool prefills = item->kind == STEP_CHUNK;
    const StepItem listed = {.request = request->id,
                             .tokens = item->tokens,
                             .hit_tokens = item->hit_tokens,
                             .drafts = item->drafts,
                             .encodes = item->encodes};
    list(self, listing, listed,
         prefills ? item->done - (item->tokens - item->drafts) : request_kv_tokens(request),
         prefills);
  }
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next) {
    ARENA_RESERVE(self->arena, listing->running, listing->running_capacity, listing->n_running + 1);
    listing->running[listing->n_running++] = slots[ix].id;
  }
  listing->n_waiting = instance->prefill_queue.count + instance->decode_queue.count;
  listing->free_blocks = instance->free_blocks;
  if (instance->scheduler->encoder) listing->encoder_free = instance->scheduler->encoder->n_free;
  if (instance->scheduler->connector) list_loading(self, instance, listing);
  listing->n_held = instance->kv_groups ? (size_t)instance->kv_groups->n_groups : 0;
  ARENA_RESERVE(self->arena, listing->held, listing->held_capacity, listing->n_held);
  for (size_t g = 0; g < listing->n_held; g++)
    listing->held[g] = instance->kv_groups->groups[g].n_held;
}

size_t step_sequences(const Step *step, bool prefills, BatchSequence *sequences) {
  size_t n = 0;
  for (size_t i = 0; i < step->listing->n_listed; i++) {
    const StepItem *listed = &step->listing->listed[i];
    if (listed->prefills != prefills) continue;
    if (sequences)
      sequences[n] = (BatchSequence){listed->request, listed->tokens, listed->past_tokens};
    n++;
  }
  return n;
}

void sim_tell_step(Simulation *self, const Instance *instance, const Step *step, Tick end) {
  StepListing *listing = step->listing;
  if (!self->config->on_step) return;
  if (step_is_empty(step) && listing->n_preempted == listing->n_reset && !step->dummy) return;
  listing->n_reset = 0;
  const StepRecord record = {.instance = instance->ix,
                             .decided_at = step->decided_at,
                             .begin = step->stages         ? step->stages[0]
                                      : instance->lockstep ? step->begins
                                                           : self->now,
                             .end = end,
                             .items = listing->listed,
                             .preempted = listing->preempted,
                             .running = listing->running,
                             .n_items = listing->n_listed,
                             .n_preempted = listing->n_preempted,
                             .n_running = listing->n_running,
                             .held = listing->held,
                             .n_held = listing->n_held,
                             .n_waiting = listing->n_waiting,
                             .encoder_free = listing->encoder_free,
                             .loading = listing->loading,
                             .n_loading = listing->n_loading,
                             .n_loads = listing->n_loads,
                             .n_stores = listing->n_stores,
                             .number = step->number,
                             .n_in_flight = step->n_in_flight,
                             .stages = step_is_empty(step) ? NULL : step->stages,
                             .n_stages = instance->pipeline ? instance->pipeline->n_stages : 0,
                             .out_at = self->now,
                             .forward = step->forward,
                             .launched_at = step->launched_at,
                             .wave = step->wave,
                             .counter = step->counter,
                             .free_blocks = listing->free_blocks,
                             .waiting = listing->waiting,
                             .chunked = listing->chunked,
                             .evictable_blocks = listing->evictable_blocks,
                             .new_token_ratio = listing->new_token_ratio,
                             .full = listing->full};
  self->config->on_step(self->config->on_step_context, &record);
}
