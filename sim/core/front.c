/* See front.h. */
#include "sim/core/front.h"
#include "sim/core/lifecycle.h"
#include "sim/core/placement.h"

bool front_is_open(const Deployment *deployment) {
  const RoleList *lists = deployment->view.by_role;
  if (lists[ROLE_MIXED].count > 0) return true;
  const uint32_t n_prefill = lists[ROLE_PREFILL].count, n_decode = lists[ROLE_DECODE].count;
  return deployment->view.roles_move ? n_prefill + n_decode > 0 : n_prefill > 0 && n_decode > 0;
}

void front_hold(Simulation *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  life_awaits(self, ix);
  request_queue_push(&sim_deployment(self, &slots[ix])->front, slots, ix);
}

void front_take(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (!front_is_open(sim_deployment(self, request))) {
    front_hold(self, ix);
    return;
  }
  sim_place(self, ix);
  sim_wake_placed(self, ix);
}

void front_open(Simulation *self, Deployment *deployment) {
  while (deployment->front.count > 0 && front_is_open(deployment)) {
    const RequestIx ix = deployment->front.first;
    request_queue_remove(&deployment->front, self->requests.slots, ix);
    sim_place(self, ix);
    sim_wake_placed(self, ix);
  }
}
