/* See draining.h. */
#include "sim/core/draining.h"
#include "sim/core/front.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/roles.h"
#include <assert.h>

bool sim_is_drained(const Simulation *self, const Instance *instance) {
  return column_at(self->columns.n_assigned, instance->ix) == 0 &&
         column_at(self->columns.n_present, instance->ix) == 0 && instance->n_outgoing == 0;
}

void sim_drain(Simulation *self, Instance *instance, Drain purpose) {
  assert(instance->availability == INSTANCE_UP && instance->listed);
  if (instance->loop->cut) instance->loop->cut(self, instance);
  instance->availability = INSTANCE_DRAINS;
  instance->drains_for = purpose;
  self->n_down += instance_is_out(instance);
  sim_unlist(self, instance);
  sim_mark(self, instance, MARK_DRAIN);
}

void sim_leave_drained(Simulation *self, Instance *instance) {
  if (instance->availability != INSTANCE_DRAINS || !sim_is_drained(self, instance)) return;
  if (instance->drains_for != DRAIN_FLIP && instance->activity != ACTIVITY_IDLE)
    return; // it goes with the end of its iteration
  tell_drained(self, instance);
}

void sim_stop_draining(Simulation *self, Instance *instance) {
  assert(instance->availability == INSTANCE_DRAINS && instance->drains_for != DRAIN_FLIP);
  self->n_down -= instance_is_out(instance);
  instance->availability = INSTANCE_UP;
  sim_list(self, instance);
  front_open(self, sim_deployment_of(self, instance));
}
