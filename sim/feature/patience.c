/* See patience.h. */
#include "sim/feature/patience.h"
#include "base/heap.h"
#include "sim/core/leaving.h"
#include "sim/feature/features.h"
#include <assert.h>

/* When the client of a request gives up, or the KV of one who has is across. */
typedef struct Deadline {
  Tick at;
  uint64_t id;
  RequestIx request;
} Deadline;

/* Of requests in flight, a heap. */
typedef struct Patience {
  Deadline *deadlines;
  size_t n_deadlines, capacity;
} Patience;

static Patience *patience(const Simulation *self) {
  return self->feature_states[FEATURE_patience];
}

/* --- deadlines */

static inline Wide heap_key(const Deadline *deadline) {
  return wide_of(deadline->at, deadline->id);
}

static inline void heap_moved(Request *slots, size_t index, const Deadline *deadline) {
  slots[deadline->request].deadline = (uint32_t)index + 1;
}

HEAP_STEPS(Request, Deadline)
HEAP_REPLACE(Request, Deadline)

static void set_timer(Simulation *self) {
  const Event *event = agenda_find(&self->agenda, EVENT_PATIENCE, 0);
  const Patience *all = patience(self);
  if (all->n_deadlines == 0)
    agenda_clear(&self->agenda, EVENT_PATIENCE, 0);
  else if (!event || event->at != all->deadlines[0].at)
    agenda_set_last(&self->agenda, EVENT_PATIENCE, 0, all->deadlines[0].at);
}

void patience_drop(Simulation *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].deadline == 0) return;
  Patience *all = patience(self);
  const size_t index = slots[ix].deadline - 1;
  slots[ix].deadline = 0;
  const Deadline last = all->deadlines[--all->n_deadlines];
  if (index < all->n_deadlines) heap_replace(slots, all->deadlines, all->n_deadlines, index, &last);
  set_timer(self);
}

void patience_look_again(Simulation *self, RequestIx ix, Tick at) {
  Request *slots = self->requests.slots;
  const Deadline deadline = {.at = at, .id = slots[ix].id, .request = ix};
  Patience *all = patience(self);
  ARENA_RESERVE(self->arena, all->deadlines, all->capacity, all->n_deadlines + 1);
  heap_rise(slots, all->deadlines, all->n_deadlines++, &deadline);
  set_timer(self);
}

/* When a patience from arrival on is over; TICK_MAX: never. */
static Tick end_of(const Request *request, Tick patience) {
  return patience > 0 && patience < TICK_MAX - request->arrived_at ? request->arrived_at + patience
                                                                   : TICK_MAX;
}

static Tick first_token_end(const Request *request) {
  const bool waits =
      request_awaits_first(request) || (request->first_token_at < 0 && !request_resumes(request));
  return waits ? end_of(request, request->first_token_patience) : TICK_MAX;
}

void patience_set(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (request->patience == 0 && request->first_token_patience == 0) return;
  const Tick first = first_token_end(request), last = end_of(request, request->patience);
  patience_drop(self, ix);
  const Tick at = first < last ? first : last;
  if (at < TICK_MAX) patience_look_again(self, ix, at > self->now ? at : self->now);
}

/* --- giving up */

static void give_up(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool leaves = request->lost; // already, with an iteration in progress
  tell_gives_up(self, ix);
  patience_drop(self, ix);
  assert(!request->gives_up);
  request->gives_up = first_token_end(request) <= self->now ? CANCELLED_TTFT : CANCELLED_E2E;
  if (!leaves) sim_leave(self, ix);
}

static bool is_over(const Request *request, Tick now) {
  return first_token_end(request) <= now || end_of(request, request->patience) <= now;
}

/* All whose deadline is now. */
static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const Patience *all = patience(self);
  while (all->n_deadlines > 0 && all->deadlines[0].at == self->now)
    if (is_over(&self->requests.slots[all->deadlines[0].request], self->now))
      give_up(self, all->deadlines[0].request);
    else // its first token came from where it is decoded
      patience_set(self, all->deadlines[0].request);
}

/* --- audit */

/* Heap, requests and the pending event agree. */
static void check(const Simulation *self) {
  const Patience *all = patience(self);
  size_t n = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE || request->deadline == 0) continue;
    const Deadline *deadline = &all->deadlines[request->deadline - 1];
    assert(request->deadline <= all->n_deadlines && deadline->request == i);
    assert(deadline->id == request->id && deadline->at >= self->now);
    n++;
  }
  const Event *event = agenda_find(&self->agenda, EVENT_PATIENCE, 0);
  assert(n == all->n_deadlines && (n > 0) == (event != NULL));
  for (size_t i = 0; i < n; i++)
    assert(all->deadlines[i].at >= event->at);
}

static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_PATIENCE, 1);
}

static void see_first_token(Simulation *self, const Instance *instance, RequestIx ix) {
  (void)instance;
  patience_set(self, ix);
}

static void end(Simulation *self, RequestIx ix, const RequestRecord *record) {
  (void)record;
  patience_drop(self, ix);
}

const Feature feature_patience = {
    .state_size = sizeof(Patience),
    .start = start,
    .handlers = {[EVENT_PATIENCE] = handle},
    .came_in = patience_set,
    .first_token = see_first_token,
    .ended = end,
    .audits = check,
};
