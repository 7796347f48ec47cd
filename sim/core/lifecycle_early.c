/* How a request leaves the instances before its last token (lifecycle.h): its client has given up,
 * another copy of it is served, or it was lost with an instance. */
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/lifecycle.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/swapping.h"
#include "sim/core/transition.h"
#include <assert.h>

/* What is promised for a request that has not come to its phases ends. */
static void end_promises(Simulation *self, const Request *request) {
  Instance *prefill = &self->instances[request->prefill_instance];
  if (request->prefill_began_at < 0 && request->state != REQUEST_COMPUTES && !request->loading)
    sim_promise_blocks(self, prefill, -instance_prompt_blocks(prefill, request));
  const InstanceIx to = request->decode_instance;
  if (to == INSTANCE_NONE || to == prefill->ix || prefill->group) return;
  if (request->first_token_at >= 0 && request->state != REQUEST_MOVES) return; // it came there
  sim_promise_blocks(self, &self->instances[to],
                     -instance_prompt_blocks(&self->instances[to], request));
}

/* It counts on no instance as one to come. */
static void unassign(Simulation *self, const Request *request) {
  const InstanceIx prefill = request->prefill_instance, decode = request->decode_instance;
  if (decode != INSTANCE_NONE) {
    life_count_decode(self, request, &self->instances[decode], -1);
    column_add(self->columns.n_assigned, decode, -1);
  }
  if (request->first_token_at < 0 && decode != prefill)
    column_add(self->columns.n_assigned, prefill, -1);
}

static void observe_cancelled(Simulation *self, const Instance *instance, RequestIx ix,
                              bool present, bool stored) {
  sim_tell_router(self, ix, OBSERVED_CANCELLED, stored ? INSTANCE_NONE : instance->ix);
  if (!present || !instance->batcher->leave) return;
  const InstanceView view = sim_view(self, instance);
  instance->batcher->leave(instance->batcher_options, instance->batcher_state, &view, ix);
}

/* Whoever waits for what a request held, or for its turn behind it, is looked at. */
static void mark_room(Simulation *self, Instance *instance, InstanceIx decode) {
  sim_mark(self, instance, MARK_ROOM);
  if (decode != INSTANCE_NONE) sim_mark(self, &self->instances[decode], MARK_ROOM);
  if (instance->group) sim_mark_group(self, instance->group);
}

static void book_cancelled(Simulation *self, const Request *request, int32_t undelivered) {
  Metrics *metrics = sim_books(self, request);
  metrics->cancelled++;
  metrics->cancelled_for[request->gives_up]++;
  metrics->remade_tokens -= request->remakes_first;
  metrics->cancelled_tokens +=
      request_computed_tokens(request) + request->generated_tokens + undelivered;
}

/* Out of its instance's steps; the tokens that those make of it for nobody. */
static int32_t withdraw(Simulation *self, Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const int32_t generated = request->generated_tokens;
  const int32_t undelivered = instance->loop->withdraw(self, instance, ix);
  if (self->keeps_parts) parts_left(self, instance, ix, request->generated_tokens);
  if (request_states[request->state].prefills)
    column_add(self->columns.pending_tokens, instance->ix, request->generated_tokens - generated);
  return undelivered;
}

/* Away from where it is, and in no books of instances any more; where it was. */
static InstanceIx leave_instances(Simulation *self, RequestIx ix, int32_t *undelivered) {
  Request *request = &self->requests.slots[ix];
  const RequestState state = (RequestState)request->state;
  const InstanceIx at = life_instance(self, request);
  Instance *instance = &self->instances[at == INSTANCE_NONE ? request->prefill_instance : at];
  assert(request_leaves(request) && request->transfer == TRANSFER_NONE);
  instance->n_started -= state == REQUEST_WAITS_PREFILL && request->prefilled_tokens > 0;
  if (state == REQUEST_SWAPPED) sim_drop_swapped(instance, request);
  end_promises(self, request);
  sim_catch_up_cache(self, instance);
  if (instance->loop->withdraw) *undelivered = withdraw(self, instance, ix);
  change(self, instance, ix, REQUEST_NOWHERE);
  sim_release_blocks(self, instance, ix);
  life_leave_store(self, instance, request);
  unassign(self, request);
  if (state == REQUEST_RUNS) request->generated_tokens -= *undelivered;
  observe_cancelled(self, instance, ix, request_states[state].present, at == INSTANCE_NONE);
  mark_room(self, instance, request->decode_instance);
  return at;
}

static void leave_front(Simulation *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].state == REQUEST_AWAITS && slots[ix].retry == 0)
    request_queue_remove(&sim_deployment(self, &slots[ix])->front, slots, ix);
  tell_left_front(self, ix);
}

static void cancel(Simulation *self, RequestIx ix, InstanceIx at, int32_t undelivered) {
  Request *request = &self->requests.slots[ix];
  request->cancelled_at = self->now;
  sim_log(self, OUTCOME_CANCELLED, request, at, request->gives_up, request->generated_tokens);
  book_cancelled(self, request, undelivered);
  life_retire(self, ix, REJECTED_NOT);
}

/* Where the tokens computed of the one that has left are booked. */
static void tell_loop(Simulation *self, InstanceIx at, int64_t *booked) {
  Instance *instance = at == INSTANCE_NONE ? NULL : &self->instances[at];
  if (instance && instance->loop->withdrawn) instance->loop->withdrawn(self, instance, booked);
}

void life_left_early(Simulation *self, RequestIx ix, int32_t undelivered) {
  Request *request = &self->requests.slots[ix];
  InstanceIx at = INSTANCE_NONE;
  if (request->state == REQUEST_HELD || request->state == REQUEST_AWAITS)
    leave_front(self, ix);
  else
    at = leave_instances(self, ix, &undelivered);
  Metrics *metrics = sim_books(self, request);
  if (ask_drops_copy(self, ix, at, undelivered)) {
    tell_loop(self, at, &metrics->hedged_tokens);
    return;
  }
  tell_loop(self, at, request->gives_up ? &metrics->cancelled_tokens : &metrics->lost_tokens);
  if (request->gives_up)
    cancel(self, ix, at, undelivered);
  else
    tell_lost(self, ix, at, undelivered);
}

void life_awaits(Simulation *self, RequestIx ix) {
  change(self, NULL, ix, REQUEST_AWAITS);
}

void life_held(Simulation *self, RequestIx ix) {
  change(self, NULL, ix, REQUEST_HELD);
}
