/* Requests that were lost with an instance and are tried again.
 *
 * One begins anew, as its first attempt did, after a back-off that doubles with every attempt; it
 * waits for that in front (REQUEST_AWAITS), in a heap by time. One that has had all its attempts is
 * rejected. Where RetryOptions.resume says so, the output that its client has becomes a part of its
 * prompt. */
#include "base/heap.h"
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/front.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/placement.h"
#include "sim/feature/features.h"
#include "sim/feature/patience.h"

typedef struct Retry {
  Tick at;
  uint64_t id;
  RequestIx request;
} Retry;

/* Of those to be tried again, a heap. */
typedef struct Retrying {
  Retry *retries;
  size_t n, capacity;
} Retrying;

static Retrying *retrying(const Simulation *self) {
  return self->feature_states[FEATURE_retrying];
}

/* --- when */

static inline Wide heap_key(const Retry *retry) {
  return wide_of(retry->at, retry->id);
}

static inline void heap_moved(Request *slots, size_t index, const Retry *retry) {
  slots[retry->request].retry = (uint32_t)index + 1;
}

HEAP_STEPS(Request, Retry)
HEAP_REPLACE(Request, Retry)

static void set_timer(Simulation *self) {
  const Event *event = agenda_find(&self->agenda, EVENT_RETRY, 0);
  const Retrying *all = retrying(self);
  if (all->n == 0)
    agenda_clear(&self->agenda, EVENT_RETRY, 0);
  else if (!event || event->at != all->retries[0].at)
    agenda_set(&self->agenda, EVENT_RETRY, 0, all->retries[0].at);
}

static void push(Simulation *self, RequestIx ix, Tick at) {
  Request *slots = self->requests.slots;
  const Retry retry = {.at = at, .id = slots[ix].id, .request = ix};
  Retrying *all = retrying(self);
  ARENA_RESERVE(self->arena, all->retries, all->capacity, all->n + 1);
  heap_rise(slots, all->retries, all->n++, &retry);
  set_timer(self);
}

static void drop(Simulation *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  Retrying *all = retrying(self);
  const size_t index = slots[ix].retry - 1;
  slots[ix].retry = 0;
  const Retry last = all->retries[--all->n];
  if (index < all->n) heap_replace(slots, all->retries, all->n, index, &last);
  set_timer(self);
}

/* Doubled with every attempt; at least a tick. */
static Tick back_off(const RetryOptions *options, uint32_t n_lost) {
  const Tick most = options->most_backoff > 0 ? options->most_backoff : TICK_MAX;
  Tick ticks = options->backoff < most ? options->backoff : most;
  for (uint32_t i = 1; i < n_lost && 0 < ticks && ticks < most; i++)
    ticks = ticks < most / 2 ? 2 * ticks : most;
  return ticks > 0 ? ticks : 1;
}

static void try_later(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const RetryOptions *options = &self->config->retry;
  if (request->n_lost > (uint32_t)options->limit) {
    life_rejected(self, ix, REJECTED_LOST);
    return;
  }
  life_awaits(self, ix);
  const Tick ticks = back_off(options, request->n_lost);
  if (sim_passes_the_end(self, (double)ticks)) return;
  push(self, ix, self->now + ticks);
}

/* --- beginning anew */

/* What was made of it is for nothing, but for what is resumed. Gaps between tokens that its client
 * has were observed; where those are made again, beyond those that it asked for. */
static void book_lost(Simulation *self, const Request *request, int32_t undelivered, bool resumes) {
  Metrics *metrics = sim_books(self, request);
  const int32_t delivered = request->generated_tokens;
  metrics->losses++;
  metrics->lost_tokens +=
      request_computed_tokens(request) + undelivered + (resumes ? 0 : delivered);
  if (resumes)
    metrics->resumed_tokens += delivered;
  else if (delivered > 0) // the first ends a gap where an attempt before has been resumed
    metrics->asked.gaps += (uint64_t)delivered - (request->resumed_tokens == 0);
}

static void begin_anew(Simulation *self, RequestIx ix, int32_t undelivered) {
  Request *request = &self->requests.slots[ix];
  if (request->remakes_first) sim_books(self, request)->remade_tokens--;
  life_expect_no_first(request);
  const bool resumes =
      self->config->retry.resume && request->generated_tokens > 0 && sim_can_resume(self, request);
  book_lost(self, request, undelivered, resumes);
  if (resumes) life_made_is_prompt(self, ix, request->generated_tokens); // computed again
  if (request->resumed_tokens == 0) request->last_token_at = -1;
  if (self->keeps_parts) parts_begin_anew(self, ix);
  request->lost = false;
  request->redirects = 0;
  request->n_lost++;
  request->generated_tokens = request->prefilled_tokens = request->cached_tokens = 0;
  request->first_token_at = request->prefill_began_at = request->decode_began_at = -1;
  request->computing_ticks = 0;
  request->prefill_instance = request->decode_instance = INSTANCE_NONE;
  patience_drop(self, ix); // one of a group may have one of its copy's
  patience_set(self, ix);
}

static void lose(Simulation *self, RequestIx ix, InstanceIx at, int32_t undelivered) {
  const Request *request = &self->requests.slots[ix];
  sim_log(self, OUTCOME_LOST, request, at, request->n_lost, request->generated_tokens);
  begin_anew(self, ix, undelivered);
  try_later(self, ix);
}

static void leave_front(Simulation *self, RequestIx ix) {
  if (self->requests.slots[ix].retry > 0) drop(self, ix);
}

static void handle(Simulation *self, uint32_t target) {
  (void)target;
  const Retrying *all = retrying(self);
  while (all->n > 0 && all->retries[0].at == self->now) {
    const RequestIx ix = all->retries[0].request;
    drop(self, ix);
    front_take(self, ix);
  }
}

static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_RETRY, 1);
}

static bool is_used(const Simulation *self) {
  return self->config->n_faults > 0;
}

const Feature feature_retrying = {
    .state_size = sizeof(Retrying),
    .is_used = is_used,
    .start = start,
    .handlers = {[EVENT_RETRY] = handle},
    .left_front = leave_front,
    .lost = lose,
};
