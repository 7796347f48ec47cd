/* The pending events: a heap of values with the place of each timer at hand.
 *
 * Invariant: heap[where[kind][target] - 1] is the event of that (kind, target), or where is 0.
 * A pop leaves a hole at the top, which the next event that is set fills: most handlers set one, so
 * the heap is put in order once for both. Nothing is cancelled by searching: setting a pending
 * timer re-keys it in place. Few events are pending (one arrival, one per running instance, one per
 * active transfer), so the heap stays in the first cache. */
#ifndef SIM_CORE_AGENDA_H
#define SIM_CORE_AGENDA_H
#include "base/arena.h"
#include "base/heap.h"
#include "sim/core/event.h"

typedef struct Agenda {
  Arena *arena;
  Event *heap; // [n_events], and one more while there is a hole
  size_t n_events, heap_capacity;
  bool hole;                    // heap[0] is no event, and sorts before all
  uint32_t *where[EVENT_KINDS]; // 1 + index in the heap; 0: not pending
  size_t where_capacity[EVENT_KINDS];
  uint32_t n_pending[EVENT_KINDS];
  uint64_t next_seq; // of events that are not arrivals
  uint64_t tie_seed; // 0: insertion order
} Agenda;

void agenda_init(Agenda *self, uint64_t tie_seed, Arena *arena);

/* Makes room for targets 0 … n_targets - 1 of a kind; needed before the first set of each. */
void agenda_reserve(Agenda *self, EventKind kind, uint32_t n_targets);

/* Sets the timer of (kind, target) to `at` with a fresh insertion number, pending or not. */
void agenda_set(Agenda *self, EventKind kind, uint32_t target, Tick at);
/* The same with the insertion number it had: for a timer that only moves. */
void agenda_move(Agenda *self, EventKind kind, uint32_t target, Tick at, uint64_t seq);
/* The arrival timer; arrivals are numbered by their place in the trace, below all other events. */
void agenda_set_arrival(Agenda *self, Tick at, uint64_t ordinal);
/* The same for a timer whose event comes right after the arrivals of its tick. There is one. */
void agenda_set_early(Agenda *self, EventKind kind, uint32_t target, Tick at);
/* The same for a timer whose event comes after all others of its tick; among such, by kind and
 * target. */
void agenda_set_last(Agenda *self, EventKind kind, uint32_t target, Tick at);
/* Takes the timer out; it need not be pending. */
void agenda_clear(Agenda *self, EventKind kind, uint32_t target);
/* The pending event of (kind, target), NULL if there is none. */
const Event *agenda_find(const Agenda *self, EventKind kind, uint32_t target);

/* When the first event is; one must be pending. */
static inline Tick agenda_first_at(const Agenda *self) {
  const Event *heap = self->heap;
  if (!self->hole) return heap[0].at;
  Tick first = heap[1].at;
  for (size_t i = 2; i <= self->n_events && i <= HEAP_CHILDREN; i++)
    if (heap[i].at < first) first = heap[i].at;
  return first;
}
/* What is first of those left after a pop, before anything else is set; NULL: none is. */
const Event *agenda_next(const Agenda *self);
/* That event, valid until the agenda changes. */
const Event *agenda_first(Agenda *self);
/* Takes the first event out; false when none is pending. */
bool agenda_pop(Agenda *self, Event *ret_event);
#endif
