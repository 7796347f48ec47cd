/* Models of a cluster that take turns on the same GPUs. See draw.h. */
#include "sim/policies.h"
#include "tests/swarm/draw.h"

/* One pool for each model, of both phases. */
static bool suits(const Cluster *self) {
  const SimConfig *config = &self->config;
  const uint32_t n_models = config->n_models > 0 ? config->n_models : 1;
  if (config->n_groups > 0 || config->n_pools != n_models ||
      config->policies[POLICY_POOL].policy != policy_list(POLICY_POOL)[0])
    return false;
  for (uint32_t p = 0; p < config->n_pools; p++)
    if (self->pools[p].role != ROLE_MIXED) return false;
  return true;
}

void cluster_draw_mixed(Cluster *self) {
  for (uint32_t p = 0; p < self->config.n_pools && self->config.n_groups == 0; p++)
    self->pools[p].role = ROLE_MIXED;
}

/* In two of three clusters that may, but not in those that are pinned. Nothing fails then, and no
 * scaler is asked. */
void cluster_draw_sleep(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "sleep");
  if (cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER) || !suits(self)) return;
  if (!draw->rule && one_in(&own, 3)) return;
  self->exact = false; // times are of all magnitudes
  config->n_faults = 0;
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->pools[p].shrinks = false;
  config->policies[POLICY_SCALER] = (PolicyChoice){.policy = policy_list(POLICY_SCALER)[0]};
  uint32_t most = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    self->pools[p].lanes = pool_replica_lanes(&self->pools[p]);
    most += pool_machines(&self->pools[p]);
  }
  uint32_t left = (uint32_t)between(&own, 1, most);
  config->sleep = (SleepOptions){.awake = left,
                                 .min_residence = ticks_or_zero(&own, 3000),
                                 .queue = one_in(&own, 2) ? 0 : (double)between(&own, 1, 6)};
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const uint32_t units = pool_machines(pool);
    const uint32_t start = (uint32_t)between(&own, 0, left < units ? left : units);
    pool->scaling = (PoolScaling){.max = units, .start = start};
    pool->sleep_ticks = ticks_or_zero(&own, 2000);
    pool->wake_ticks = ticks_or_zero(&own, 2000);
    left -= start;
  }
}
