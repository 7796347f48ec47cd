/* Links that instances share above their NICs, of up to two kinds of switches. From a stream of its
 * own. */
#include "sim/policies.h"
#include "tests/swarm/draw.h"

enum { SWITCHES = 4 }; // of a kind

/* The shares of an instance on the switches from `first` on. */
static uint32_t draw_shares(Draw *own, UplinkShare *shares, uint32_t first, int64_t n) {
  if (one_in(own, 2)) { // it lies on one
    shares[0] = (UplinkShare){first + (uint32_t)between(own, 0, n - 1), 1};
    return 1;
  }
  int64_t weights[SWITCHES], sum = 0;
  for (int64_t s = 0; s < n; s++)
    sum += weights[s] = between(own, 1, 8);
  for (int64_t s = 0; s < n; s++)
    shares[s] = (UplinkShare){first + (uint32_t)s, (double)weights[s] / (double)sum};
  return (uint32_t)n;
}

void cluster_draw_uplinks(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "uplinks");
  const bool pinned = cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER);
  if (config->n_groups > 0 || (!draw->rule && (pinned || !one_in(&own, 3)))) return;
  const int64_t n_kinds = between(&own, 1, 2);
  int64_t n_switches[2];
  Uplinks *uplinks = &config->uplinks;
  for (int64_t k = 0; k < n_kinds; k++)
    uplinks->n += (uint32_t)(n_switches[k] = between(&own, 1, SWITCHES));
  for (uint32_t p = 0; p < config->n_pools; p++)
    uplinks->n_instances += config->pools[p].count;
  int64_t rate = config->network_bandwidth;
  if (rate == 0 || rate > config->pools[0].nic_bandwidth) rate = config->pools[0].nic_bandwidth;
  int64_t *bandwidth = ARENA_ARRAY(own.arena, int64_t, uplinks->n);
  for (uint32_t u = 0; u < uplinks->n; u++)
    bandwidth[u] = 1 + rate / between(&own, 1, 8);
  uint32_t *first = ARENA_ARRAY(own.arena, uint32_t, uplinks->n_instances + 1);
  UplinkShare *shares =
      ARENA_ARRAY(own.arena, UplinkShare, (size_t)uplinks->n_instances * 2 * SWITCHES);
  for (uint32_t i = 0; i < uplinks->n_instances; i++) {
    uint32_t n = first[i], begin = 0;
    for (int64_t k = 0; k < n_kinds; begin += (uint32_t)n_switches[k++])
      n += draw_shares(&own, &shares[n], begin, n_switches[k]);
    first[i + 1] = n;
  }
  uplinks->bandwidth = bandwidth;
  uplinks->first = first;
  uplinks->shares = shares;
}
