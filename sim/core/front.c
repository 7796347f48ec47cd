/* See front.h. */
#include "sim/core/front.h"
#include "base/heap.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/placement.h"
#include <assert.h>

/* --- the heap of those to be tried again */

static inline Wide heap_key(const Deadline *retry) {
  return wide_of(retry->at, retry->id);
}

static inline void heap_moved(Request *slots, size_t index, const Deadline *retry) {
  slots[retry->request].retry = (uint32_t)index + 1;
}

HEAP_STEPS(Request, Deadline)

static void set_timer(Engine *self) {
  const Event *event = agenda_find(&self->agenda, EVENT_RETRY, 0);
  if (self->n_retries_due == 0)
    agenda_clear(&self->agenda, EVENT_RETRY, 0);
  else if (!event || event->at != self->retries[0].at)
    agenda_set(&self->agenda, EVENT_RETRY, 0, self->retries[0].at);
}

static void push(Engine *self, RequestIx ix, Tick at) {
  Request *slots = self->requests.slots;
  const Deadline retry = {.at = at, .id = slots[ix].id, .request = ix};
  ARENA_RESERVE(self->arena, self->retries, self->retries_capacity, self->n_retries_due + 1);
  heap_rise(slots, self->retries, self->n_retries_due++, &retry);
  set_timer(self);
}

static void drop(Engine *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  const size_t index = slots[ix].retry - 1;
  slots[ix].retry = 0;
  const Deadline last = self->retries[--self->n_retries_due];
  if (index < self->n_retries_due)
    heap_replace(slots, self->retries, self->n_retries_due, index, &last);
  set_timer(self);
}

/* --- who waits */

bool front_is_open(const Deployment *deployment) {
  const RoleList *lists = deployment->view.by_role;
  if (lists[ROLE_MIXED].count > 0) return true;
  const uint32_t n_prefill = lists[ROLE_PREFILL].count, n_decode = lists[ROLE_DECODE].count;
  return deployment->view.roles_move ? n_prefill + n_decode > 0 : n_prefill > 0 && n_decode > 0;
}

void front_hold(Engine *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  life_awaits(self, ix);
  request_queue_push(&engine_deployment(self, &slots[ix])->front, slots, ix);
}

/* Doubled with every attempt; at least a tick. */
static Tick back_off(const RetryOptions *options, uint32_t n_lost) {
  const Tick most = options->most_backoff > 0 ? options->most_backoff : TICK_MAX;
  Tick ticks = options->backoff < most ? options->backoff : most;
  for (uint32_t i = 1; i < n_lost && 0 < ticks && ticks < most; i++)
    ticks = ticks < most / 2 ? 2 * ticks : most;
  return ticks > 0 ? ticks : 1;
}

void front_return(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const RetryOptions *options = &self->config->retry;
  if (request->n_lost > (uint32_t)options->limit) {
    life_rejected(self, ix, REJECTED_LOST);
    return;
  }
  life_awaits(self, ix);
  const Tick ticks = back_off(options, request->n_lost);
  if (engine_passes_the_end(self, (double)ticks)) return;
  push(self, ix, self->now + ticks);
}

void front_leave(Engine *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].retry > 0)
    drop(self, ix);
  else
    request_queue_remove(&engine_deployment(self, &slots[ix])->front, slots, ix);
}

/* --- placing them */

void front_take(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (front_is_open(engine_deployment(self, request)))
    engine_place(self, ix);
  else
    front_hold(self, ix);
}

void engine_handle_retry(Engine *self) {
  while (self->n_retries_due > 0 && self->retries[0].at == self->now) {
    const RequestIx ix = self->retries[0].request;
    drop(self, ix);
    front_take(self, ix);
  }
}

void front_open(Engine *self, Deployment *deployment) {
  while (deployment->front.count > 0 && front_is_open(deployment)) {
    const RequestIx ix = deployment->front.first;
    request_queue_remove(&deployment->front, self->requests.slots, ix);
    engine_place(self, ix);
  }
}
