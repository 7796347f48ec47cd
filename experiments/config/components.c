/* What requests of each component of a mix have in common. */
#include "experiments/config/config.h"

int config_bind_components(Config *self, Arena *arena, Diag *diag) {
  (void)diag;
  const WorkloadConfig *workload = &self->workload;
  ComponentSpec *components = ARENA_ARRAY(arena, ComponentSpec, (size_t)workload->n_components);
  for (int i = 0; i < workload->n_components; i++)
    components[i] = (ComponentSpec){.name = workload->components[i].name};
  self->sim.components = components;
  self->sim.n_components = (uint32_t)workload->n_components;
  return 0;
}
