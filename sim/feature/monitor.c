/* The monitor broadcasts the loads of machines at an interval, and a pool policy may have machines
 * flip to another role then (TetriInfer §3.5): one drains, is away for a time, and has that role.
 * Broadcasts and flips keep no run alive. */
#include "sim/core/counting.h"
#include "sim/core/draining.h"
#include "sim/core/memory.h"
#include "sim/core/roles.h"
#include "sim/feature/features.h"
#include <assert.h>

/* --- broadcasts */

static void broadcast(const Simulation *self, ClusterView *view) {
  view->loads_at = self->now;
  for (uint32_t i = 0; i < view->n_members; i++) {
    const MachineIx m = view->members[i];
    const Machine *machine = &self->machines[m];
    const int64_t n_heavy = column_at(view->columns.n_heavy, m);
    const Tick idle = machine->idle_since < 0 ? 0 : self->now - machine->idle_since;
    view->loads[m] =
        (MachineLoad){.free_blocks = machine->kv_blocks - column_at(view->columns.kv_blocks, m),
                      .pending_tokens = column_at(view->columns.pending_tokens, m),
                      .n_heavy = n_heavy,
                      .n_light = machine->n_decodes - n_heavy,
                      .idle_ticks = machine->idle_ticks + idle};
  }
}

/* There is none past the end of simulated time. */
static void set_monitor(Simulation *self) {
  if (self->config->monitor_interval > TICK_MAX - self->now) return;
  agenda_set(&self->agenda, EVENT_MONITOR, 0, self->now + self->config->monitor_interval);
}

/* The first broadcast is now, the others where a policy wants loads. */
static void start(Simulation *self) {
  agenda_reserve(&self->agenda, EVENT_MONITOR, 1);
  agenda_reserve(&self->agenda, EVENT_FLIP, self->n_machines);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    broadcast(self, &self->deployments[d].view);
  if (!self->dispatcher->reads_loads && !self->pool_policy->watch) return;
  assert(self->config->monitor_interval > 0);
  set_monitor(self);
}

/* --- flips */

/* Whether another machine of the role, none of which drains, has as much room. */
static bool has_equal(const Simulation *self, const Machine *machine, Role role) {
  const RoleList *list = &sim_deployment_of(self, machine)->view.by_role[role];
  for (uint32_t i = 0; i < list->count; i++) {
    const Machine *other = &self->machines[list->items[i]];
    if (other != machine && machine_room(other) >= machine_room(machine)) return true;
  }
  return false;
}

/* Whether the phases of a machine's role are left without one as roomy when it goes. */
static bool is_last(const Simulation *self, const Machine *machine) {
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    if (!role_covers(machine->role, (Phase)phase)) continue;
    bool covered = false;
    for (int role = 0; role < ROLES && !covered; role++)
      covered = role_covers((Role)role, (Phase)phase) && has_equal(self, machine, (Role)role);
    if (!covered) return true;
  }
  return false;
}

static void watch(Simulation *self, Deployment *deployment, Machine *machine) {
  Tick ticks = 0;
  const Role role = self->pool_policy->watch(deployment->pool_state, sim_cluster(self, deployment),
                                             machine, &ticks);
  if (role == machine->role || is_last(self, machine)) return;
  assert(0 <= ticks && !self->pool_policy->moves_roles);
  machine->flips_to = role;
  machine->flip_ticks = ticks;
  sim_log(self, OUTCOME_FLIP, NULL, machine->ix, machine->role, role);
  sim_drain(self, machine, DRAIN_FLIP);
}

static void handle_monitor(Simulation *self, uint32_t target) {
  (void)target;
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    const ClusterView *view = &deployment->view;
    broadcast(self, &deployment->view);
    for (uint32_t i = 0; self->pool_policy->watch && i < view->n_members; i++) {
      Machine *machine = &self->machines[view->members[i]];
      if (machine->availability == MACHINE_UP) watch(self, deployment, machine);
    }
  }
  set_monitor(self);
}

/* A machine that has drained for it is away until its flip is over. */
static void begin_flip(Simulation *self, Machine *machine) {
  if (machine->drains_for != DRAIN_FLIP) return;
  const Tick left = TICK_MAX - self->now; // of simulated time
  agenda_set(&self->agenda, EVENT_FLIP, machine->ix,
             self->now + (machine->flip_ticks < left ? machine->flip_ticks : left));
  machine->availability = MACHINE_AWAY;
}

static void handle_flip(Simulation *self, uint32_t target) {
  Machine *machine = &self->machines[target];
  assert(sim_is_drained(self, machine));
  const Role from = machine->role;
  machine->role = machine->home = machine->flips_to;
  machine->role_since = self->now;
  machine->availability = MACHINE_UP;
  sim_list(self, machine);
  sim_log(self, OUTCOME_ROLE, NULL, machine->ix, from, machine->role);
  sim_present_books(self)->role_changes++;
  sim_present_books(self)->flips++;
  sim_present_books(self)->flip_ticks += machine->flip_ticks;
  if (machine->n_drains > 0) sim_drain(self, machine, DRAIN_MAINTENANCE);
}

/* --- audit */

/* Loads that were just broadcast are those of this moment. */
static void check_loads(const Simulation *self) {
  for (MachineIx m = 0; self->event.kind == EVENT_MONITOR && m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    const int64_t unheld = sim_free_blocks(self, machine) + machine->withheld_blocks;
    const MachineLoad *load = &sim_deployment_of(self, machine)->view.loads[m];
    assert(load->free_blocks == unheld - machine->promised_blocks);
  }
}

/* One that is away for a flip has nothing left. */
static void check_flips(const Simulation *self) {
  uint32_t n = 0;
  for (MachineIx m = 0; m < self->n_machines; m++) {
    const Machine *machine = &self->machines[m];
    const bool away = machine->availability == MACHINE_AWAY && !machine->group;
    assert(away == (agenda_find(&self->agenda, EVENT_FLIP, m) != NULL));
    assert(!away || sim_is_drained(self, machine));
    n += away;
  }
  assert(n == self->agenda.n_pending[EVENT_FLIP]);
}

static void check(const Simulation *self) {
  check_loads(self);
  check_flips(self);
}

const Feature feature_monitor = {
    .name = "monitor",
    .start = start,
    .handlers = {[EVENT_MONITOR] = handle_monitor, [EVENT_FLIP] = handle_flip},
    .drained = begin_flip,
    .audits = check,
};
