/* The loop with its one switch. */
#include "sim/engine.h"
#include "sim/audit.h"
#include "sim/iteration.h"
#include "sim/limits.h"
#include "sim/moving.h"
#include "sim/placement.h"
#include "sim/roles.h"
#include "sim/shaping.h"
#include <assert.h>

enum { PROGRESS_EVENTS = 1 << 16 };

static void handle(Engine *self) {
  switch ((EventKind)self->event.kind) {
  case EVENT_ARRIVAL:
    engine_handle_arrival(self);
    break;
  case EVENT_ITERATION:
    engine_handle_iteration(self, &self->machines[self->event.target]);
    break;
  case EVENT_TRANSFER:
    engine_handle_transfer(self, self->event.target);
    break;
  case EVENT_FLIP:
    engine_handle_flip(self, &self->machines[self->event.target]);
    break;
  case EVENT_MONITOR:
    engine_handle_monitor(self);
    break;
  case EVENT_COPY:
    engine_handle_copy(self, self->event.target);
    break;
  case EVENT_TURN:
    engine_handle_turn(self, &self->groups[self->event.target]);
    break;
  case EVENT_KINDS:
    assert(false);
  }
}

/* What was handled may have changed these groups. */
static void shape_groups(Engine *self) {
  const Event *event = &self->event;
  Group *only = event->kind == EVENT_ITERATION ? self->machines[event->target].group
                : event->kind == EVENT_COPY    ? &self->groups[event->target / COPY_DIRECTIONS]
                : event->kind == EVENT_TURN    ? &self->groups[event->target]
                                               : NULL;
  if (only) engine_shape(self, only);
  for (uint32_t g = 0; event->kind == EVENT_ARRIVAL && g < self->n_groups; g++) {
    Group *group = &self->groups[g];
    if (group->touched) engine_shape(self, group);
    group->touched = false;
  }
}

/* Broadcasts and flips neither make room nor bring work. */
static bool is_control(EventKind kind) {
  return kind == EVENT_MONITOR || kind == EVENT_FLIP;
}

static size_t n_controls(const Engine *self) {
  return (agenda_find(&self->agenda, EVENT_MONITOR, 0) != NULL) + self->n_turning;
}

/* When all that is pending asks for room again and has been refused since anything else happened,
 * nobody will ever make any; and when nothing is pending the run is over. */
static bool is_stuck(const Engine *self) {
  if (self->agenda.n_events > self->n_retries + self->n_turning + 1) return false; // mostly
  const size_t pending = self->agenda.n_events - n_controls(self);
  return pending == self->n_retries && self->n_refusals >= pending;
}

bool engine_step(Engine *self) {
  if (self->failed || self->stopped) return false;
  if (is_stuck(self)) return engine_break_deadlock(self);
  if (self->timeline && agenda_first_at(&self->agenda) > self->now)
    engine_look(self, agenda_first_at(&self->agenda));
  agenda_pop(&self->agenda, &self->event);
  const Tick previous = self->now;
  self->now = self->view.now = self->event.at;
  self->n_events++;
  const size_t refusals = self->n_refusals;
  handle(self);
  if (self->n_turning < self->n_flipping) engine_turn(self);
  if (self->n_groups > 0) shape_groups(self);
  if (self->n_refusals > 0 && self->n_refusals == refusals &&
      !is_control((EventKind)self->event.kind))
    self->n_refusals = 0;
  if (self->config->audit && !self->failed) audit_check(self, previous);
  return engine_has_memory(self, 0);
}

static void loop(Engine *self) {
  const SimConfig *config = self->config;
  while (!engine_is_interrupted(self) && engine_step(self))
    if (config->on_progress && self->n_events % PROGRESS_EVENTS == 0)
      config->on_progress(config->on_progress_context,
                          self->metrics.completed + self->metrics.rejected, self->now);
}

int sim_run(const SimConfig *config, SimResult *ret_result, Arena *arena, Diag *diag) {
  for (uint32_t p = 0; p < config->n_pools; p++)
    assert(!sim_conflict(sim_policy(config, POLICY_POOL).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_BATCHER).policy,
                         sim_pool_policy(config, &config->pools[p], POLICY_KVTIER).policy));
  if (!limits_allow_machines(config, arena, diag)) return -1;
  Engine *engine = ARENA_NEW(arena, Engine);
  engine_init(engine, config, arena, diag);
  loop(engine);
  if (engine->failed) return -1;
  engine_end_groups(engine);
  engine_sum_up(engine, ret_result);
  if (config->audit && !engine->stopped) audit_totals(engine, ret_result);
  return 0;
}
