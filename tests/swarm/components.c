/* What a cluster serves, and to whom: models, classes and tenants of components. See draw.h. */
#include "sim/policies.h"
#include "sim/router/router.h"
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

/* Two models, each with some of the pools. */
static void draw_models(Cluster *self, Draw *own) {
  SimConfig *config = &self->config;
  if (config->n_groups > 0 || !one_in(own, 3) || !split(self, own)) return;
  for (int m = 0; m < CLUSTER_MODELS; m++)
    self->specs[m] = (ModelSpec){.name = "drawn",
                                 .max_model_len = one_in(own, 2) ? 0 : magnitude(own, 100, 10000),
                                 .slo_reference = &self->models[m]};
  config->models = self->specs;
  config->n_models = CLUSTER_MODELS;
}

/* Limits that are reached, or are not. */
static void draw_classes(Cluster *self, Draw *own) {
  SimConfig *config = &self->config;
  if (!one_in(own, 3)) return;
  for (int c = 0; c < CLUSTER_CLASSES; c++)
    self->classes[c] =
        (ClassSpec){.name = "drawn",
                    .priority = between(own, 0, 2) * PRIORITY_STEP,
                    .max_in_flight = one_in(own, 3) ? 0 : magnitude(own, 1, 40),
                    .action = one_in(own, 2) ? ADMISSION_QUEUE : (int)between(own, 0, 2),
                    .max_queue = one_in(own, 2) ? -1 : between(own, 0, 20),
                    .output_tokens = (int32_t)magnitude(own, 1, 50)};
  for (int t = 0; t < CLUSTER_TENANTS; t++)
    self->tenants[t] = (TenantSpec){.name = "drawn",
                                    .weight = magnitude(own, 1, 8),
                                    .max_in_flight = one_in(own, 2) ? 0 : magnitude(own, 1, 20),
                                    .token_ticks = ticks_or_zero(own, 10),
                                    .burst = ticks_or_zero(own, 10000)};
  config->classes = self->classes;
  config->n_classes = CLUSTER_CLASSES;
  config->tenants = self->tenants;
  config->n_tenants = CLUSTER_TENANTS;
}

void cluster_draw_components(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "components");
  draw_models(self, &own);
  draw_classes(self, &own);
  if (config->n_models + config->n_classes == 0) return;
  for (int i = 0; i < CLUSTER_COMPONENTS; i++)
    self->components[i] =
        (ComponentSpec){.name = "drawn",
                        .model = config->n_models > 0 ? (uint8_t)(i % CLUSTER_MODELS) : 0,
                        .class = (uint8_t)between(&own, 0, CLUSTER_CLASSES - 1),
                        .tenant = (uint8_t)between(&own, 0, CLUSTER_TENANTS - 1)};
  config->components = self->components;
  config->n_components = CLUSTER_COMPONENTS;
  TraceRow *rows = (TraceRow *)self->workload.rows;
  for (int i = 0; i < self->workload.n_rows; i++)
    rows[i].component = (uint16_t)between(&own, 0, CLUSTER_COMPONENTS - 1);
}

static GoodputLimits draw_limits(Draw *own) {
  const Tick ttft = ticks_or_zero(own, 1000), tpot = ticks_or_zero(own, 100);
  return (GoodputLimits){.ttft = ttft, .tpot = tpot, .e2e = ticks_or_zero(own, 5000)};
}

void cluster_draw_limits(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "limits");
  SimConfig *config = &self->config;
  const uint32_t n = config->n_components + config->n_classes;
  if (draw->rule || cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  config->good_limits = draw_limits(&own);
  if (config->n_components == 0) return;
  for (uint32_t i = 0; i < n; i++) {
    self->good_limits[i] = draw_limits(&own);
    const GoodputLimits *limits = one_in(&own, 2) ? &self->good_limits[i] : NULL;
    if (i < config->n_components)
      self->components[i].good_limits = limits;
    else
      self->classes[i - config->n_components].good_limits = limits;
    if (one_in(&own, 2)) self->ranged[config->n_ranged_components++] = 1 + i;
  }
  config->ranged_components = self->ranged;
  config->keeps_batches = one_in(&own, 2);
}

/* In one of three clusters, but not in those that are pinned, which had none. */
void cluster_draw_early_rejection(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "early rejection");
  SimConfig *config = &self->config;
  if (config->hedge.after > 0 || config->n_groups > 0 ||
      cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER))
    return;
  if (!draw->rule && !one_in(&own, 3)) return;
  const Tick ttft = magnitude(&own, 5, 5000), tbt = magnitude(&own, 5, 500);
  const Tick decode_time = magnitude(&own, 1, 3000);
  config->early_rejection =
      (EarlyRejectionOptions){.ttft = ttft * MILLISECOND * own.scale,
                              .tbt = tbt * MILLISECOND * own.scale,
                              .predicts = one_in(&own, 2),
                              .decode_time = decode_time * MILLISECOND * own.scale};
  self->exact = false; // loads are rounded
}

/* In one of three clusters whose router goes by loads; likewise. */
void cluster_draw_reports(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "reports");
  SimConfig *config = &self->config;
  if (!((const Router *)config->policies[POLICY_ROUTER].policy)->reads_loads ||
      cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER))
    return;
  if (!draw->rule && !one_in(&own, 3)) return;
  config->report_interval = ticks(&own, 1000);
  const int64_t intervals = between(&own, 0, 4);
  config->report_delay = config->report_interval / 2 * intervals;
  config->report_leaves_sent = one_in(&own, 2);
}
