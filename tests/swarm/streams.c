/* What clusters have beyond pools, policies and requests. Each of these draws from a stream of its
 * own, so that a new one, the last of the list, changes none of the others. */
#include "base/yaml.h"
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"
#include <string.h>

bool draw_batcher_option(const Draw *self, const SimConfig *config, PoolSpec *pool,
                         const OptionSpec *option, const char *text) {
  const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
  const Policy *policy = batcher.policy;
  void *state = arena_copy(self->arena, batcher.state, policy->state_size);
  const char *key;
  Diag diag;
  diag_init(&diag);
  *(const Node **)((char *)state + option->offset) =
      yaml_parse("drawn", text, strlen(text), self->arena, &diag);
  const bool good = !policy->check(state, NULL, place_of_file("drawn"), self->arena, &diag) &&
                    !((const Batcher *)policy)->refuse(state, pool, self->arena, &key);
  if (good) pool->batcher = (PolicyChoice){.policy = policy, .state = state};
  diag_done(&diag);
  return good;
}

/* Half of the groups copy out in two stages, but not in clusters that are pinned, which did not. */
void cluster_draw_pinned(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "pinned");
  if (self->config.n_groups == 0 || one_in(&own, 2) ||
      cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER))
    return;
  self->group.shared_bandwidth = magnitude(&own, 10000, 1000000000);
  self->group.pinned_bytes = one_in(&own, 2) ? 0 : magnitude(&own, 1, 100000000);
}

/* A third of the clusters pay for each layer that they send; likewise. */
void cluster_draw_layer_sync(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "layer sync");
  if (!one_in(&own, 3) || cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER)) return;
  for (uint32_t i = 0; i < self->config.n_pools; i++)
    self->pools[i].kv_layer_sync = ticks_or_zero(&own, 2);
}

void cluster_draw_streams(Cluster *self, const Draw *draw) {
  cluster_draw_pauses(self, draw);
  cluster_draw_speculation(self, draw);
  cluster_draw_layers(self, draw);
  cluster_draw_connectors(self, draw);
  cluster_draw_images(self, draw);
  cluster_draw_tiers(self, draw);
  cluster_draw_powers(self, draw);
  cluster_draw_domains(self, draw);
  cluster_draw_proposals(self, draw);
  cluster_draw_disaggregation(self, draw);
  cluster_draw_pinned(self, draw);
  cluster_draw_layer_sync(self, draw);
  cluster_draw_experts(self, draw);
  cluster_draw_two_batches(self, draw);
  cluster_draw_shrinking(self, draw);
  cluster_draw_hicache(self, draw);
}
