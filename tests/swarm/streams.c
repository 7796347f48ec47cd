/* What clusters have beyond pools, policies and requests. Each of these draws from a stream of its
 * own, so that a new one, the last of the list, changes none of the others. */
#include "sim/policies.h"
#include "tests/swarm/draw.h"

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

void cluster_draw_streams(Cluster *self, const Draw *draw) {
  cluster_draw_pauses(self, draw);
  cluster_draw_speculation(self, draw);
  cluster_draw_layers(self, draw);
  cluster_draw_connectors(self, draw);
  cluster_draw_images(self, draw);
  cluster_draw_tiers(self, draw);
  cluster_draw_domains(self, draw);
  cluster_draw_pinned(self, draw);
}
