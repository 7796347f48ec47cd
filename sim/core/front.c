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

bool front_takes(const Simulation *self, const Request *request) {
  const Deployment *deployment = sim_deployment(self, request);
  return front_is_open(deployment) && (!deployment->wakes || placement_fits(self, request));
}

void front_hold(Simulation *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  life_awaits(self, ix);
  request_queue_push(&sim_deployment(self, &slots[ix])->front, slots, ix);
  tell_came_front(self, ix);
}

void front_take(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (!front_takes(self, request)) {
    front_hold(self, ix);
    return;
  }
  sim_place(self, ix);
  sim_wake_placed(self, ix);
}

/* One that is larger than those that are up stays for a larger one. */
void front_open(Simulation *self, Deployment *deployment) {
  RequestIx next = REQUEST_NONE;
  for (RequestIx ix = deployment->front.first; ix != REQUEST_NONE; ix = next) {
    next = self->requests.slots[ix].next;
    if (!front_is_open(deployment)) return;
    if (!front_takes(self, &self->requests.slots[ix])) continue;
    request_queue_remove(&deployment->front, self->requests.slots, ix);
    sim_place(self, ix);
    sim_wake_placed(self, ix);
  }
}
