/* See leaving.h. */
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/scheduler.h"

/* Whether it is in the batch of an iteration in progress. */
static bool is_computed(const Instance *instance) {
  return instance->activity == ACTIVITY_DECODE ||
         (instance->activity == ACTIVITY_PREFILL && instance_decodes(instance));
}

static void leave_batch(Simulation *self, RequestIx ix) {
  Instance *instance = &self->instances[self->requests.slots[ix].decode_instance];
  if (!is_computed(instance)) {
    life_left_early(self, ix, 0);
    return;
  }
  request_queue_push(&instance->leaving, self->requests.slots, ix);
  sim_mark(self, instance, MARK_BEGIN);
}

static void leave_steps(Simulation *self, RequestIx ix) {
  Instance *instance = &self->instances[life_instance(self, &self->requests.slots[ix])];
  if (instance->activity == ACTIVITY_IDLE) {
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    return;
  }
  instance->scheduler->n_leaving++;
  sim_mark(self, instance, MARK_BEGIN);
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
  switch (request_states[self->requests.slots[ix].state].leaves) {
  case LEAVES_AT_ONCE:
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    break;
  case LEAVES_WITH_CHUNK:
    break; // as that ends
  case LEAVES_WITH_BATCH:
    leave_batch(self, ix);
    break;
  case LEAVES_WITH_STEP:
    leave_steps(self, ix);
    break;
  case LEAVES_WITH_KV:
    leave_links(self, ix);
    break;
  }
}
