/* See outages.h. */
#include "sim/feature/outages.h"
#include "sim/core/draining.h"
#include "sim/core/front.h"
#include "sim/core/lockstep.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/roles.h"
#include "sim/core/starting.h"
#include "sim/feature/features.h"
#include "sim/feature/groups.h"
#include "sim/feature/uptime.h"
#include <assert.h>

Outages *outages_of(const Simulation *self) {
  return self->feature_states[FEATURE_outages];
}

/* The machines that pools do not begin with are off. */
static void prepare(Simulation *self) {
  for (InstanceIx m = 0, i = 0; m < self->n_instances; m++, i++) {
    Instance *instance = &self->instances[m];
    const PoolSpec *spec = instance->pool;
    if (m > 0 && spec != self->instances[m - 1].pool) i = 0;
    if (spec->scaling.max == 0 || i < spec->scaling.start * pool_lanes(spec)) continue;
    sim_unlist(self, instance);
    instance->stops = true;
    instance->availability = INSTANCE_OFF;
    instance->off_since = 0;
  }
}

static void start(Simulation *self) {
  outages_of(self)->stores_free_at = ARENA_ARRAY(self->arena, Tick, self->config->n_pools);
  agenda_reserve(&self->agenda, EVENT_DETECTION, self->n_instances);
  agenda_reserve(&self->agenda, EVENT_BOOT, self->n_instances);
}

/* --- books */

/* Since when its outage is not booked; now, where all is. */
static Tick unbooked_since(const Simulation *self, const Instance *instance) {
  if (instance->down_since < 0) return self->now;
  return instance->down_since > self->counted_from ? instance->down_since : self->counted_from;
}

/* The time that it has been down or starting is booked up to now, if it still is. */
static void book(Simulation *self, Instance *instance) {
  const Tick since = unbooked_since(self, instance);
  instance->totals.down_ticks += self->now - since;
  if (since < self->now) sim_book_away(self, instance, HOURS_DOWN, since);
}

void outages_book_off(Simulation *self, Instance *instance) {
  if (instance->off_since < 0) return;
  instance->totals.off_ticks += self->now - instance->off_since;
  sim_book_away(self, instance, HOURS_OFF, instance->off_since);
  instance->off_since = self->now;
}

static void book_all(Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    book(self, &self->instances[m]);
    outages_book_off(self, &self->instances[m]);
  }
}

/* --- who starts together */

/* Whose events are those of all that fail and start as one. */
Instance *outages_lead(const Simulation *self, Instance *instance) {
  return instance->group ? &self->instances[instance->group->first[SHAPE_PREFILL]] : instance;
}

/* To an instance, or to all of its group. */
void outages_each(Simulation *self, Instance *instance, void (*act)(Simulation *, Instance *)) {
  const Group *group = instance->group;
  if (!group) {
    act(self, instance);
    return;
  }
  for (int shape = 0; shape < SHAPES; shape++)
    for (uint32_t i = 0; i < group->n_instances[shape]; i++)
      act(self, &self->instances[group->first[shape] + i]);
}

/* --- the start */

Tick outages_start_end(const Simulation *self, const PoolSpec *pool, uint32_t lanes, Tick from) {
  const int64_t replicas = pool_replicas(pool, lanes);
  return start_up_end(&pool->start_up, replicas * pool->weight_bytes,
                      replicas * pool->nic_bandwidth, from,
                      &outages_of(self)->stores_free_at[pool - self->config->pools]);
}

void outages_set_boot(Simulation *self, const Instance *instance, Tick at) {
  agenda_clear(&self->agenda, EVENT_BOOT, instance->ix);
  if (at < TICK_MAX) agenda_set(&self->agenda, EVENT_BOOT, instance->ix, at);
}

void outages_end(Simulation *self, Instance *instance) {
  agenda_clear(&self->agenda, EVENT_BOOT, instance->ix);
  self->n_down--;
  book(self, instance);
  instance->down_since = -1;
}

void outages_lose_memory(Simulation *self, Instance *instance) {
  if (instance->loop->forget) instance->loop->forget(self, instance);
  if (instance->cache) prefix_cache_forget(instance->cache);
  if (instance->radix) radix_forget(instance->radix);
  tell_memory_lost(self, instance);
}

static void come_up(Simulation *self, Instance *instance) {
  assert(instance->n_faults + instance->n_drains == 0 && !instance->listed);
  instance->availability = INSTANCE_UP;
  if (instance->pool->shrinks) lockstep_return(instance);
  outages_each(self, instance, outages_end);
  outages_each(self, instance, uptime_comes_up);
  if (instance->group) groups_restart(self, instance->group);
  if (instance->starts_since >= 0) {
    instance->totals.scale_ups++;
    instance->totals.starting_ticks += self->now - instance->starts_since;
    instance->starts_since = -1;
  }
  outages_each(self, instance, sim_list);
  sim_log(self, OUTCOME_UP, NULL, instance->ix, 0, 0);
  sim_mark(self, instance, MARK_ROOM);
  if (instance->stops) sim_drain(self, instance, DRAIN_STOP);
}

/* Ranks of one instance that come up in the same tick do so together. */
static void handle_boot(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  Lockstep *lockstep = instance->pool->shrinks ? instance->lockstep : NULL;
  come_up(self, instance);
  for (uint32_t i = 0; lockstep && i < lockstep->n; i++) {
    const Event *boot = agenda_find(&self->agenda, EVENT_BOOT, lockstep->first[i].ix);
    if (boot && boot->at == self->now) come_up(self, &lockstep->first[i]);
  }
  if (lockstep) lockstep_grow(self, lockstep);
  front_open(self, sim_deployment_of(self, instance));
}

/* Whether a request is left that something may serve which is out. */
static Repair await_repair(const Simulation *self) {
  const Outages *outages = outages_of(self);
  const uint32_t *n_pending = self->agenda.n_pending;
  if (outages->wakes && outages->wakes(self)) return REPAIR_INSTANCES;
  if (self->n_down + outages->n_nics_down + outages->n_stores_down == 0 ||
      self->requests.n_live == 0 || n_pending[EVENT_FAULT] + n_pending[EVENT_BOOT] == 0)
    return REPAIR_NONE;
  return outages->n_nics_down > 0 ? REPAIR_LINKS : REPAIR_INSTANCES;
}

/* Time that an instance is idle and away is a part of what is not booked. */
static void check(const Simulation *self) {
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    if (instance->activity != ACTIVITY_IDLE) continue;
    const Tick down = self->now - unbooked_since(self, instance);
    const Tick off = instance->off_since < 0 ? 0 : self->now - instance->off_since;
    const Tick busy = instance->totals.prefill_ticks + instance->totals.decode_ticks;
    assert(busy + instance->totals.down_ticks + down + instance->totals.off_ticks + off <=
           self->now);
  }
}

const Feature feature_outages = {
    .state_size = sizeof(Outages),
    .prepare = prepare,
    .start = start,
    .handlers = {[EVENT_BOOT] = handle_boot},
    .awaits_repair = await_repair,
    .books_close = book_all,
    .audits = check,
};
