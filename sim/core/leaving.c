/* See leaving.h. */
#include "sim/core/leaving.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/moving.h"
#include "sim/core/scheduler.h"

/* Whether it is in the batch of an iteration in progress. */
static bool is_computed(const Machine *machine) {
  return machine->activity == ACTIVITY_DECODE ||
         (machine->activity == ACTIVITY_PREFILL && machine_decodes(machine));
}

static void leave_batch(Simulation *self, RequestIx ix) {
  Machine *machine = &self->machines[self->requests.slots[ix].decode_machine];
  if (!is_computed(machine)) {
    life_left_early(self, ix, 0);
    return;
  }
  request_queue_push(&machine->leaving, self->requests.slots, ix);
  sim_mark(self, machine, MARK_BEGIN);
}

static void leave_steps(Simulation *self, RequestIx ix) {
  Machine *machine = &self->machines[life_machine(self, &self->requests.slots[ix])];
  if (machine->activity == ACTIVITY_IDLE) {
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    return;
  }
  machine->scheduler->n_leaving++;
  sim_mark(self, machine, MARK_BEGIN);
}

/* Out of a group or into it: as the copy ends. */
static void leave_links(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  if (self->machines[request->prefill_machine].group)
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
