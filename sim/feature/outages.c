/* See outages.h. */
#include "sim/feature/outages.h"
#include "sim/core/draining.h"
#include "sim/core/front.h"
#include "sim/core/marks.h"
#include "sim/core/roles.h"
#include "sim/core/scheduling.h"
#include "sim/core/starting.h"
#include "sim/feature/features.h"
#include "sim/feature/groups.h"
#include <assert.h>

Outages *outages_of(const Simulation *self) {
  return self->feature_states[FEATURE_outages];
}

static void start(Simulation *self) {
  outages_of(self)->stores_free_at = ARENA_ARRAY(self->arena, Tick, self->config->n_pools);
  agenda_reserve(&self->agenda, EVENT_DETECTION, self->n_machines);
  agenda_reserve(&self->agenda, EVENT_BOOT, self->n_machines);
}

/* --- books */

/* Since when its outage is not booked; now, where all is. */
static Tick unbooked_since(const Simulation *self, const Machine *machine) {
  if (machine->down_since < 0) return self->now;
  return machine->down_since > self->counted_from ? machine->down_since : self->counted_from;
}

/* The time that it has been down or starting is booked up to now, if it still is. */
static void book(Simulation *self, Machine *machine) {
  const Tick since = unbooked_since(self, machine);
  machine->totals.down_ticks += self->now - since;
  if (since < self->now) sim_book_away(self, machine, HOURS_DOWN, since);
}

static void book_all(Simulation *self) {
  for (MachineIx m = 0; m < self->n_machines; m++)
    book(self, &self->machines[m]);
}

/* --- who starts together */

/* Whose events are those of all that fail and start as one. */
Machine *outages_lead(const Simulation *self, Machine *machine) {
  return machine->group ? &self->machines[machine->group->first[SHAPE_PREFILL]] : machine;
}

/* To a machine, or to all of its group. */
void outages_each(Simulation *self, Machine *machine, void (*act)(Simulation *, Machine *)) {
  const Group *group = machine->group;
  if (!group) {
    act(self, machine);
    return;
  }
  for (int shape = 0; shape < SHAPES; shape++)
    for (uint32_t i = 0; i < group->n_machines[shape]; i++)
      act(self, &self->machines[group->first[shape] + i]);
}

/* --- the start */

Tick outages_start_end(const Simulation *self, const PoolSpec *pool, uint32_t lanes, Tick from) {
  const int64_t replicas = pool_replicas(pool, lanes);
  return start_up_end(&pool->start_up, replicas * pool->weight_bytes,
                      replicas * pool->nic_bandwidth, from,
                      &outages_of(self)->stores_free_at[pool - self->config->pools]);
}

void outages_set_boot(Simulation *self, const Machine *machine, Tick at) {
  agenda_clear(&self->agenda, EVENT_BOOT, machine->ix);
  if (at < TICK_MAX) agenda_set(&self->agenda, EVENT_BOOT, machine->ix, at);
}

void outages_end(Simulation *self, Machine *machine) {
  agenda_clear(&self->agenda, EVENT_BOOT, machine->ix);
  self->n_down--;
  book(self, machine);
  machine->down_since = -1;
}

void outages_lose_memory(Simulation *self, Machine *machine) {
  if (machine->scheduler) scheduler_forget(machine);
  if (machine->cache) prefix_cache_forget(machine->cache);
  tell_memory_lost(self, machine);
}

static void handle_boot(Simulation *self, uint32_t target) {
  Machine *machine = &self->machines[target];
  assert(machine->n_faults + machine->n_drains == 0 && !machine->listed);
  machine->availability = MACHINE_UP;
  outages_each(self, machine, outages_end);
  if (machine->group) groups_restart(self, machine->group);
  if (machine->starts_since >= 0) {
    machine->totals.scale_ups++;
    machine->totals.starting_ticks += self->now - machine->starts_since;
    machine->starts_since = -1;
  }
  outages_each(self, machine, sim_list);
  sim_log(self, OUTCOME_UP, NULL, machine->ix, 0, 0);
  sim_mark(self, machine, MARK_ROOM);
  if (machine->stops) sim_drain(self, machine, DRAIN_STOP);
  front_open(self, sim_deployment_of(self, machine));
}

/* Whether a request is left that something may serve which is out. */
static Repair await_repair(const Simulation *self) {
  const Outages *outages = outages_of(self);
  const uint32_t *n_pending = self->agenda.n_pending;
  if (self->n_down + outages->n_nics_down + outages->n_stores_down == 0 ||
      self->requests.n_live == 0 || n_pending[EVENT_FAULT] + n_pending[EVENT_BOOT] == 0)
    return REPAIR_NONE;
  return outages->n_nics_down > 0 ? REPAIR_LINKS : REPAIR_MACHINES;
}

/* Time that a machine is idle and away is a part of what is not booked. */
static void check(const Simulation *self) {
  for (MachineIx m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    if (machine->activity != ACTIVITY_IDLE) continue;
    const Tick down = self->now - unbooked_since(self, machine);
    const Tick off = machine->off_since < 0 ? 0 : self->now - machine->off_since;
    const Tick busy = machine->totals.prefill_ticks + machine->totals.decode_ticks;
    assert(busy + machine->totals.down_ticks + down + machine->totals.off_ticks + off <= self->now);
  }
}

const Feature feature_outages = {
    .name = "outages",
    .state_size = sizeof(Outages),
    .start = start,
    .handlers = {[EVENT_BOOT] = handle_boot},
    .awaits_repair = await_repair,
    .books_close = book_all,
    .audits = check,
};
