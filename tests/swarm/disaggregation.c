/* Pools of different speeds for one phase. From a stream of their own. */
#include "sim/policies.h"
#include "tests/swarm/draw.h"

/* Of half of the clusters whose router can, but of none that is pinned, which had none. */
void cluster_draw_disaggregation(Cluster *self, const Draw *draw) {
  PolicyChoice *router = &self->config.policies[POLICY_ROUTER];
  const OptionSpec *by_speed = find_option(router->policy, "by_speed");
  const bool pinned = cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER);
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "disaggregation");
  if (pinned || !by_speed || !router->state || one_in(&own, 2)) return;
  char *state = arena_copy(own.arena, router->state, router->policy->state_size);
  *(bool *)(state + by_speed->offset) = true;
  router->state = state;
}
