/* What requests of each component of a mix have in common, and which model serves them. */
#include "experiments/config/config.h"

static int bind_component(Config *self, const WorkloadComponent *component, ComponentSpec *ret,
                          Diag *diag) {
  const Node *model = component->model;
  if (model && model->kind != NODE_SCALAR)
    return diag_error(diag, model->at, "'model' of a component must be a name of 'models'");
  uint32_t ix;
  if (config_find_model(self, model ? model->at : component->of.at, "a component",
                        model ? model->text : NULL, &ix, diag))
    return -1;
  *ret = (ComponentSpec){.name = component->name, .model = (uint8_t)ix};
  if (!component->adapters) return 0;
  return config_bind_component_adapters(self, component->adapters, ret, diag);
}

/* Machines that nobody asks anything of are no mistake; a workload that names no model is. */
static int check_asked(const Config *self, Diag *diag) {
  if (self->n_models == 1 || self->sim.n_components > 0) return 0;
  diag_error(diag, self->workload.at, "the workload does not name which of %u models it uses",
             self->n_models);
  return diag_hint(diag, "use 'mix' with components, each with its 'model'");
}

int config_bind_components(Config *self, Arena *arena, Diag *diag) {
  const WorkloadConfig *workload = &self->workload;
  const uint32_t n = (uint32_t)workload->n_components;
  ComponentSpec *components = ARENA_ARRAY(arena, ComponentSpec, n);
  int status = 0;
  for (uint32_t i = 0; i < n; i++)
    status |= bind_component(self, &workload->components[i], &components[i], diag);
  self->sim.components = components;
  self->sim.n_components = n;
  return status | check_asked(self, diag);
}
