/* Power of GPUs, with limits that bind and such that do not; times stay as they were drawn. From a
 * stream of their own. */
#include "perfmodel/power.h"
#include "tests/swarm/draw.h"

static const PowerModel *draw_power(Draw *self, const PerfModel *model) {
  PowerModel *power = ARENA_NEW(self->arena, PowerModel);
  const double limit = (double)between(self, 70, 1400);
  const double memory = limit * (double)between(self, 30, 100) / 100;
  power_by_batch(power, model, limit, memory);
  if (one_in(self, 2)) power_limit(power, limit * (double)between(self, 28, 100) / 100);
  return power;
}

/* Whether the energy of each hour is asked for. From a stream of its own too. */
static bool draw_metering(const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "metering");
  return one_in(&own, 2);
}

/* Of half of the clusters. */
void cluster_draw_powers(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  self->config.meters_hours = draw_metering(draw);
  rng_init(&own.rng, draw->seed, "power");
  if (!one_in(&own, 2)) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    self->models[p].power = draw_power(&own, &self->models[p]);
    pool->gpus = (double)between(&own, 1, 8);
    pool->rest_power = (double)between(&own, 0, 4000);
  }
}
