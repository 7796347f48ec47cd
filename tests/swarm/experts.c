/* Loads of experts of ranks in lockstep, their rearrangements, and batches that are cut in two.
 * From streams of their own. */
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"

/* Two to four GPUs, a few experts on each and a copy or two. */
static const ExpertSpec *draw_spec(Draw *self, int64_t gpus) {
  ExpertSpec *spec = ARENA_NEW(self->arena, ExpertSpec);
  const int64_t slots = gpus * between(self, 1, 4), experts = between(self, (slots + 1) / 2, slots);
  const bool drifts = one_in(self, 2), nodes = one_in(self, 2), grouped = one_in(self, 2);
  spec->load = (ExpertLoadSpec){.n_layers = (int32_t)between(self, 1, 3),
                                .n_experts = (int32_t)experts,
                                .exponent = 2 * rng_uniform(&self->rng)};
  if (drifts) spec->load.drift_interval = TICKS_PER_SECOND * self->scale + ticks(self, 1000);
  spec->load.n_drifting = (int32_t)between(self, 0, experts);
  spec->shape = (EplbShape){.n_experts = (int32_t)experts,
                            .n_slots = (int32_t)slots,
                            .n_gpus = (int32_t)gpus,
                            .n_nodes = nodes ? (int32_t)gpus : 1,
                            .n_groups = grouped && experts % gpus == 0 ? (int32_t)gpus : 1};
  spec->step_interval = one_in(self, 4) ? 0 : magnitude(self, 1, 100);
  spec->first_step = magnitude(self, 1, 100);
  spec->window_size = magnitude(self, 1, 100);
  spec->use_async = one_in(self, 2);
  spec->rearrange_time = ticks_or_zero(self, 10);
  spec->expert_bytes = magnitude(self, 1, 1000000) * self->scale;
  spec->node_rate = magnitude(self, 1000000, 1000000000);
  spec->wide_rate = magnitude(self, 1000000, 1000000000);
  return spec;
}

/* Up to 10 us a token. */
static void draw_times(Draw *self, PerfModel *model) {
  const double each = tick_seconds(ticks(self, 10)) / 1000;
  const PwlKnot knots[] = {{0, 0}, {1000, 1000 * each}};
  pwl_init(&model->experts, knots, 2, false, self->arena);
  model->busiest = 1 + rng_uniform(&self->rng);
}

/* Of half of the pools with ranks. */
void cluster_draw_experts(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "experts");
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    if (pool->ranks <= 1 || self->models[p].form != PERF_COMPOSED || one_in(&own, 2)) continue;
    draw_times(&own, &self->models[p]);
    pool->experts = draw_spec(&own, pool->ranks);
  }
}

/* Of a third of the pools with ranks, which cut the batch of a step in two. */
void cluster_draw_two_batches(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "two batches");
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    if (pool->ranks <= 1 || self->models[p].form != PERF_COMPOSED || !one_in(&own, 3)) continue;
    const double each = tick_seconds(ticks(&own, 10)) / 1000;
    const PwlKnot knots[] = {{0, 0}, {1000, 1000 * each}};
    pwl_init(&self->models[p].communication, knots, 2, false, own.arena);
    pool->two_batches = true;
  }
}

/* --- ranks that fail alone */

static bool may_shrink(const Cluster *self, uint32_t p) {
  const PoolSpec *pool = &self->pools[p];
  const PolicyChoice choice = sim_pool_policy(&self->config, pool, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  return pool->ranks > 1 && self->models[p].form == PERF_COMPOSED && pool->scaling.max == 0 &&
         self->config.n_groups == 0 && batcher->schedules(choice.state).one_round;
}

/* Each rank of the pool, whose first is `first`, fails now and then, but not so often that all of
 * them hardly ever come up. */
static void add_sources(SimConfig *config, Draw *own, const PoolSpec *pool, uint32_t first,
                        FaultSource *faults) {
  const Tick start = pool_start_ticks(pool) + pool->rank_recovery + pool->rank_rejoin;
  const Tick up = own->scale * ticks(own, 20000) + 8 * pool->count * start;
  Tick down = own->scale * ticks(own, 5000);
  if (down > 8 * up) down = 8 * up; // else four that need each other are hardly ever up at once
  for (uint32_t i = 0; i < pool->count; i++)
    faults[config->n_faults++] =
        (FaultSource){.kind = FAULT_FAIL,
                      .first = first + i,
                      .n_instances = 1,
                      .up = {LIFETIME_EXPONENTIAL, tick_seconds(up), 0},
                      .down = {LIFETIME_EXPONENTIAL, tick_seconds(down), 0}};
}

/* Of most of the pools whose ranks may; none of those whose outcomes were pinned before. */
void cluster_draw_shrinking(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "shrinking");
  if (cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  uint32_t n_instances = 0, first = 0;
  for (uint32_t p = 0; p < config->n_pools; p++)
    n_instances += config->pools[p].count;
  FaultSource *faults = ARENA_ARRAY(own.arena, FaultSource, config->n_faults + n_instances);
  for (uint32_t i = 0; i < config->n_faults; i++)
    faults[i] = config->faults[i];
  bool any = false;
  for (uint32_t p = 0; p < config->n_pools; first += config->pools[p++].count) {
    PoolSpec *pool = &self->pools[p];
    if (!may_shrink(self, p) || one_in(&own, 4)) continue;
    any = pool->shrinks = true;
    if (!pool->experts) {
      draw_times(&own, &self->models[p]);
      pool->experts = draw_spec(&own, pool->ranks);
    }
    pool->rank_recovery = ticks_or_zero(&own, 1000);
    pool->rank_rejoin = ticks_or_zero(&own, 1000);
    add_sources(config, &own, pool, first, faults);
  }
  if (!any) return;
  for (uint32_t i = 0; i < config->n_faults; i++)
    if (faults[i].kind == FAULT_DRAIN) faults[i].kind = FAULT_FAIL;
  config->faults = faults;
  if (config->retry.limit == 0) config->retry.limit = between(&own, 0, 4);
  self->exact = false;
}
