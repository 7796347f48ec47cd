/* Who plays which role: claims and returns of the mixed pool. */
#include "sim/core/roles.h"
#include "sim/core/counting.h"
#include <assert.h>

void sim_list(Simulation *self, Machine *machine) {
  Deployment *deployment = sim_deployment_of(self, machine);
  deployment->knows_roomiest = false;
  machine->listed = true;
  cluster_join(&deployment->view, machine->ix, machine->role);
}

void sim_unlist(Simulation *self, Machine *machine) {
  Deployment *deployment = sim_deployment_of(self, machine);
  deployment->knows_roomiest = false;
  if (machine->listed) cluster_withdraw(&deployment->view, machine->ix, machine->role);
  machine->listed = false;
}

static void change_role(Simulation *self, Machine *machine, Role role) {
  if (machine->role == role) return;
  sim_log(self, OUTCOME_ROLE, NULL, machine->ix, machine->role, role);
  if (machine->listed)
    cluster_move(&sim_deployment_of(self, machine)->view, machine->ix, machine->role, role);
  machine->role = role;
  machine->role_since = self->now;
  sim_present_books(self)->role_changes++;
}

void sim_claim(Simulation *self, Machine *machine, Phase phase) {
  if (role_covers(machine->role, phase)) return;
  assert(self->pool_policy->moves_roles); // a router may not place across roles that stay
  Deployment *deployment = sim_deployment_of(self, machine);
  Role role = self->pool_policy->claim(deployment->pool_state, sim_cluster(self, deployment),
                                       machine, phase);
  assert(role_covers(role, phase));
  change_role(self, machine, role);
}

void sim_review_role(Simulation *self, Machine *machine) {
  if (!self->pool_policy->review_role) return;
  Role home = machine->home;
  const bool idle = column_at(self->columns.n_present, machine->ix) == 0;
  Deployment *deployment = sim_deployment_of(self, machine);
  Role role = self->pool_policy->review_role(deployment->pool_state, sim_cluster(self, deployment),
                                             machine, idle, &home);
  if (home != machine->home) deployment->knows_roomiest = false;
  machine->home = home;
  change_role(self, machine, role);
}
