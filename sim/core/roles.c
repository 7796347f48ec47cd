/* Who plays which role: claims and returns of the mixed pool, and flips (TetriInfer §3.5), which a
 * pool policy decides whenever loads are broadcast. */
#include "sim/core/roles.h"
#include "sim/core/draining.h"
#include <assert.h>

void engine_list(Engine *self, Machine *machine) {
  Deployment *deployment = engine_deployment_of(self, machine);
  deployment->knows_roomiest = false;
  machine->listed = true;
  cluster_join(&deployment->view, machine->ix, machine->role);
}

void engine_unlist(Engine *self, Machine *machine) {
  Deployment *deployment = engine_deployment_of(self, machine);
  deployment->knows_roomiest = false;
  if (machine->listed) cluster_withdraw(&deployment->view, machine->ix, machine->role);
  machine->listed = false;
}

static void change_role(Engine *self, Machine *machine, Role role) {
  if (machine->role == role) return;
  engine_log(self, OUTCOME_ROLE, NULL, machine->ix, machine->role, role);
  if (machine->listed)
    cluster_move(&engine_deployment_of(self, machine)->view, machine->ix, machine->role, role);
  machine->role = role;
  machine->role_since = self->now;
  engine_present_books(self)->role_changes++;
}

void engine_claim(Engine *self, Machine *machine, Phase phase) {
  if (role_covers(machine->role, phase)) return;
  assert(self->pool_policy->moves_roles); // a router may not place across roles that stay
  Deployment *deployment = engine_deployment_of(self, machine);
  Role role = self->pool_policy->claim(deployment->pool_state, engine_cluster(self, deployment),
                                       machine, phase);
  assert(role_covers(role, phase));
  change_role(self, machine, role);
}

void engine_review_role(Engine *self, Machine *machine) {
  if (!self->pool_policy->review_role) return;
  Role home = machine->home;
  const bool idle = column_at(self->columns.n_present, machine->ix) == 0;
  Deployment *deployment = engine_deployment_of(self, machine);
  Role role = self->pool_policy->review_role(
      deployment->pool_state, engine_cluster(self, deployment), machine, idle, &home);
  if (home != machine->home) deployment->knows_roomiest = false;
  machine->home = home;
  change_role(self, machine, role);
}

/* --- the monitor */

static void broadcast(const Engine *self, ClusterView *view) {
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
static void set_monitor(Engine *self) {
  if (self->config->monitor_interval > TICK_MAX - self->now) return;
  agenda_set(&self->agenda, EVENT_MONITOR, 0, self->now + self->config->monitor_interval);
}

void engine_start_monitor(Engine *self) {
  for (uint32_t d = 0; d < self->n_deployments; d++)
    broadcast(self, &self->deployments[d].view);
  if (!self->dispatcher->reads_loads && !self->pool_policy->watch) return;
  assert(self->config->monitor_interval > 0);
  set_monitor(self);
}

/* --- reports to the router */

/* The last time of a report that is known at `at`. */
static Tick last_known(const Reports *reports, Tick at) {
  const Tick interval = reports->options.interval, made_at = at - reports->options.delay;
  return made_at < 0 ? 0 : made_at / interval * interval;
}

/* All machines report at the same times. */
static void make_reports(Engine *self) {
  for (uint32_t d = 0; d < self->n_deployments; d++)
    reports_make(engine_cluster(self, &self->deployments[d])->reports);
}

void engine_start_reports(Engine *self) {
  if (!self->router->reports) return;
  const ReportOptions *options = self->router->reports(self->deployments[0].router_state);
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    const ClusterView *view = engine_cluster(self, deployment);
    deployment->view.reports = reports_new(options, self->router->needs_caches, view, self->arena);
  }
  if (options->interval == 0) return;
  make_reports(self);
  agenda_set(&self->agenda, EVENT_REPORT, 0, options->interval);
}

/* Nothing is placed before the next event, so a report is left out if a later one is known by then.
 * The event keeps its insertion number: those of others do not hang on how many reports are made.
 */
void engine_handle_report(Engine *self) {
  const Reports *reports = self->deployments[0].view.reports;
  const Tick interval = reports->options.interval;
  const bool last = self->agenda.n_events == 0;
  const Tick wanted = last ? self->now : last_known(reports, agenda_first_at(&self->agenda));
  if (wanted <= self->now && reports->made_at < self->now) make_reports(self);
  if (interval > TICK_MAX - self->now) return; // there is none past the end of simulated time
  const Tick next = wanted > self->now ? wanted : self->now + interval;
  agenda_move(&self->agenda, EVENT_REPORT, 0, next, self->event.seq);
}

void engine_see_reports(Engine *self, Deployment *deployment) {
  Reports *reports = deployment->view.reports;
  if (!reports) return;
  const Tick interval = reports->options.interval;
  if (interval > 0 && self->now % interval == 0 && reports->made_at < self->now) make_reports(self);
  engine_cluster(self, deployment);
  reports_see(reports);
}

/* --- flips */

/* Whether another machine of the role, none of which drains, has as much room. */
static bool has_equal(const Engine *self, const Machine *machine, Role role) {
  const RoleList *list = &engine_deployment_of(self, machine)->view.by_role[role];
  for (uint32_t i = 0; i < list->count; i++) {
    const Machine *other = &self->machines[list->items[i]];
    if (other != machine && machine_room(other) >= machine_room(machine)) return true;
  }
  return false;
}

/* Whether the phases of a machine's role are left without one as roomy when it goes. */
static bool is_last(const Engine *self, const Machine *machine) {
  for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
    if (!role_covers(machine->role, (Phase)phase)) continue;
    bool covered = false;
    for (int role = 0; role < ROLES && !covered; role++)
      covered = role_covers((Role)role, (Phase)phase) && has_equal(self, machine, (Role)role);
    if (!covered) return true;
  }
  return false;
}

static void watch(Engine *self, Deployment *deployment, Machine *machine) {
  Tick ticks = 0;
  const Role role = self->pool_policy->watch(deployment->pool_state,
                                             engine_cluster(self, deployment), machine, &ticks);
  if (role == machine->role || is_last(self, machine)) return;
  assert(0 <= ticks && !self->pool_policy->moves_roles);
  machine->flips_to = role;
  machine->flip_ticks = ticks;
  engine_log(self, OUTCOME_FLIP, NULL, machine->ix, machine->role, role);
  engine_drain(self, machine, DRAIN_FLIP);
}

void engine_handle_monitor(Engine *self) {
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

void engine_begin_flip(Engine *self, Machine *machine) {
  const Tick left = TICK_MAX - self->now; // of simulated time
  agenda_set(&self->agenda, EVENT_FLIP, machine->ix,
             self->now + (machine->flip_ticks < left ? machine->flip_ticks : left));
  machine->availability = MACHINE_AWAY;
  self->n_flips++;
}

void engine_handle_flip(Engine *self, Machine *machine) {
  assert(engine_is_drained(self, machine));
  const Role from = machine->role;
  machine->role = machine->home = machine->flips_to;
  machine->role_since = self->now;
  machine->availability = MACHINE_UP;
  self->n_flips--;
  engine_list(self, machine);
  engine_log(self, OUTCOME_ROLE, NULL, machine->ix, from, machine->role);
  engine_present_books(self)->role_changes++;
  engine_present_books(self)->flips++;
  engine_present_books(self)->flip_ticks += machine->flip_ticks;
  if (machine->n_drains > 0) engine_drain(self, machine, DRAIN_MAINTENANCE);
}
