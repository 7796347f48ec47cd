/* Attention ranks in lockstep. From a stream of their own. */
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"

static bool may_have_ranks(const Cluster *self, const PoolSpec *pool) {
  const PolicyChoice batcher = sim_pool_policy(&self->config, pool, POLICY_BATCHER);
  const Batcher *policy = (const Batcher *)batcher.policy;
  return policy->has_ranks && policy->has_ranks(batcher.state) && pool->pipeline_stages == 1;
}

/* Of a third of the clusters whose instances keep their roles. */
void cluster_draw_ranks(Cluster *self, const Draw *draw) {
  const Policy *roles = self->config.policies[POLICY_POOL].policy;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "ranks");
  if (!one_in(&own, 3) || roles != policy_list(POLICY_POOL)[0]) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    if (!may_have_ranks(self, pool) || one_in(&own, 3)) continue;
    pool->ranks = between(&own, 2, 4);
    pool->count *= (uint32_t)pool->ranks;
    self->exact = false; // an engine publishes and sleeps by a clock of its own
  }
}
