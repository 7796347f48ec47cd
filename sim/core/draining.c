/* See draining.h. */
#include "sim/core/draining.h"
#include "sim/core/front.h"
#include "sim/core/marks.h"
#include "sim/core/roles.h"
#include <assert.h>

bool sim_is_drained(const Simulation *self, const Machine *machine) {
  return column_at(self->columns.n_assigned, machine->ix) == 0 &&
         column_at(self->columns.n_present, machine->ix) == 0 && machine->n_outgoing == 0;
}

void sim_drain(Simulation *self, Machine *machine, Drain purpose) {
  assert(machine->availability == MACHINE_UP && machine->listed);
  machine->availability = MACHINE_DRAINS;
  machine->drains_for = purpose;
  self->n_down += machine_is_out(machine);
  sim_unlist(self, machine);
  sim_mark(self, machine, MARK_DRAIN);
}

void sim_leave_drained(Simulation *self, Machine *machine) {
  if (machine->availability != MACHINE_DRAINS || !sim_is_drained(self, machine)) return;
  if (machine->drains_for != DRAIN_FLIP && machine->activity != ACTIVITY_IDLE)
    return; // it goes with the end of its iteration
  tell_drained(self, machine);
}

void sim_stop_draining(Simulation *self, Machine *machine) {
  assert(machine->availability == MACHINE_DRAINS && machine->drains_for != DRAIN_FLIP);
  self->n_down -= machine_is_out(machine);
  machine->availability = MACHINE_UP;
  sim_list(self, machine);
  front_open(self, sim_deployment_of(self, machine));
}
