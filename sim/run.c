/* The loop over events. */
#include "sim/run.h"
#include "sim/audit.h"
#include "sim/core/arrival.h"
#include "sim/core/decode_run.h"
#include "sim/core/draining.h"
#include "sim/core/iteration.h"
#include "sim/core/limits.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/roles.h"
#include "sim/core/waking.h"
#include <assert.h>
#include <stddef.h>

enum {
  PROGRESS_EVENTS = 1 << 16,
  CACHE_LINE_BYTES = 64,
  INSTANCE_HOT_BYTES = offsetof(Instance, before), // what comes then most events do not need
};

/* An idle instance that was woken waits while more requests arrive in this very tick, so that they
 * can share its first iteration. */
static bool gathers(const Simulation *self, const Instance *instance) {
  return self->gathers && instance->activity == ACTIVITY_IDLE && instance->idle_since >= 0;
}

/* A request has left that others may have waited for. */
static void use_room(Simulation *self, Instance *instance) {
  sim_admit_inbound(self, instance);
  sim_wake(self, instance, WAKE_RELEASE, REQUEST_NONE);
  if (instance->activity == ACTIVITY_IDLE) sim_review_role(self, instance);
}

static void settle_instances(Simulation *self) {
  uint32_t n_waiting = 0;
  for (uint32_t i = 0; i < self->n_marked; i++) { // more may be marked meanwhile
    Instance *instance = &self->instances[self->marked[i]];
    if (instance->marks & MARK_ROOM) use_room(self, instance);
    const unsigned marks = instance->marks;
    const bool waits = (marks & MARK_BEGIN) && gathers(self, instance);
    if (waits) self->marked[n_waiting++] = instance->ix;
    instance->marks = waits ? MARK_BEGIN : 0;
    if ((marks & MARK_REFIT) && instance->kv_groups) sim_catch_up(self, instance);
    if (marks & MARK_REFIT) sim_refit_run(self, instance);
    if ((marks & MARK_BEGIN) && !waits) sim_begin(self, instance);
    if (marks & MARK_DRAIN) sim_leave_drained(self, instance);
  }
  self->n_marked = n_waiting;
}

void sim_settle(Simulation *self) {
  settle_instances(self);
  if (self->n_marked_groups == 0) return;
  for (uint32_t i = 0; i < self->n_marked_groups; i++) {
    Group *group = &self->groups[self->marked_groups[i]];
    group->marked = false;
    tell_group_settles(self, group);
  }
  self->n_marked_groups = 0;
  settle_instances(self); // runs that a group has given KV
}

/* Events that neither make room nor bring work, beside those of instances without any. A client
 * that gives up may make some, but nobody waits for that where a deadlock can be broken. */
static bool is_control(EventKind kind) {
  return kind == EVENT_MONITOR || kind == EVENT_REPORT || kind == EVENT_FLIP ||
         kind == EVENT_FAULT || kind == EVENT_SCALING || kind == EVENT_SWITCH || kind == EVENT_HOUR;
}

/* Nor does an instance that fails or comes back with nothing on it. */
static bool makes_no_room(const Simulation *self, const Event *event) {
  const bool of_instance = event->kind == EVENT_DETECTION || event->kind == EVENT_BOOT;
  return is_control((EventKind)event->kind) ||
         (of_instance && column_at(self->columns.n_assigned, event->target) == 0);
}

static size_t n_controls(const Simulation *self) {
  const uint32_t *n = self->agenda.n_pending;
  return n[EVENT_MONITOR] + n[EVENT_REPORT] + n[EVENT_SCALING] + n[EVENT_FLIP] + n[EVENT_FAULT] +
         n[EVENT_BOOT] + n[EVENT_PATIENCE] + n[EVENT_HEDGE] + n[EVENT_SWITCH] + n[EVENT_HOUR] +
         (self->requests.n_live > 0 ? 0 : n[EVENT_DETECTION] + n[EVENT_PAUSE]);
}

static bool has_arrival(const Simulation *self) {
  return self->agenda.n_pending[EVENT_ARRIVAL] > 0;
}

/* When all that is pending asks for room again and has been refused since anything else happened,
 * nobody will ever make any; and when nothing is pending the run is over. Who arrives next makes no
 * room, and is not known of: with requests here that it is pending changes nothing. */
static bool is_stuck(const Simulation *self) {
  const uint32_t *n = self->agenda.n_pending;
  const size_t most =
      self->n_retries + n[EVENT_FLIP] + n[EVENT_FAULT] + n[EVENT_BOOT] + n[EVENT_DETECTION] + 9;
  if (self->agenda.n_events > most) return false; // mostly
  const bool arrives = has_arrival(self);
  if (arrives && self->requests.n_live == 0) return false;
  const size_t pending = self->agenda.n_events - n_controls(self) - arrives;
  return pending == self->n_retries && self->n_refusals >= pending;
}

/* Among thousands of instances the one whose event is next is in no cache: it comes there while
 * this event is handled. */
static void fetch_next(const Simulation *self) {
  const Event *next = agenda_next(&self->agenda);
  if (!next || next->kind != EVENT_ITERATION) return;
  const char *instance = (const char *)&self->instances[next->target];
#pragma GCC unroll 32
  for (size_t i = 0; i < INSTANCE_HOT_BYTES; i += CACHE_LINE_BYTES)
    __builtin_prefetch(instance + i);
}

static void handle_next(Simulation *self) {
  agenda_pop(&self->agenda, &self->event);
  fetch_next(self);
  if (self->event.at > self->now || self->event.order > self->reached)
    self->reached = self->event.order;
  self->now = self->event.at;
  self->n_events++;
  const size_t refusals = self->n_refusals;
  const bool no_room = refusals > 0 && makes_no_room(self, &self->event);
  self->handlers[self->event.kind](self, self->event.target);
  if (self->n_marked + self->n_marked_groups > 0) sim_settle(self);
  if (self->n_refusals > 0 && self->n_refusals == refusals && !no_room) self->n_refusals = 0;
}

/* Whether all books are checked after this event: after `audited_in_full` events each second is,
 * after twice as many each fourth, and so on, so that checks grow by the logarithm of events. */
static bool is_audited(const Simulation *self) {
  if (!self->config->audit || self->failed) return false;
  uint64_t apart = 1;
  const uint64_t in_full = self->config->audited_in_full;
  for (uint64_t n = in_full; n > 0 && n < self->n_events; n *= 2)
    apart *= 2;
  return self->n_events % apart == 0;
}

bool sim_step(Simulation *self) {
  if (self->source_told) sim_pull_again(self);
  if (self->failed || self->stopped) return false;
  if (is_stuck(self)) {
    const Repair repair = ask_awaits_repair(self);
    const bool broken = repair != REPAIR_LINKS && sim_break_deadlock(self);
    if (broken) sim_settle(self);
    if (broken || !(repair || self->agenda.n_pending[EVENT_PATIENCE] > 0 || has_arrival(self)))
      return broken;
  }
  if (self->hooks.n_event_comes > 0) tell_event_comes(self, agenda_first_at(&self->agenda));
  const Tick previous = self->now;
  if (ask_ends_copies(self)) {
    self->n_events++;
    sim_settle(self);
  } else {
    handle_next(self);
  }
  if (is_audited(self)) audit_check(self, previous);
  return sim_has_memory(self, 0);
}

static void loop(Simulation *self) {
  const SimConfig *config = self->config;
  while (!sim_is_interrupted(self) && sim_step(self))
    if (config->on_progress && self->n_events % PROGRESS_EVENTS == 0)
      config->on_progress(config->on_progress_context,
                          self->n_arrived + self->n_copies - self->requests.n_live, self->now);
}

/* Instances are made before anything can be counted, and take the most of a cluster without
 * requests: themselves, a number for each place in a block, and what a router keeps of each. */
static bool allows_instances(const SimConfig *config, const Arena *arena, Diag *diag) {
  double bytes = (double)arena->bytes, instances = 0;
  const PolicyChoice router = sim_policy(config, POLICY_ROUTER);
  size_t (*of_router)(const void *) = ((const Router *)router.policy)->instance_bytes;
  const size_t more = of_router ? of_router(router.state) : 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    instances += pool->count;
    bytes += (double)pool->count *
             (double)(sizeof(Instance) + (size_t)pool->block_size * sizeof(int32_t) + more);
  }
  if (config->memory_limit == 0 || bytes <= (double)config->memory_limit) return true;
  char limit[32], needed[32];
  diag_environment(diag, place_of_file(NULL),
                   "the run needs more memory than its limit of %s: %s for %.0f instances alone",
                   bytes_text((double)config->memory_limit, limit), bytes_text(bytes, needed),
                   instances);
  return false;
}

int sim_run(const SimConfig *config, SimResult *ret_result, Arena *arena, Diag *diag) {
  for (uint32_t p = 0; p < config->n_pools; p++)
    assert(!sim_conflict(sim_policy(config, POLICY_POOL).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_BATCHER).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_KVTIER).policy));
  if (!allows_instances(config, arena, diag)) return -1;
  Simulation *simulation = ARENA_NEW(arena, Simulation);
  sim_init(simulation, config, arena, diag);
  loop(simulation);
  if (simulation->failed) return -1;
  tell_run_ends(simulation);
  sim_sum_up(simulation, ret_result);
  if (config->audit && !simulation->stopped) audit_totals(simulation, ret_result);
  return 0;
}
