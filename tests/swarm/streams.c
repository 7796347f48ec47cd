/* What clusters have beyond pools, policies and requests. Each of these draws from a stream of its
 * own, so that a new one, the last of the list, changes none of the others. */
#include "tests/swarm/draw.h"

void cluster_draw_streams(Cluster *self, const Draw *draw) {
  cluster_draw_pauses(self, draw);
  cluster_draw_speculation(self, draw);
  cluster_draw_layers(self, draw);
  cluster_draw_connectors(self, draw);
  cluster_draw_images(self, draw);
  cluster_draw_tiers(self, draw);
  cluster_draw_domains(self, draw);
  cluster_draw_experts(self, draw);
  cluster_draw_two_batches(self, draw);
}
