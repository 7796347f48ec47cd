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

void front_hold(Engine *self, RequestIx ix) {
  Request *slots = self->requests.slots;
  life_awaits(self, ix);
  request_queue_push(&engine_deployment(self, &slots[ix])->front, slots, ix);
}

void front_take(Engine *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (!front_is_open(engine_deployment(self, request))) {
    front_hold(self, ix);
    return;
  }
  engine_place(self, ix);
  engine_wake_placed(self, ix);
}

void front_open(Engine *self, Deployment *deployment) {
  while (deployment->front.count > 0 && front_is_open(deployment)) {
    const RequestIx ix = deployment->front.first;
    request_queue_remove(&deployment->front, self->requests.slots, ix);
    engine_place(self, ix);
    engine_wake_placed(self, ix);
  }
}
