/* Pools whose scheduler has a proposal. From a stream of their own. */
#include "base/yaml.h"
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

static const Node *draw_node(Draw *self, Diag *diag) {
  size_t n = 0;
  const Proposal *const *list = proposal_list();
  while (list[n])
    n++;
  const int64_t i = between(self, 0, (int64_t)n - 1);
  const char *text = draw_text(self, list[i]->policy.name);
  return yaml_parse("drawn", text, strlen(text), self->arena, diag);
}

/* What its pool has, with a proposal; as it was if they exclude each other. */
static PolicyChoice proposing(Draw *self, PolicyChoice batcher, const OptionSpec *option,
                              const PoolSpec *pool) {
  const Policy *policy = batcher.policy;
  void *state = arena_copy(self->arena, batcher.state, policy->state_size);
  const char *key;
  Diag diag;
  diag_init(&diag);
  *(const Node **)((char *)state + option->offset) = draw_node(self, &diag);
  const bool good = policy->check(state, NULL, place_of_file("drawn"), self->arena, &diag) == 0 &&
                    !((const Batcher *)policy)->refuse(state, pool, self->arena, &key);
  diag_done(&diag);
  return good ? (PolicyChoice){.policy = policy, .state = state} : batcher;
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
    if (option) pool->batcher = proposing(&own, batcher, option, pool);
  }
}
