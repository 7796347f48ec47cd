/* See marks.h. */
#include "sim/core/marks.h"

void sim_mark_idle(Simulation *self, const Group *group) {
  for (uint32_t i = 0; i < group->n_machines[group->shape]; i++) {
    Machine *machine = &self->machines[group->first[group->shape] + i];
    if (machine->activity == ACTIVITY_IDLE) sim_mark(self, machine, MARK_BEGIN);
  }
}
