/* SplitwiseSim's mixed pool at 8f99e7d: a machine taken across turns to mixed and returns, to the
 * end of its own list, only when it is wholly idle, even while KV for it is still on its way. */
#include "sim/pool/pool.h"

static Role claim(void *state, const ClusterView *view, const Machine *machine, Phase phase) {
  (void)state, (void)view, (void)machine, (void)phase;
  return ROLE_MIXED;
}

static Role review_role(void *state, const ClusterView *view, const Machine *machine, bool idle,
                        Role *ret_home) {
  (void)state, (void)view, (void)ret_home;
  return idle ? machine->home : machine->role;
}

const PoolPolicy pool_splitwise_sim = {
    .policy = {.name = "splitwise_sim",
               .help = "mixed pool of SplitwiseSim: instances return only when idle"},
    .moves_roles = true,
    .claim = claim,
    .review_role = review_role,
};
