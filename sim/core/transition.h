/* How a request gets from one state to another: for the transitions of lifecycle.h alone, which the
 * compiler then knows both rows of. */
#ifndef SIM_CORE_TRANSITION_H
#define SIM_CORE_TRANSITION_H
#include "sim/books/parts.h"
#include "sim/core/marks.h"
#include "sim/core/request_states.h"

static inline RequestQueue *queue_of(Instance *instance, const RequestStateRow *row) {
  if (row->queue < 0) return NULL;
  return (RequestQueue *)((row->in_group ? (char *)instance->group : (char *)instance) +
                          row->queue);
}

/* Out of the batch, the tokens it has made there and their blocks booked. */
static inline void leave_batch(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const int64_t context = batch_context(&instance->batch, request);
  const int64_t made = context - request->prompt_tokens - instance->unfinished;
  batch_remove(&instance->batch, self->requests.slots, ix, context);
  if (!instance->batcher->reserves_output)
    request->kv_blocks = (int32_t)instance_held_blocks(instance, context);
  request->computing_ticks += instance->decoded_ticks;
  if (self->keeps_parts) parts_left(self, instance, ix, made);
  if (made == request->generated_tokens) return; // it was about to join
  request->generated_tokens = (int32_t)made;
  request->last_token_at = instance->decoded_at;
}

static inline void join_batch(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->admission = ++instance->n_admissions;
  batch_push(&instance->batch, self->requests.slots, ix, request_tokens(request),
             request->output_tokens - request->generated_tokens, self->arena);
  request->computing_ticks -= instance->decoded_ticks;
  if (self->keeps_parts) parts_joined(self, instance, ix);
}

/* To another state on the same instance, into its queue before `next`; `instance` NULL: in front.
 * Inlined, so that what the row of a state says is known where it is entered. */
__attribute__((always_inline)) static inline void
change_before(Simulation *self, Instance *instance, RequestIx ix, RequestState to, RequestIx next) {
  Request *slots = self->requests.slots, *request = &slots[ix];
  const RequestStateRow *from = &request_states[request->state], *row = &request_states[to];
  if (request->state == REQUEST_RUNS) leave_batch(self, instance, ix);
  if (self->keeps_parts) parts_enter(self, ix, to);
  if (from->queue != row->queue) {
    RequestQueue *left = queue_of(instance, from), *joined = queue_of(instance, row);
    if (left) request_queue_remove(left, slots, ix);
    if (from->queue == (int)offsetof(Instance, running)) tell_left_running(self, instance, request);
    if (joined) request_queue_insert(joined, slots, ix, next);
  }
  const int prefills = row->prefills - from->prefills, present = row->present - from->present;
  if (prefills) instance->n_prefills += prefills;
  if (row->outgoing != from->outgoing) instance->n_outgoing += row->outgoing - from->outgoing;
  if (present) column_add(self->columns.n_present, instance->ix, present);
  if (prefills)
    column_add(self->columns.pending_tokens, instance->ix,
               prefills * (request_prefill_tokens(request) - request->prefilled_tokens));
  request->state = (uint8_t)to;
  if (to == REQUEST_RUNS) join_batch(self, instance, ix);
  if (instance && instance->availability == INSTANCE_DRAINS) sim_mark(self, instance, MARK_DRAIN);
}

__attribute__((always_inline)) static inline void change(Simulation *self, Instance *instance,
                                                         RequestIx ix, RequestState to) {
  change_before(self, instance, ix, to, REQUEST_NONE);
}

/* One more or less is assigned to an instance to decode. */
void life_count_decode(Simulation *self, const Request *request, Instance *instance, int n);
/* The place that it holds in the store of its instance's group, or is booked there, is free. */
void life_leave_store(Simulation *self, const Instance *instance, Request *request);
/* Its slot is free, and whoever wants to know of each request is told. */
void life_retire(Simulation *self, RequestIx request, Rejection rejected);
/* Whoever keeps books on requests is told. */
void life_observe(Simulation *self, const Instance *instance, RequestIx request, Observation what);
/* A token of a prefill, or of a decode that is not the batch's, is made now. */
void life_book_token(Simulation *self, const Instance *instance, RequestIx request);
/* Its first `hits` tokens are held, which the cache has: so much of its prefill is done. */
void life_take_hits(Simulation *self, Instance *instance, RequestIx request, int64_t hits);
/* Its KV was dropped: it is queued to be prefilled again, before `next`. */
void life_drop_before(Simulation *self, Instance *instance, RequestIx request, RequestIx next);
#endif
