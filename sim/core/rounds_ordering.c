/* Who waits, and in which order. See rounds.h. */
#include "sim/core/hicache_storage.h"
#include "sim/core/rounds.h"
#include <stdlib.h>

enum {
  LPM_MOST = 128, // that wait: with more of them, as they came
  TOUCHED_MOST = 128,
  TOUCH_ROUNDS = 32, // between two times that prefixes of those who wait are kept fresh
  LITTLE_FOUND = 32, // tokens: of those who find no more and begin alike, one goes first
};

/* How one of those who wait sorts. */
typedef struct Likeness {
  int64_t found; // tokens; -1: less than all others
  uint32_t place;
  RequestIx request;
  uint64_t beginning; // of those who find little; 0: none
} Likeness;

RequestIx rounds_next_waiting(const Simulation *self, RequestIx ix) {
  const Request *slots = self->requests.slots;
  for (ix = slots[ix].next; ix != REQUEST_NONE && !slots[ix].known;)
    ix = slots[ix].next;
  return ix;
}

RequestIx rounds_first_waiting(const Simulation *self, const Instance *instance) {
  const RequestIx ix = instance->prefill_queue.first;
  if (ix == REQUEST_NONE || self->requests.slots[ix].known) return ix;
  return rounds_next_waiting(self, ix);
}

/* Before the first that is not known of, all of which are last. */
static RequestIx first_unknown(const Simulation *self, const Instance *instance) {
  const Request *slots = self->requests.slots;
  RequestIx next = REQUEST_NONE, ix = instance->prefill_queue.last;
  for (; ix != REQUEST_NONE && !slots[ix].known; ix = slots[ix].previous)
    next = ix;
  return next;
}

Tried *rounds_tried(Simulation *self, Instance *instance, RequestIx ix) {
  Rounds *rounds = rounds_of(instance);
  ARENA_RESERVE(self->arena, rounds->tried, rounds->tried_capacity, self->requests.n_slots);
  return &rounds->tried[ix];
}

/* It is known of, behind all others. */
static void enter(Simulation *self, Instance *instance, RequestIx ix) {
  Rounds *rounds = rounds_of(instance);
  self->requests.slots[ix].known = true;
  if (instance->scheduler->hicache) hicache_fetch(self, instance, ix);
  if (rounds->options->enable_priority_scheduling)
    rounds_tried(self, instance, ix)->entry = ++rounds->n_entries;
}

/* From one on, as far as they are not known of. */
static void know(Simulation *self, Instance *instance, RequestIx ix) {
  const Request *slots = self->requests.slots;
  for (; ix != REQUEST_NONE && !slots[ix].known; ix = slots[ix].next) {
    enter(self, instance, ix);
    if (rounds_of(instance)->options->enable_priority_scheduling) // of another in its place before
      rounds_tried(self, instance, ix)->tokens = rounds_tried(self, instance, ix)->hits = 0;
  }
}

/* Most came last; who has lost its KV on its way here is first. */
void rounds_look(Simulation *self, Instance *instance) {
  know(self, instance, instance->prefill_queue.first);
  know(self, instance, first_unknown(self, instance));
}

void rounds_enqueue(Simulation *self, Instance *instance, RequestIx ix) {
  Request *slots = self->requests.slots;
  request_queue_remove(&instance->prefill_queue, slots, ix);
  const RequestIx next = first_unknown(self, instance);
  request_queue_insert(&instance->prefill_queue, slots, ix, next == ix ? REQUEST_NONE : next);
  enter(self, instance, ix);
}

/* --- longest prefix first */

static int by_likeness(const void *a_, const void *b_) {
  const Likeness *a = a_, *b = b_;
  if (a->found != b->found) return a->found > b->found ? -1 : 1;
  return a->place < b->place ? -1 : 1;
}

/* Whether one before it that finds little begins as it does. */
static bool is_alike(const Likeness *likeness, size_t n, uint64_t beginning) {
  for (size_t i = 0; i < n; i++)
    if (likeness[i].beginning == beginning) return true;
  return false;
}

static Likeness likeness_of(Simulation *self, Instance *instance, RequestIx ix, size_t place) {
  const Request *request = &self->requests.slots[ix];
  RequestMemory *memory = &self->memory[ix];
  Likeness *before = rounds_of(instance)->likeness;
  const int64_t tokens = request_prefill_tokens(request);
  const int64_t found = rounds_match(instance, memory, tokens);
  Likeness likeness = {found < tokens ? found : tokens - 1, (uint32_t)place, ix, 0};
  if (rounds_of(instance)->options->enable_priority_scheduling)
    rounds_tried(self, instance, ix)->hits = (int32_t)found;
  if (found > LITTLE_FOUND || tokens < LITTLE_FOUND) return likeness;
  const uint64_t beginning = content_key(&memory->content, LITTLE_FOUND);
  if (is_alike(before, place, beginning))
    likeness.found = -1;
  else
    likeness.beginning = beginning;
  return likeness;
}

static void sort_by_prefix(Simulation *self, Instance *instance) {
  Rounds *rounds = rounds_of(instance);
  Request *slots = self->requests.slots;
  size_t n = 0;
  for (RequestIx ix = rounds_first_waiting(self, instance); ix != REQUEST_NONE;
       ix = rounds_next_waiting(self, ix), n++) {
    ARENA_RESERVE(self->arena, rounds->likeness, rounds->likeness_capacity, n + 1);
    rounds->likeness[n] = likeness_of(self, instance, ix, n);
  }
  qsort(rounds->likeness, n, sizeof *rounds->likeness, by_likeness);
  const RequestIx next = first_unknown(self, instance);
  for (size_t i = 0; i < n; i++) {
    request_queue_remove(&instance->prefill_queue, slots, rounds->likeness[i].request);
    request_queue_insert(&instance->prefill_queue, slots, rounds->likeness[i].request, next);
  }
}

/* --- by priority, and by arrival */

bool rounds_goes_before(const RoundOptions *options, int32_t a, int32_t b) {
  return options->schedule_low_priority_values_first ? a < b : a > b;
}

/* Those who have come since the last time are last. */
static void sort_by_priority(Simulation *self, Instance *instance) {
  const RoundOptions *options = rounds_of(instance)->options;
  Request *slots = self->requests.slots;
  RequestQueue *queue = &instance->prefill_queue;
  RequestIx next;
  for (RequestIx ix = queue->first; ix != REQUEST_NONE && slots[ix].known; ix = next) {
    RequestIx before = ix;
    next = slots[ix].next;
    while (slots[before].previous != REQUEST_NONE &&
           rounds_goes_before(options, slots[ix].priority, slots[slots[before].previous].priority))
      before = slots[before].previous;
    if (before == ix) continue;
    request_queue_remove(queue, slots, ix);
    request_queue_insert(queue, slots, ix, before);
  }
}

/* What those who wait find is touched now and then, that of the first last. */
static void touch(Simulation *self, Instance *instance) {
  if (rounds_of(instance)->n_sorts++ % TOUCH_ROUNDS != 0) return;
  const Request *slots = self->requests.slots;
  RequestIx ix = rounds_first_waiting(self, instance), last = ix;
  for (int i = 1; i < TOUCHED_MOST && ix != REQUEST_NONE; i++) {
    ix = rounds_next_waiting(self, ix);
    if (ix != REQUEST_NONE) last = ix;
  }
  for (ix = last; ix != REQUEST_NONE; ix = slots[ix].previous) {
    RequestMemory *memory = &self->memory[ix];
    radix_match(instance->radix, &memory->content, request_prefill_tokens(&slots[ix]),
                &memory->matched);
  }
}

static bool more_wait_than(const Simulation *self, const Instance *instance, int most) {
  if (instance->prefill_queue.count <= most) return false;
  int n = 0;
  for (RequestIx ix = rounds_first_waiting(self, instance); ix != REQUEST_NONE && n <= most; n++)
    ix = rounds_next_waiting(self, ix);
  return n > most;
}

void rounds_sort(Simulation *self, Instance *instance) {
  const RoundOptions *options = rounds_of(instance)->options;
  const bool lpm = options->schedule_policy == SCHEDULE_LPM && instance->radix;
  if (rounds_first_waiting(self, instance) == REQUEST_NONE) return;
  if (lpm && !more_wait_than(self, instance, LPM_MOST)) {
    sort_by_prefix(self, instance);
    return;
  }
  if (options->enable_priority_scheduling && !lpm) sort_by_priority(self, instance);
  if (instance->radix) touch(self, instance);
}
