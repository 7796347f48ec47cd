/* See marks.h. */
#include "sim/core/marks.h"

void sim_mark_idle(Simulation *self, const Group *group) {
  for (uint32_t i = 0; i < group->n_instances[group->shape]; i++) {
    Instance *instance = &self->instances[group->first[group->shape] + i];
    if (instance->activity == ACTIVITY_IDLE) sim_mark(self, instance, MARK_BEGIN);
  }
}
