/* Which role a machine plays, and when that changes. */
#ifndef SIM_POOL_POOL_H
#define SIM_POOL_POOL_H
#include "sim/cluster.h"
#include "sim/policy.h"

typedef struct PoolPolicy {
  Policy policy;
  bool moves_roles; // a router may place a phase on a machine of the opposite role
  /* A machine was given a phase its role does not cover: the role it takes. Required when
   * moves_roles. */
  Role (*claim)(void *state, const ClusterView *view, const Machine *machine, Phase phase);
  /* A machine ended an iteration or run: the role it has from now on (and its home, through
   * *ret_home, preset to the present one). Called after its batch has changed; `idle` when it holds
   * no request. Optional: roles then stay. */
  Role (*settle)(void *state, const ClusterView *view, const Machine *machine, bool idle,
                 Role *ret_home);
} PoolPolicy;
#endif
