/* Loads of experts of ranks in lockstep, their rearrangements, and batches that are cut in two.
 * From streams of their own. */
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
