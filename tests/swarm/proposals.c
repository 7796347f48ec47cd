/* Pools whose scheduler has a proposal. From a stream of their own. */
#include "sim/proposal/proposal.h"
#include "tests/swarm/draw.h"
#include <string.h>

static const char *draw_text(Draw *self, const char *name) {
  const long long a = (long long)magnitude(self, 1, 4096);
  const long long b = (long long)magnitude(self, 1, 64);
  if (strcmp(name, "sjf") == 0)
    return arena_printf(self->arena, "{name: sjf, length_median: %lld, time_median: %lld ms}", a,
                        b * self->scale);
  if (strcmp(name, "residual_sjf") == 0)
    return arena_printf(self->arena, "{name: residual_sjf, max_wait: %lld ms}",
                        (a - 1) * self->scale);
  if (strcmp(name, "prefill_limits") == 0)
    return arena_printf(self->arena,
                        "{name: prefill_limits, max_prefill_tokens_per_step: %lld, "
                        "max_concurrent_prefills: %lld}",
                        a - 1, b - 1);
  return name;
}

static const char *draw_proposal(Draw *self) {
  size_t n = 0;
  const Proposal *const *list = proposal_list();
  while (list[n])
    n++;
  const int64_t i = between(self, 0, (int64_t)n - 1);
  return draw_text(self, list[i]->policy.name);
}

/* Of a third of the clusters, the pools that can. */
void cluster_draw_proposals(Cluster *self, const Draw *draw) {
  const SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "proposals");
  if (!one_in(&own, 3)) return;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
    const OptionSpec *option = find_option(batcher.policy, "proposal");
    if (option) draw_batcher_option(&own, config, pool, option, draw_proposal(&own));
  }
}
