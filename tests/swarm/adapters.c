/* Adapters that requests ask for. See draw.h. */
#include "sim/batcher/batcher.h"
#include "tests/swarm/draw.h"

/* Components that ask for no adapter tell requests apart where models do not. */
static void draw_components(Cluster *self, Draw *own) {
  SimConfig *config = &self->config;
  if (config->n_components > 0) return;
  TraceRow *rows = (TraceRow *)self->workload.rows;
  for (int i = 0; i < self->workload.n_rows; i++)
    rows[i].component = (uint16_t)between(own, 0, CLUSTER_COMPONENTS - 1);
  for (int i = 0; i < CLUSTER_COMPONENTS; i++)
    self->components[i] = (ComponentSpec){.name = "drawn"};
  config->components = self->components;
  config->n_components = CLUSTER_COMPONENTS;
}

void cluster_draw_adapters(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "adapters");
  const Batcher *batcher = (const Batcher *)config->policies[POLICY_BATCHER].policy;
  if (!batcher->passes_adapters || !one_in(&own, 2)) return;
  for (uint32_t p = 0; p < config->n_pools; p++)
    if (self->pools[p].pipeline_stages > 1 || self->pools[p].ranks > 1) return; // 'lora' is refused
  draw_components(self, &own);
  for (uint32_t i = 0; i < CLUSTER_MODELS; i++) {
    const uint32_t count = (uint32_t)magnitude(&own, 1, 40);
    const double zipf = one_in(&own, 2) ? 0 : rng_uniform(&own.rng) * 2;
    self->adapters[i] = (AdapterSet){
        .name = "drawn", .count = count, .zipf = zipf, .bytes = magnitude(&own, 1, 100000)};
  }
  for (uint32_t i = 0; i < CLUSTER_COMPONENTS; i++)
    if (!one_in(&own, 4)) self->components[i].adapters = 1 + i % CLUSTER_MODELS;
  config->adapters = self->adapters;
  config->n_adapters = CLUSTER_MODELS;
  self->exact = false;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    AdapterRoom *room = &self->pools[p].adapters;
    room->max_loras = between(&own, 1, 4);
    room->max_cpu_loras = room->max_loras + (one_in(&own, 2) ? 0 : between(&own, 0, 10));
    room->load_bandwidth = magnitude(&own, 10000, 1000000000);
  }
}
