/* Pools that speculate. From a stream of their own. */
#include "sim/batcher/batcher.h"
#include "tests/swarm/draw.h"
#include <string.h>

static const char *draw_speculation(Draw *self) {
  static const char *const methods[] = {"ngram", "draft_model", "eagle"};
  const char *method = methods[between(self, 0, 2)];
  const int64_t n = magnitude(self, 1, 16);
  const double length =
      one_in(self, 4) ? (double)between(self, 1, 1 + n) : 1 + (double)n * rng_uniform(&self->rng);
  const char *time = strcmp(method, "draft_model") == 0 || one_in(self, 3)
                         ? arena_printf(self->arena, ", drafter_time: %lld us",
                                        (long long)(between(self, 0, 2000) * self->scale))
                         : "";
  return arena_printf(self->arena,
                      "{method: %s, num_speculative_tokens: %lld, acceptance: %.17g%s}", method,
                      (long long)n, length, time);
}

/* Of a third of the clusters, the pools that can. */
void cluster_draw_speculation(Cluster *self, const Draw *draw) {
  const SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "speculation");
  if (!one_in(&own, 3)) return;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
    const OptionSpec *option = find_option(batcher.policy, "speculative");
    if (!option || pool->perfmodel->form != PERF_COMPOSED || pool->pipeline_stages > 1) continue;
    draw_batcher_option(&own, config, pool, option, draw_speculation(&own));
    self->exact = false; // what a draft adds is rounded
  }
}
