/* See agenda.h. Re-keying in place was chosen over leaving stale events to fall out at pop: an
 * arrival at a decode instance shortens its run, and the stale run ends, seconds ahead, would
 * outnumber live events. */
#include "sim/core/agenda.h"
#include "base/hash.h"
#include <assert.h>

/* Arrivals take the numbers below FIRST_SEQ − 1, which is that of an early timer; those from
 * LAST_SEQ on are of the last of a tick, one for each timer, so that no two events have the
 * same. */
static const uint64_t FIRST_SEQ = UINT64_C(1) << 62;
static const uint64_t LAST_SEQ = UINT64_MAX - ((uint64_t)EVENT_KINDS << 32);

void agenda_init(Agenda *self, uint64_t tie_seed, Arena *arena) {
  *self = (Agenda){.arena = arena, .next_seq = FIRST_SEQ, .tie_seed = tie_seed};
}

void agenda_reserve(Agenda *self, EventKind kind, uint32_t n_targets) {
  ARENA_RESERVE(self->arena, self->where[kind], self->where_capacity[kind], n_targets);
}

/* The moment of an event as one number. */
static inline Wide heap_key(const Event *event) {
  return wide_of(event->at, event->order);
}

static inline void heap_moved(Agenda *self, size_t index, const Event *event) {
  self->where[event->kind][event->target] = (uint32_t)index + 1;
}

HEAP_STEPS(Agenda, Event)
HEAP_REPLACE(Agenda, Event)

static uint64_t order_of(const Agenda *self, uint64_t seq) {
  return self->tie_seed && seq < LAST_SEQ ? hash_fold(self->tie_seed, seq) : seq;
}

static void set(Agenda *self, EventKind kind, uint32_t target, Tick at, uint64_t seq) {
  assert(target < self->where_capacity[kind]);
  const Event event = {
      .at = at, .order = order_of(self, seq), .seq = seq, .kind = kind, .target = target};
  uint32_t where = self->where[kind][target];
  if (where) {
    heap_replace(self, self->heap, self->n_events + self->hole, where - 1, &event);
    return;
  }
  self->n_events++;
  self->n_pending[kind]++;
  if (self->hole) {
    self->hole = false;
    heap_sink(self, self->heap, self->n_events, 0, &event);
  } else {
    ARENA_RESERVE(self->arena, self->heap, self->heap_capacity, self->n_events);
    heap_rise(self, self->heap, self->n_events - 1, &event);
  }
}

void agenda_set(Agenda *self, EventKind kind, uint32_t target, Tick at) {
  set(self, kind, target, at, self->next_seq++);
}

void agenda_move(Agenda *self, EventKind kind, uint32_t target, Tick at, uint64_t seq) {
  set(self, kind, target, at, seq);
}

void agenda_set_arrival(Agenda *self, Tick at, uint64_t ordinal) {
  assert(ordinal < FIRST_SEQ - 1);
  set(self, EVENT_ARRIVAL, 0, at, ordinal);
}

void agenda_set_early(Agenda *self, EventKind kind, uint32_t target, Tick at) {
  set(self, kind, target, at, FIRST_SEQ - 1);
}

void agenda_set_last(Agenda *self, EventKind kind, uint32_t target, Tick at) {
  set(self, kind, target, at, LAST_SEQ + ((uint64_t)kind << 32 | target));
}

void agenda_clear(Agenda *self, EventKind kind, uint32_t target) {
  const uint32_t where = self->where[kind][target];
  if (!where) return;
  self->where[kind][target] = 0;
  self->n_pending[kind]--;
  const size_t n = --self->n_events + self->hole;
  const Event last = self->heap[n];
  if (where - 1 < n) heap_replace(self, self->heap, n, where - 1, &last);
}

const Event *agenda_find(const Agenda *self, EventKind kind, uint32_t target) {
  uint32_t where = self->where[kind][target];
  return where ? &self->heap[where - 1] : NULL;
}

/* The last event comes to the top, and goes where it belongs. */
static void close_hole(Agenda *self) {
  self->hole = false;
  const Event last = self->heap[self->n_events];
  if (self->n_events > 0) heap_sink(self, self->heap, self->n_events, 0, &last);
}

const Event *agenda_first(Agenda *self) {
  if (self->hole) close_hole(self);
  return &self->heap[0];
}

const Event *agenda_next(const Agenda *self) {
  if (!self->hole || self->n_events == 0) return NULL;
  const size_t n = self->n_events < HEAP_CHILDREN ? self->n_events : HEAP_CHILDREN;
  return &self->heap[heap_least(self->heap, 1, n)];
}

bool agenda_pop(Agenda *self, Event *ret_event) {
  if (self->hole) close_hole(self);
  if (self->n_events == 0) return false;
  *ret_event = self->heap[0];
  self->where[ret_event->kind][ret_event->target] = 0;
  self->n_pending[ret_event->kind]--;
  self->heap[0].at = INT64_MIN; // before all others
  self->hole = true;
  self->n_events--;
  return true;
}
