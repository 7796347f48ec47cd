/* Pauses of schedulers. From a stream of their own. */
#include "sim/batcher/batcher.h"
#include "tests/swarm/draw.h"
#include <stdlib.h>

static int by_time(const void *a, const void *b) {
  const PauseSpec *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->pool < y->pool ? -1 : x->pool > y->pool;
}

/* Of a third of the clusters: every pool goes on in the end. */
void cluster_draw_pauses(Cluster *self, const Draw *draw) {
  enum { PAUSES = 4 };
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "pauses");
  if (!one_in(&own, 3)) return;
  PauseSpec *pauses = ARENA_ARRAY(own.arena, PauseSpec, config->n_pools * PAUSES * 2);
  const int64_t most = magnitude(&own, 10, 5000);
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PolicyChoice batcher = sim_pool_policy(config, &config->pools[p], POLICY_BATCHER);
    if (!((const Batcher *)batcher.policy)->pauses) continue;
    Tick at = 0;
    for (int64_t n = between(&own, 1, PAUSES); n > 0; n--) {
      at += ticks(&own, most);
      const PauseMode mode = one_in(&own, 2) ? PAUSE_ALL : PAUSE_NEW;
      pauses[config->n_pauses++] =
          (PauseSpec){.at = at, .pool = p, .mode = mode, .reset = one_in(&own, 2)};
      at += ticks(&own, most);
      pauses[config->n_pauses++] = (PauseSpec){.at = at, .pool = p};
    }
  }
  if (config->n_pauses > 0) qsort(pauses, config->n_pauses, sizeof *pauses, by_time);
  config->pauses = pauses;
}
