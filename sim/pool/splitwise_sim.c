/* SplitwiseSim's mixed pool at 8f99e7d: an instance taken across turns to mixed and returns, to the
 * end of its own list, only when it is wholly idle, even while KV for it is still on its way. */
#include "sim/pool/pool.h"

static Role claim(void *state, const ClusterView *view, const Instance *instance, Phase phase) {
  (void)state, (void)view, (void)instance, (void)phase;
  return ROLE_MIXED;
}

static Role review_role(void *state, const ClusterView *view, const Instance *instance, bool idle,
                        Role *ret_home) {
  (void)state, (void)view, (void)ret_home;
  return idle ? instance->home : instance->role;
}

const PoolPolicy pool_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "Reproduces SplitwiseSim's mixed pool: an instance returns to its role only "
                       "when it is idle."},
    .moves_roles = true,
    .claim = claim,
    .review_role = review_role,
};
