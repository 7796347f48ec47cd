/* Transitions of requests that are scheduled step by step (scheduler.h). See lifecycle.h. */
#include "sim/core/counting.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/transition.h"

void life_found_no_room(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  instance->totals.kv_waits += !request->waited_for_kv;
  request->waited_for_kv = true;
}

void life_scheduled(Simulation *self, Instance *instance, RequestIx ix, int64_t hits) {
  Request *request = &self->requests.slots[ix];
  if (request->state == REQUEST_WAITS_DECODE) {
    change(self, instance, ix, REQUEST_GENERATES);
    return;
  }
  if (request->loading) {
    request->loading = 0;
    instance->n_started -= request->prefilled_tokens > 0;
    change(self, instance, ix, REQUEST_COMPUTES);
    return;
  }
  if (request->prefill_began_at < 0)
    sim_promise_blocks(self, instance, -instance_prompt_blocks(instance, request));
  change(self, instance, ix, REQUEST_COMPUTES);
  if (instance->cache || instance->radix || instance->kv_groups)
    life_take_hits(self, instance, ix, hits);
}

/* Behind those who load, or by priority among them. Of a prompt whose KV is all there the last
 * token is computed again. */
void life_loads(Simulation *self, Instance *instance, RequestIx ix, int64_t hits, int64_t tokens) {
  Request *slots = self->requests.slots, *request = &slots[ix];
  const bool first = request->prefill_began_at < 0;
  if (first) sim_promise_blocks(self, instance, -instance_prompt_blocks(instance, request));
  life_take_hits(self, instance, ix, hits);
  sim_hold_blocks(self, instance, ix, blocks_of(instance, tokens) - request->kv_blocks);
  const int64_t all = request_prefill_tokens(request);
  const int32_t done = (int32_t)(tokens < all ? tokens : all - 1);
  const int32_t loaded = done - request->prefilled_tokens;
  life_chunk_decided(self, instance, ix, loaded);
  instance->n_started += done > 0;
  if (first) request->cached_tokens = done;
  *(first ? &instance->totals.cached_tokens : &instance->totals.refound_tokens) += loaded;
  request_queue_remove(&instance->prefill_queue, slots, ix);
  const Batcher *batcher = instance->batcher;
  RequestIx next = instance->prefill_queue.first;
  while (next != REQUEST_NONE && slots[next].loading &&
         !batcher->goes_before(instance->batcher_options, request, &slots[next]))
    next = slots[next].next;
  request_queue_insert(&instance->prefill_queue, slots, ix, next);
  request->loading = 1;
}

void life_prefill_began(Simulation *self, const Instance *instance, Request *request) {
  if (request->prefill_began_at >= 0) return;
  request->prefill_began_at = self->now;
  sim_log(self, OUTCOME_PREFILL_BEGIN, request, instance->ix, request_prefill_tokens(request),
          request->cached_tokens);
}

void life_decode_began(Simulation *self, const Instance *instance, Request *request) {
  if (request->decode_began_at >= 0) return;
  request->decode_began_at = self->now;
  sim_log(self, OUTCOME_DECODE_BEGIN, request, instance->ix, 0, 0);
}

void life_generates(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool prefilled = request->state == REQUEST_COMPUTES;
  if (request->first_token_at < 0 && request->decode_instance != instance->ix)
    column_add(self->columns.n_assigned, instance->ix, -1);
  life_book_token(self, instance, ix);
  if (prefilled) change(self, instance, ix, REQUEST_GENERATES);
  request->generated_tokens++;
  if (request->state == REQUEST_WAITS_PREFILL)
    column_add(self->columns.pending_tokens, instance->ix, 1);
  if (prefilled) life_observe(self, instance, ix, OBSERVED_PREFILLED);
}

void life_ends_preempted(Simulation *self, RequestIx ix) {
  self->requests.slots[ix].recomputes--;
  sim_books(self, &self->requests.slots[ix])->recomputes--;
  sim_books(self, &self->requests.slots[ix])->restarted_prefills++;
}

void life_preempted(Simulation *self, Instance *instance, RequestIx ix, RequestIx next,
                    bool evicted) {
  Request *request = &self->requests.slots[ix];
  const bool computes = request->state == REQUEST_COMPUTES;
  sim_release_blocks(self, instance, ix);
  if (computes) column_add(self->columns.pending_tokens, instance->ix, request->prefilled_tokens);
  if (evicted) {
    life_drop_before(self, instance, ix, next);
    return;
  }
  request->preemptions++;
  sim_books(self, request)->preemptions++;
  sim_books(self, request)->restarted_prefills++;
  if (computes && request->prefilled_tokens < request_prefill_tokens(request))
    sim_books(self, request)->dropped_tokens += request->prefilled_tokens;
  sim_log(self, OUTCOME_PREEMPTION, request, instance->ix, request->prefilled_tokens, 0);
  request->prefilled_tokens = 0;
  change_before(self, instance, ix, REQUEST_WAITS_PREFILL, next);
  if (self->keeps_parts) parts_lost(self, ix);
}
