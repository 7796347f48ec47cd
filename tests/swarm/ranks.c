/* Attention ranks in lockstep. From a stream of their own. */
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"

static bool may_have_ranks(const Cluster *self, const PoolSpec *pool) {
  const PolicyChoice batcher = sim_pool_policy(&self->config, pool, POLICY_BATCHER);
  const Batcher *policy = (const Batcher *)batcher.policy;
  return policy->has_ranks && policy->has_ranks(batcher.state) && pool->pipeline_stages == 1;
}

/* What its pool has, with ranks that decide together and wait for each other. */
static PolicyChoice waiting(Draw *self, PolicyChoice batcher) {
  static const char *const keys[] = {"attention_dp_timeout_iters",
                                     "attention_dp_batching_wait_iters"};
  const Policy *policy = batcher.policy;
  char *state = arena_copy(self->arena, batcher.state, policy->state_size);
  const OptionSpec *ranks = find_option(policy, "rank_scheduling");
  for (int i = 0; ranks->choices[i]; i++)
    if (strcmp(ranks->choices[i], "together") == 0) *(int *)(state + ranks->offset) = i;
  for (int i = 0; i < 2; i++)
    *(int64_t *)(state + find_option(policy, keys[i])->offset) = magnitude(self, 1, 100);
  return (PolicyChoice){.policy = policy, .state = state};
}

/* Of half of the pools with ranks that may. */
static void draw_waits(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "waiting ranks");
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const PolicyChoice batcher = sim_pool_policy(&self->config, pool, POLICY_BATCHER);
    if (pool->ranks <= 1 || !find_option(batcher.policy, "attention_dp_timeout_iters")) continue;
    if (one_in(&own, 2)) pool->batcher = waiting(&own, batcher);
  }
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
  draw_waits(self, draw);
}
