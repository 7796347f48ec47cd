/* The monitor broadcasts the loads of instances at an interval, and a pool policy may have
 * instances flip to another role then (TetriInfer §3.5): one drains, is away for a time, and has
 * that role. Broadcasts and flips keep no run alive. */
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
    const InstanceIx m = view->members[i];
    const Instance *instance = &self->instances[m];
    const int64_t n_heavy = column_at(view->columns.n_heavy, m);
    const Tick idle = instance->idle_since < 0 ? 0 : self->now - instance->idle_since;
    view->loads[m] =
        (InstanceLoad){.free_blocks = instance->kv_blocks - column_at(view->columns.kv_blocks, m),
                       .pending_tokens = column_at(view->columns.pending_tokens, m),
                       .n_heavy = n_heavy,
                       .n_light = instance->n_decodes - n_heavy,
                       .idle_ticks = instance->idle_ticks + idle};
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
  agenda_reserve(&self->agenda, EVENT_FLIP, self->n_instances);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    broadcast(self, &self->deployments[d].view);
  if (!self->dispatcher->reads_loads && !self->pool_policy->watch) return;
  assert(self->config->monitor_interval > 0);
  set_monitor(self);
}

/* --- flips */

/* Whether another instance of the role, none of which drains, has as much room. */
static bool has_equal(const Simulation *self, const Instance *instance, Role role) {
  const RoleList *list = &sim_deployment_of(self, instance)->view.by_role[role];
  for (uint32_t i = 0; i < list->count; i++) {
    const Instance *other = &self->instances[list->items[i]];
    if (other != instance && instance_room(other) >= instance_room(instance)) return true;
  }
  return false;
}

/* Whether the phases of an instance's role are left without one as roomy when it goes. */
static bool is_last(const Simulation *self, const Instance *instance) {
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    if (!role_covers(instance->role, (Phase)phase)) continue;
    bool covered = false;
    for (int role = 0; role < ROLES && !covered; role++)
      covered = role_covers((Role)role, (Phase)phase) && has_equal(self, instance, (Role)role);
    if (!covered) return true;
  }
  return false;
}

static void watch(Simulation *self, Deployment *deployment, Instance *instance) {
  Tick ticks = 0;
  const Role role = self->pool_policy->watch(deployment->pool_state, sim_cluster(self, deployment),
                                             instance, &ticks);
  if (role == instance->role || is_last(self, instance)) return;
  assert(0 <= ticks && !self->pool_policy->moves_roles);
  instance->flips_to = role;
  instance->flip_ticks = ticks;
  sim_log(self, OUTCOME_FLIP, NULL, instance->ix, instance->role, role);
  sim_drain(self, instance, DRAIN_FLIP);
}

static void handle_monitor(Simulation *self, uint32_t target) {
  (void)target;
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    const ClusterView *view = &deployment->view;
    broadcast(self, &deployment->view);
    for (uint32_t i = 0; self->pool_policy->watch && i < view->n_members; i++) {
      Instance *instance = &self->instances[view->members[i]];
      if (instance->availability == INSTANCE_UP) watch(self, deployment, instance);
    }
  }
  set_monitor(self);
}

/* An instance that has drained for it is away until its flip is over. */
static void begin_flip(Simulation *self, Instance *instance) {
  if (instance->drains_for != DRAIN_FLIP) return;
  const Tick left = TICK_MAX - self->now; // of simulated time
  agenda_set(&self->agenda, EVENT_FLIP, instance->ix,
             self->now + (instance->flip_ticks < left ? instance->flip_ticks : left));
  instance->availability = INSTANCE_AWAY;
}

static void handle_flip(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  assert(sim_is_drained(self, instance));
  const Role from = instance->role;
  instance->role = instance->home = instance->flips_to;
  instance->role_since = self->now;
  instance->availability = INSTANCE_UP;
  sim_list(self, instance);
  sim_log(self, OUTCOME_ROLE, NULL, instance->ix, from, instance->role);
  sim_present_books(self)->role_changes++;
  sim_present_books(self)->flips++;
  sim_present_books(self)->flip_ticks += instance->flip_ticks;
  if (instance->n_drains > 0) sim_drain(self, instance, DRAIN_MAINTENANCE);
}

/* --- audit */

/* Loads that were just broadcast are those of this moment. */
static void check_loads(const Simulation *self) {
  for (InstanceIx m = 0; self->event.kind == EVENT_MONITOR && m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    const int64_t unheld = sim_free_blocks(self, instance) + instance->withheld_blocks;
    const InstanceLoad *load = &sim_deployment_of(self, instance)->view.loads[m];
    assert(load->free_blocks == unheld - instance->promised_blocks);
  }
}

/* One that is away for a flip has nothing left. */
static void check_flips(const Simulation *self) {
  uint32_t n = 0;
  for (InstanceIx m = 0; m < self->n_instances; m++) {
    const Instance *instance = &self->instances[m];
    const bool away = instance->availability == INSTANCE_AWAY && !instance->group;
    assert(away == (agenda_find(&self->agenda, EVENT_FLIP, m) != NULL));
    assert(!away || sim_is_drained(self, instance));
    n += away;
  }
  assert(n == self->agenda.n_pending[EVENT_FLIP]);
}

static void check(const Simulation *self) {
  check_loads(self);
  check_flips(self);
}

const Feature feature_monitor = {
    .start = start,
    .handlers = {[EVENT_MONITOR] = handle_monitor, [EVENT_FLIP] = handle_flip},
    .drained = begin_flip,
    .audits = check,
};
