/* Models that a cluster serves. See draw.h. */
#include "tests/swarm/draw.h"

/* Whether the pools that serve `model` do both phases. */
static bool is_served(const Cluster *self, uint32_t model) {
  bool covered[2] = {false, false};
  for (uint32_t p = 0; p < self->config.n_pools; p++)
    for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
      covered[phase] |= self->pools[p].model == model && role_covers(self->pools[p].role, phase);
  return covered[0] && covered[1];
}

static bool split(Cluster *self, Draw *own) {
  enum { TRIES = 4 };
  for (int i = 0; i < TRIES; i++) {
    for (uint32_t p = 0; p < self->config.n_pools; p++)
      self->pools[p].model = (uint32_t)between(own, 0, CLUSTER_MODELS - 1);
    if (is_served(self, 0) && is_served(self, 1)) return true;
  }
  for (uint32_t p = 0; p < self->config.n_pools; p++)
    self->pools[p].model = 0;
  return false;
}

/* Two, each with some of the pools, in a third of the clusters where that is possible. */
void cluster_draw_models(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "models");
  if (config->n_groups > 0 || !one_in(&own, 3) || !split(self, &own)) return;
  for (uint8_t m = 0; m < CLUSTER_MODELS; m++) {
    self->components[m] = (ComponentSpec){.name = "drawn", .model = m};
    self->specs[m] = (ModelSpec){.name = "drawn",
                                 .max_model_len = one_in(&own, 2) ? 0 : magnitude(&own, 100, 10000),
                                 .slo_reference = &self->models[m]};
  }
  config->models = self->specs;
  config->n_models = CLUSTER_MODELS;
  config->components = self->components;
  config->n_components = CLUSTER_MODELS;
  TraceRow *rows = (TraceRow *)self->workload.rows;
  for (int i = 0; i < self->workload.n_rows; i++)
    rows[i].component = (uint16_t)between(&own, 0, CLUSTER_MODELS - 1);
}
