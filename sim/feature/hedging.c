/* Hedged requests (Dean and Barroso, "The Tail at Scale", CACM 2013): one that has waited `after`
 * since it was placed, and is still in line for its prefill or in it, is sent to another instance
 * as well. The copy whose first token is made first is the request from then on; the other leaves
 * as if its client had given it up, and what was computed of it was for nothing.
 *
 * A copy has a slot of its own, with the number of the request, and is in the books of instances as
 * any; in those of the run there is one request, whose deadline and place in its class one of the
 * two has. A copy that is lost with an instance is not tried again while the other is left. */
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/encoder.h"
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/placement.h"
#include "sim/feature/features.h"
#include "sim/feature/patience.h"
#include <assert.h>

/* --- when */

/* Of those that were placed `after` or less ago, in that order; most are served by then. */
typedef struct HedgeDue {
  Tick at;
  uint64_t id;
  RequestIx request;
  uint32_t n_lost; // before this attempt
} HedgeDue;

typedef struct Hedging {
  HedgeDue *due; // a ring: n_due from first_due on
  size_t first_due, n_due, due_capacity;
  RequestIx *twins; // [n_twins] by slot: the other copy of each, as far as any had one
  size_t n_twins, twins_capacity;
} Hedging;

static Hedging *hedging(const Simulation *self) {
  return self->feature_states[FEATURE_hedging];
}

static HedgeDue *due(const Simulation *self, size_t i) {
  const Hedging *all = hedging(self);
  return &all->due[(all->first_due + i) % all->due_capacity];
}

static void set_timer(Simulation *self) {
  if (hedging(self)->n_due == 0)
    agenda_clear(&self->agenda, EVENT_HEDGE, 0);
  else
    agenda_set(&self->agenda, EVENT_HEDGE, 0, due(self, 0)->at);
}

/* A ring: what it held comes first in a larger one. */
static void grow(Simulation *self) {
  Hedging *all = hedging(self);
  const size_t capacity = all->due_capacity > 0 ? 2 * all->due_capacity : 64;
  HedgeDue *items = ARENA_ARRAY(self->arena, HedgeDue, capacity);
  for (size_t i = 0; i < all->n_due; i++)
    items[i] = *due(self, i);
  all->due = items;
  all->due_capacity = capacity;
  all->first_due = 0;
}

/* It has been placed: a copy is due. */
static void expect(Simulation *self, RequestIx ix) {
  Hedging *all = hedging(self);
  const Request *request = &self->requests.slots[ix];
  const Tick after = self->config->hedge.after;
  if (after >= TICK_MAX - self->now || request->resumed_tokens > 0) return;
  if (all->n_due == all->due_capacity) grow(self);
  *due(self, all->n_due++) = (HedgeDue){
      .at = self->now + after, .id = request->id, .request = ix, .n_lost = request->n_lost};
  if (all->n_due == 1) set_timer(self);
}

/* With no request left none is due. */
static void free_slot(Simulation *self, RequestIx ix) {
  (void)ix;
  if (self->requests.n_live > 0 || hedging(self)->n_due == 0) return;
  hedging(self)->n_due = 0;
  set_timer(self);
}

/* --- pairs */

static RequestIx twin_of(const Simulation *self, RequestIx ix) {
  const Hedging *all = hedging(self);
  return ix < all->n_twins ? all->twins[ix] : REQUEST_NONE;
}

static void pair(Simulation *self, RequestIx ix, RequestIx copy) {
  Hedging *all = hedging(self);
  ARENA_RESERVE(self->arena, all->twins, all->twins_capacity, self->requests.n_slots);
  for (; all->n_twins < self->requests.n_slots; all->n_twins++)
    all->twins[all->n_twins] = REQUEST_NONE;
  all->twins[ix] = copy;
  all->twins[copy] = ix;
  self->n_copies++;
}

/* Of the two `ix` is the request from now on. */
static void take_over(Simulation *self, RequestIx ix, RequestIx other) {
  Request *slots = self->requests.slots;
  hedging(self)->twins[ix] = hedging(self)->twins[other] = REQUEST_NONE;
  slots[ix].admitted |= slots[other].admitted;
  slots[other].admitted = false;
  slots[ix].is_copy = false;
  patience_drop(self, other);
  patience_set(self, ix);
}

/* It is the request from now on, its first token made, or its client has given up: the other copy,
 * if there is one, leaves. */
static void decide(Simulation *self, RequestIx ix) {
  const RequestIx other = twin_of(self, ix);
  if (other == REQUEST_NONE) return;
  Request *slots = self->requests.slots, *request = &slots[other];
  const bool leaves = request_leaves(request); // already, with an iteration in progress
  sim_books(self, request)->hedges_won += slots[ix].is_copy && slots[ix].first_token_at >= 0;
  take_over(self, ix, other);
  request->redundant = true;
  if (!leaves) sim_leave(self, other);
}

static void see_first_token(Simulation *self, const Instance *instance, RequestIx ix) {
  (void)instance;
  decide(self, ix);
}

/* It leaves: whether another copy is left, which is the request from now on. */
static bool leaves_other(Simulation *self, RequestIx ix) {
  const RequestIx other = twin_of(self, ix);
  if (other == REQUEST_NONE) return false;
  take_over(self, other, ix);
  return true;
}

/* One that leaves is dropped where another copy is the request. */
static bool drop_copy(Simulation *self, RequestIx ix, InstanceIx at, int32_t undelivered) {
  const Request *request = &self->requests.slots[ix];
  if (!request->redundant && (request->gives_up || !leaves_other(self, ix))) return false;
  sim_log(self, OUTCOME_REDUNDANT, request, at, 0, 0);
  sim_books(self, request)->hedged_tokens +=
      request_computed_tokens(request) + request->generated_tokens + undelivered;
  self->n_copies--;
  life_release(self, ix);
  return true;
}

/* --- copies */

static RequestIx copy_of(Simulation *self, RequestIx ix) {
  const RequestIx copy = request_table_take(&self->requests);
  Request *slots = self->requests.slots, *request = &slots[copy];
  const Request fresh = *request;
  *request = slots[ix];
  request->is_copy = true;
  request->admitted = request->pulled = false;
  request->loading = 0; // what comes for the other, and its steps, are of another instance
  request->joined_step = request->decided_step = 0;
  request->ahead = request->drafts = 0;
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
  request->prefill_instance = request->decode_instance = INSTANCE_NONE;
  return copy;
}

static void keep_content(Simulation *self, RequestIx ix, RequestIx copy) {
  if (!self->keeps_content) return;
  ARENA_RESERVE(self->arena, self->memory, self->memory_capacity, self->requests.n_slots);
  content_copy(&self->memory[copy].content, &self->memory[ix].content, self->arena);
}

static bool waits(const Simulation *self, const HedgeDue *hedge) {
  const Request *request = &self->requests.slots[hedge->request];
  return request->state != REQUEST_FREE && request->id == hedge->id &&
         request->n_lost == hedge->n_lost && request_states[request->state].prefills &&
         request->first_token_at < 0 && !request_leaves(request) &&
         twin_of(self, hedge->request) == REQUEST_NONE;
}

static void hedge(Simulation *self, RequestIx ix) {
  Metrics *metrics = sim_books(self, &self->requests.slots[ix]);
  const double most = self->config->hedge.share * (double)self->n_arrived;
  if ((double)(self->metrics.hedges + self->warm_up_metrics.hedges + 1) > most) return;
  const Placement placement = sim_other_placement(self, ix);
  if (placement.prefill == INSTANCE_NONE) return;
  if (!sim_has_memory(self, request_table_growth(&self->requests))) return;
  const RequestIx copy = copy_of(self, ix);
  keep_content(self, ix, copy);
  encoding_copied(self, ix, copy);
  if (self->keeps_parts) parts_begin_copy(self, copy);
  pair(self, ix, copy);
  metrics->hedges++;
  sim_log(self, OUTCOME_HEDGE, &self->requests.slots[copy], placement.prefill, 0, 0);
  sim_place_on(self, copy, &placement);
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  Hedging *all = hedging(self);
  while (all->n_due > 0 && due(self, 0)->at == self->now) {
    const HedgeDue first = *due(self, 0);
    all->first_due = (all->first_due + 1) % all->due_capacity;
    all->n_due--;
    if (waits(self, &first)) hedge(self, first.request);
  }
  set_timer(self);
}

/* --- audit */

/* Pairs agree, and how many copies there are beside requests. */
static void check(const Simulation *self) {
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
  assert((event != NULL) == (hedging(self)->n_due > 0) &&
         (!event || event->at == due(self, 0)->at));
}

static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_HEDGE, 1);
}

static bool is_used(const Simulation *self) {
  return self->config->hedge.after > 0;
}

const Feature feature_hedging = {
    .state_size = sizeof(Hedging),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_HEDGE] = handle},
    .routed = expect,
    .first_token = see_first_token,
    .gives_up = decide,
    .drops_copy = drop_copy,
    .slot_freed = free_slot,
    .audits = check,
};
