/* See hedging.h. */
#include "sim/feature/hedging.h"
#include "sim/books/parts.h"
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/placement.h"
#include "sim/feature/patience.h"
#include <assert.h>

/* --- when */

/* Of those that were placed `after` or less ago, in that order; most are served by then. */
struct HedgeDue {
  Tick at;
  uint64_t id;
  RequestIx request;
  uint32_t n_lost; // before this attempt
};

static HedgeDue *due(const Engine *self, size_t i) {
  return &self->hedges_due[(self->first_due + i) % self->due_capacity];
}

static void set_timer(Engine *self) {
  if (self->n_due == 0)
    agenda_clear(&self->agenda, EVENT_HEDGE, 0);
  else
    agenda_set(&self->agenda, EVENT_HEDGE, 0, due(self, 0)->at);
}

/* A ring: what it held comes first in a larger one. */
static void grow(Engine *self) {
  const size_t capacity = self->due_capacity > 0 ? 2 * self->due_capacity : 64;
  HedgeDue *items = ARENA_ARRAY(self->arena, HedgeDue, capacity);
  for (size_t i = 0; i < self->n_due; i++)
    items[i] = *due(self, i);
  self->hedges_due = items;
  self->due_capacity = capacity;
  self->first_due = 0;
}

void hedging_expect(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const Tick after = self->config->hedge.after;
  if (after >= TICK_MAX - self->now || request->resumed_tokens > 0) return;
  if (self->n_due == self->due_capacity) grow(self);
  *due(self, self->n_due++) = (HedgeDue){
      .at = self->now + after, .id = request->id, .request = ix, .n_lost = request->n_lost};
  if (self->n_due == 1) set_timer(self);
}

void hedging_end(Engine *self) {
  self->n_due = 0;
  set_timer(self);
}

/* --- pairs */

static RequestIx twin_of(const Engine *self, RequestIx ix) {
  return ix < self->n_twins ? self->twins[ix] : REQUEST_NONE;
}

static void pair(Engine *self, RequestIx ix, RequestIx copy) {
  ARENA_RESERVE(self->arena, self->twins, self->twins_capacity, self->requests.n_slots);
  for (; self->n_twins < self->requests.n_slots; self->n_twins++)
    self->twins[self->n_twins] = REQUEST_NONE;
  self->twins[ix] = copy;
  self->twins[copy] = ix;
  self->n_copies++;
}

/* Of the two `ix` is the request from now on. */
static void take_over(Engine *self, RequestIx ix, RequestIx other) {
  Request *slots = self->requests.slots;
  self->twins[ix] = self->twins[other] = REQUEST_NONE;
  slots[ix].admitted |= slots[other].admitted;
  slots[other].admitted = false;
  slots[ix].is_copy = false;
  engine_drop_deadline(self, other);
  engine_set_deadline(self, ix);
}

void hedging_decide(Engine *self, RequestIx ix) {
  const RequestIx other = twin_of(self, ix);
  if (other == REQUEST_NONE) return;
  Request *slots = self->requests.slots, *request = &slots[other];
  const bool leaves = request_leaves(request); // already, with an iteration in progress
  engine_books(self, request)->hedges_won += slots[ix].is_copy && slots[ix].first_token_at >= 0;
  take_over(self, ix, other);
  request->redundant = true;
  if (!leaves) engine_leave(self, other);
}

bool hedging_leaves_other(Engine *self, RequestIx ix) {
  const RequestIx other = twin_of(self, ix);
  if (other == REQUEST_NONE) return false;
  take_over(self, other, ix);
  return true;
}

/* --- copies */

static RequestIx copy_of(Engine *self, RequestIx ix) {
  const RequestIx copy = request_table_take(&self->requests);
  Request *slots = self->requests.slots, *request = &slots[copy];
  const Request fresh = *request;
  *request = slots[ix];
  request->is_copy = true;
  request->admitted = false;
  request->lost = false;
  request->state = fresh.state;
  request->deadline = request->retry = 0;
  request->kv_blocks = request->store_blocks = 0;
  request->chunk_tokens = request->prefilled_tokens = request->cached_tokens = 0;
  request->preemptions = request->recomputes = request->swaps = 0;
  request->redirects = 0;
  request->computing_ticks = 0;
  request->previous = fresh.previous;
  request->next = fresh.next;
  request->transfer = fresh.transfer;
  request->scheduled = fresh.scheduled;
  request->prefill_began_at = fresh.prefill_began_at;
  request->prefill_machine = request->decode_machine = MACHINE_NONE;
  return copy;
}

static void keep_content(Engine *self, RequestIx ix, RequestIx copy) {
  if (!self->keeps_content) return;
  ARENA_RESERVE(self->arena, self->memory, self->memory_capacity, self->requests.n_slots);
  content_copy(&self->memory[copy].content, &self->memory[ix].content, self->arena);
}

static bool waits(const Engine *self, const HedgeDue *hedge) {
  const Request *request = &self->requests.slots[hedge->request];
  return request->state != REQUEST_FREE && request->id == hedge->id &&
         request->n_lost == hedge->n_lost && request_states[request->state].prefills &&
         request->first_token_at < 0 && !request_leaves(request) &&
         twin_of(self, hedge->request) == REQUEST_NONE;
}

static void hedge(Engine *self, RequestIx ix) {
  Metrics *metrics = engine_books(self, &self->requests.slots[ix]);
  const double most = self->config->hedge.share * (double)self->n_arrived;
  if ((double)(self->metrics.hedges + self->warm_up_metrics.hedges + 1) > most) return;
  const Placement placement = engine_other_placement(self, ix);
  if (placement.prefill == MACHINE_NONE) return;
  if (!engine_has_memory(self, request_table_growth(&self->requests))) return;
  const RequestIx copy = copy_of(self, ix);
  keep_content(self, ix, copy);
  if (self->keeps_parts) parts_begin_copy(self, copy);
  pair(self, ix, copy);
  metrics->hedges++;
  engine_log(self, OUTCOME_HEDGE, &self->requests.slots[copy], placement.prefill, 0, 0);
  engine_place_on(self, copy, &placement);
}

void engine_handle_hedge(Engine *self) {
  while (self->n_due > 0 && due(self, 0)->at == self->now) {
    const HedgeDue first = *due(self, 0);
    self->first_due = (self->first_due + 1) % self->due_capacity;
    self->n_due--;
    if (waits(self, &first)) hedge(self, first.request);
  }
  set_timer(self);
}

/* --- audit */

void hedging_audit(const Engine *self) {
  uint64_t n = 0;
  for (RequestIx ix = 0; ix < self->requests.n_slots; ix++) {
    const Request *request = &self->requests.slots[ix];
    if (request->state == REQUEST_FREE) continue;
    const RequestIx other = twin_of(self, ix);
    n += request->redundant || (other != REQUEST_NONE && request->is_copy);
    assert(!request->redundant || (other == REQUEST_NONE && request->deadline == 0));
    if (other == REQUEST_NONE) continue;
    const Request *twin = &self->requests.slots[other];
    assert(twin_of(self, other) == ix && twin->id == request->id && twin->state != REQUEST_FREE);
    assert(request->first_token_at < 0 && !request->gives_up && !request->redundant);
    assert(request->is_copy != twin->is_copy);
    assert(!request->admitted || !twin->admitted);
    assert(request->deadline == 0 || twin->deadline == 0);
  }
  assert(n == self->n_copies);
  const Event *event = agenda_find(&self->agenda, EVENT_HEDGE, 0);
  assert((event != NULL) == (self->n_due > 0) && (!event || event->at == due(self, 0)->at));
}
