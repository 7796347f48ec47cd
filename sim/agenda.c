/* See agenda.h. Re-keying in place was chosen over leaving stale events to fall out at pop: an
 * arrival at a decode machine shortens its run, and the stale run ends, seconds ahead, would
 * outnumber live events. */
#include "sim/agenda.h"
#include "sim/base/hash.h"
#include <assert.h>

/* Arrivals take the numbers below this, all other events those above. */
static const uint64_t FIRST_SEQ = UINT64_C(1) << 62;

void agenda_init(Agenda *self, uint64_t tie_seed, Arena *arena) {
  *self = (Agenda){.arena = arena, .next_seq = FIRST_SEQ, .tie_seed = tie_seed};
}

void agenda_reserve(Agenda *self, EventKind kind, uint32_t n_targets) {
  ARENA_RESERVE(self->arena, self->where[kind], self->where_capacity[kind], n_targets);
}

static inline bool before(const Event *a, const Event *b) {
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static inline void place(Agenda *self, size_t index, const Event *event) {
  self->heap[index] = *event;
  self->where[event->kind][event->target] = (uint32_t)index + 1;
}

static void sift_up(Agenda *self, size_t index, const Event *event) {
  while (index > 0) {
    size_t parent = (index - 1) / 2;
    if (!before(event, &self->heap[parent])) break;
    place(self, index, &self->heap[parent]);
    index = parent;
  }
  place(self, index, event);
}

static void sift_down(Agenda *self, size_t index, const Event *event) {
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= self->n_events) break;
    if (child + 1 < self->n_events && before(&self->heap[child + 1], &self->heap[child])) child++;
    if (!before(&self->heap[child], event)) break;
    place(self, index, &self->heap[child]);
    index = child;
  }
  place(self, index, event);
}

/* Puts `event` where the element at `index` was. */
static void replace(Agenda *self, size_t index, const Event *event) {
  if (index > 0 && before(event, &self->heap[(index - 1) / 2]))
    sift_up(self, index, event);
  else
    sift_down(self, index, event);
}

static void set(Agenda *self, EventKind kind, uint32_t target, Tick at, uint64_t seq) {
  assert(target < self->where_capacity[kind]);
  const Event event = {.at = at,
                       .order = self->tie_seed ? hash_fold(self->tie_seed, seq) : seq,
                       .seq = seq,
                       .kind = kind,
                       .target = target};
  uint32_t where = self->where[kind][target];
  if (where) {
    replace(self, where - 1, &event);
    return;
  }
  ARENA_RESERVE(self->arena, self->heap, self->heap_capacity, self->n_events + 1);
  sift_up(self, self->n_events++, &event);
}

void agenda_set(Agenda *self, EventKind kind, uint32_t target, Tick at) {
  set(self, kind, target, at, self->next_seq++);
}

void agenda_move(Agenda *self, EventKind kind, uint32_t target, Tick at, uint64_t seq) {
  set(self, kind, target, at, seq);
}

void agenda_set_arrival(Agenda *self, Tick at, uint64_t ordinal) {
  assert(ordinal < FIRST_SEQ);
  set(self, EVENT_ARRIVAL, 0, at, ordinal);
}

static void take(Agenda *self, size_t index) {
  self->where[self->heap[index].kind][self->heap[index].target] = 0;
  const Event last = self->heap[--self->n_events];
  if (index < self->n_events) replace(self, index, &last);
}

void agenda_clear(Agenda *self, EventKind kind, uint32_t target) {
  uint32_t where = self->where[kind][target];
  if (where) take(self, where - 1);
}

const Event *agenda_find(const Agenda *self, EventKind kind, uint32_t target) {
  uint32_t where = self->where[kind][target];
  return where ? &self->heap[where - 1] : NULL;
}

bool agenda_pop(Agenda *self, Event *ret_event) {
  if (self->n_events == 0) return false;
  *ret_event = self->heap[0];
  take(self, 0);
  return true;
}
