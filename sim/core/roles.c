/* Who plays which role: claims and returns of the mixed pool. */
#include "sim/core/roles.h"
#include "sim/core/counting.h"
#include <assert.h>

void sim_list(Simulation *self, Instance *instance) {
  Deployment *deployment = sim_deployment_of(self, instance);
  deployment->knows_roomiest = false;
  instance->listed = true;
  cluster_join(&deployment->view, instance->ix, instance->role);
}

void sim_unlist(Simulation *self, Instance *instance) {
  Deployment *deployment = sim_deployment_of(self, instance);
  deployment->knows_roomiest = false;
  if (instance->listed) cluster_withdraw(&deployment->view, instance->ix, instance->role);
  instance->listed = false;
}

static void change_role(Simulation *self, Instance *instance, Role role) {
  if (instance->role == role) return;
  sim_log(self, OUTCOME_ROLE, NULL, instance->ix, instance->role, role);
  if (instance->listed)
    cluster_move(&sim_deployment_of(self, instance)->view, instance->ix, instance->role, role);
  instance->role = role;
  instance->role_since = self->now;
  sim_present_books(self)->role_changes++;
}

void sim_claim(Simulation *self, Instance *instance, Phase phase) {
  if (role_covers(instance->role, phase)) return;
  assert(self->pool_policy->moves_roles); // a router may not place across roles that stay
  Deployment *deployment = sim_deployment_of(self, instance);
  Role role = self->pool_policy->claim(deployment->pool_state, sim_cluster(self, deployment),
                                       instance, phase);
  assert(role_covers(role, phase));
  change_role(self, instance, role);
}

void sim_review_role(Simulation *self, Instance *instance) {
  if (!self->pool_policy->review_role) return;
  Role home = instance->home;
  const bool idle = column_at(self->columns.n_present, instance->ix) == 0;
  Deployment *deployment = sim_deployment_of(self, instance);
  Role role = self->pool_policy->review_role(deployment->pool_state, sim_cluster(self, deployment),
                                             instance, idle, &home);
  if (home != instance->home) deployment->knows_roomiest = false;
  instance->home = home;
  change_role(self, instance, role);
}
