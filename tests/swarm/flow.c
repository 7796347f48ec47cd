/* Requests that go on elsewhere as they run: decodes that flow between two pools, and requests that
 * are cut in two. Each from a stream of its own. */
#include "sim/batcher/batcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "sim/router/router.h"
#include "tests/swarm/draw.h"

static bool pool_may(const SimConfig *config, const PoolSpec *pool) {
  const Batcher *batcher = (const Batcher *)sim_pool_policy(config, pool, POLICY_BATCHER).policy;
  const KvTier *tier = (const KvTier *)sim_pool_policy(config, pool, POLICY_KVTIER).policy;
  return !batcher->schedules && !batcher->finish && !kvtier_moves(tier) &&
         pool->pipeline_stages <= 1 && pool->attention_ranks <= 1 && pool->ranks <= 1 &&
         pool->scaling.max == 0;
}

static bool run_may(const SimConfig *config) {
  const Router *router = (const Router *)config->policies[POLICY_ROUTER].policy;
  return config->n_groups == 0 && config->n_faults == 0 && config->hedge.after == 0 &&
         config->checkpoint.bandwidth == 0 && config->sleep.awake == 0 && !router->observe &&
         config->policies[POLICY_POOL].policy == policy_list(POLICY_POOL)[0];
}

/* In half of the clusters that may, from one pool that may to the next of its model. */
static void draw_flow(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "flow");
  const bool pinned = cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER);
  if (!run_may(config) || (!draw->rule && (pinned || one_in(&own, 2)))) return;
  const bool back = one_in(&own, 2);
  FlowOptions flow = {.share = 1};
  flow.watermark = (double)between(&own, 1, 100) / 100;
  flow.review = magnitude(&own, 1, 100);
  flow.tpot = back ? ticks(&own, 50) : 0;
  const uint32_t n = config->n_pools, from = (uint32_t)between(&own, 0, n - 1);
  flow.from = from;
  for (uint32_t k = 1; k < n; k++) {
    flow.to = (from + k) % n;
    const PoolSpec *a = &config->pools[from], *b = &config->pools[flow.to];
    if (a->model != b->model || !pool_may(config, a) || !pool_may(config, b)) continue;
    config->flow = flow;
    return;
  }
}

/* --- cuts */

static bool pool_may_cut(const SimConfig *config, const PoolSpec *pool) {
  const Batcher *batcher = (const Batcher *)sim_pool_policy(config, pool, POLICY_BATCHER).policy;
  return batcher->goes_on_with_prompts && pool_may(config, pool);
}

static void *option_at(const Policy *policy, void *state, const char *key) {
  return (char *)state + find_option(policy, key)->offset;
}

/* In half of the clusters that may and have no decodes that flow; none that is pinned. */
static void draw_cuts(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  PoolSpec *pools = self->pools;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "cuts");
  if (cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  if (!run_may(config) || config->flow.watermark > 0 || (!draw->rule && one_in(&own, 2))) return;
  if (config->policies[POLICY_DISPATCHER].policy != policy_list(POLICY_DISPATCHER)[0]) return;
  for (uint32_t p = 0; p < config->n_pools; p++)
    if (!pool_may_cut(config, &pools[p])) return;
  const Policy *router = policy_find(POLICY_ROUTER, "dynaserve");
  void *state = arena_alloc(own.arena, router->state_size);
  option_defaults(router->options, state);
  *(int *)option_at(router, state, "cut") = (int)between(&own, 0, 2);
  *(double *)option_at(router, state, "share") = rng_uniform(&own.rng);
  *(int *)option_at(router, state, "estimate") = (int)between(&own, 0, 1);
  *(int64_t *)option_at(router, state, "batch") = magnitude(&own, 1, 256);
  const bool mixed = one_in(&own, 2);
  for (uint32_t p = 0; mixed && p < config->n_pools; p++)
    pools[p].role = ROLE_MIXED;
  config->policies[POLICY_ROUTER] = (PolicyChoice){.policy = router, .state = state};
}

/* --- chunks by a time */

/* In half of the pools that can, if none is pinned. */
static void draw_chunk_times(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "chunk times");
  if (cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PolicyChoice batcher = sim_pool_policy(&self->config, &self->pools[p], POLICY_BATCHER);
    const OptionSpec *tbt = find_option(batcher.policy, "tbt");
    if (!tbt || !batcher.state || one_in(&own, 2)) continue;
    char *state = arena_copy(own.arena, batcher.state, batcher.policy->state_size);
    *(Tick *)(state + tbt->offset) = ticks(&own, 100);
    batcher.state = state;
    self->pools[p].batcher = batcher;
  }
}

void cluster_draw_flow(Cluster *self, const Draw *draw) {
  const Rule *rule = draw->rule;
  if (!rule || rule_has(rule, "flow")) draw_flow(self, draw);
  if (!rule || rule_has(rule, "cuts")) draw_cuts(self, draw);
  if (!rule || rule_has(rule, "cuts")) draw_chunk_times(self, draw);
  const Router *router = (const Router *)self->config.policies[POLICY_ROUTER].policy;
  self->exact &= !router->cuts; // work is rounded
}
