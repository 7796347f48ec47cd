/* See patience.h. */
#include "sim/feature/patience.h"
#include "base/heap.h"
#include "sim/core/leaving.h"
#include "sim/feature/hedging.h"
#include <assert.h>

/* --- deadlines */

static inline Wide heap_key(const Deadline *deadline) {
  return wide_of(deadline->at, deadline->id);
}

static inline void heap_moved(Request *slots, size_t index, const Deadline *deadline) {
  slots[deadline->request].deadline = (uint32_t)index + 1;
}

HEAP_STEPS(Request, Deadline)

static void set_timer(Engine *self) {
  const Event *event = agenda_find(&self->agenda, EVENT_PATIENCE, 0);
  if (self->n_deadlines == 0)
    agenda_clear(&self->agenda, EVENT_PATIENCE, 0);
  else if (!event || event->at != self->deadlines[0].at)
    agenda_set_last(&self->agenda, EVENT_PATIENCE, 0, self->deadlines[0].at);
}

void engine_drop_deadline(Engine *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].deadline == 0) return;
  const size_t index = slots[ix].deadline - 1;
  slots[ix].deadline = 0;
  const Deadline last = self->deadlines[--self->n_deadlines];
  if (index < self->n_deadlines)
    heap_replace(slots, self->deadlines, self->n_deadlines, index, &last);
  set_timer(self);
}

void engine_look_again(Engine *self, RequestIx ix, Tick at) {
  Request *slots = self->requests.slots;
  const Deadline deadline = {.at = at, .id = slots[ix].id, .request = ix};
  ARENA_RESERVE(self->arena, self->deadlines, self->deadlines_capacity, self->n_deadlines + 1);
  heap_rise(slots, self->deadlines, self->n_deadlines++, &deadline);
  set_timer(self);
}

/* When a patience from arrival on is over; TICK_MAX: never. */
static Tick end_of(const Request *request, Tick patience) {
  return patience > 0 && patience < TICK_MAX - request->arrived_at ? request->arrived_at + patience
                                                                   : TICK_MAX;
}

static Tick first_token_end(const Request *request) {
  const bool waits = request->first_token_at < 0 && !request_resumes(request);
  return waits ? end_of(request, request->first_token_patience) : TICK_MAX;
}

void engine_set_deadline(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (request->patience == 0 && request->first_token_patience == 0) return;
  const Tick first = first_token_end(request), last = end_of(request, request->patience);
  engine_drop_deadline(self, ix);
  const Tick at = first < last ? first : last;
  if (at < TICK_MAX) engine_look_again(self, ix, at > self->now ? at : self->now);
}

/* --- giving up */

static void give_up(Engine *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool leaves = request->lost; // already, with an iteration in progress
  hedging_decide(self, ix);
  engine_drop_deadline(self, ix);
  assert(!request->gives_up);
  request->gives_up = first_token_end(request) <= self->now ? CANCELLED_TTFT : CANCELLED_E2E;
  if (!leaves) engine_leave(self, ix);
}

void engine_handle_patience(Engine *self) {
  while (self->n_deadlines > 0 && self->deadlines[0].at == self->now)
    give_up(self, self->deadlines[0].request);
}

/* --- audit */

void engine_audit_deadlines(const Engine *self) {
  size_t n = 0;
  for (size_t i = 0; i < self->requests.n_slots; i++) {
    const Request *request = &self->requests.slots[i];
    if (request->state == REQUEST_FREE || request->deadline == 0) continue;
    const Deadline *deadline = &self->deadlines[request->deadline - 1];
    assert(request->deadline <= self->n_deadlines && deadline->request == i);
    assert(deadline->id == request->id && deadline->at >= self->now);
    n++;
  }
  const Event *event = agenda_find(&self->agenda, EVENT_PATIENCE, 0);
  assert(n == self->n_deadlines && (n > 0) == (event != NULL));
  for (size_t i = 0; i < n; i++)
    assert(self->deadlines[i].at >= event->at);
}
