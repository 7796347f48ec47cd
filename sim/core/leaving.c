/* See leaving.h. */
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/loop.h"
#include "sim/core/moving.h"

static void leave_iteration(Simulation *self, RequestIx ix) {
  Instance *instance = &self->instances[life_instance(self, &self->requests.slots[ix])];
  instance->loop->leave(self, instance, ix);
}

/* Whether a scheduler has it among those that wait: it hears of it between two steps. */
static bool waits_for_scheduler(const Simulation *self, const Request *request) {
  if (request->state != REQUEST_WAITS_PREFILL && request->state != REQUEST_WAITS_DECODE)
    return false;
  return self->instances[life_instance(self, request)].loop->decides_ahead;
}

/* Out of a group or into it: as the copy ends. */
static void leave_links(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (self->instances[request->prefill_instance].group)
    tell_group_copy_leaves(self, ix);
  else if (sim_abandon_transfer(self, ix, request->lost))
    life_left_early(self, ix, 0);
}

void sim_leave(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  switch (request_states[request->state].leaves) {
  case LEAVES_AT_ONCE:
    if (waits_for_scheduler(self, request)) {
      leave_iteration(self, ix);
      break;
    }
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    break;
  case LEAVES_WITH_CHUNK:
    break; // as that ends
  case LEAVES_WITH_ITERATION:
    leave_iteration(self, ix);
    break;
  case LEAVES_WITH_KV:
    leave_links(self, ix);
    break;
  }
}
