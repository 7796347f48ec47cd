/* See draining.h. */
#include "sim/draining.h"
#include "sim/autoscaling.h"
#include "sim/failing.h"
#include "sim/front.h"
#include "sim/marks.h"
#include "sim/roles.h"
#include <assert.h>

bool machine_is_drained(const ClusterView *view, const Machine *machine) {
  return column_at(view->n_assigned, machine->ix) == 0 &&
         column_at(view->n_present, machine->ix) == 0 && machine->n_outgoing == 0;
}

void engine_drain(Engine *self, Machine *machine, Drain purpose) {
  assert(machine->availability == MACHINE_UP && machine->listed);
  machine->availability = MACHINE_DRAINS;
  machine->drains_for = purpose;
  self->knows_roomiest = false;
  self->n_down += machine_is_out(machine);
  cluster_withdraw(&self->view, machine->ix, machine->role);
  machine->listed = false;
  engine_mark(self, machine, MARK_DRAIN);
}

void engine_leave_drained(Engine *self, Machine *machine) {
  if (machine->availability != MACHINE_DRAINS || !machine_is_drained(&self->view, machine)) return;
  if (machine->drains_for == DRAIN_FLIP)
    engine_begin_flip(self, machine);
  else if (machine->activity != ACTIVITY_IDLE)
    return; // it goes with the end of its iteration
  else if (machine->drains_for == DRAIN_STOP)
    engine_turn_off(self, machine);
  else
    engine_begin_maintenance(self, machine);
}

void engine_stop_draining(Engine *self, Machine *machine) {
  assert(machine->availability == MACHINE_DRAINS && machine->drains_for != DRAIN_FLIP);
  self->n_down -= machine_is_out(machine);
  machine->availability = MACHINE_UP;
  self->knows_roomiest = false;
  machine->listed = true;
  cluster_join(&self->view, machine->ix, machine->role);
  front_open(self);
}
