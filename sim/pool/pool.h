/* Which role an instance plays, and when that changes. */
#ifndef SIM_POOL_POOL_H
#define SIM_POOL_POOL_H
#include "sim/core/cluster.h"
#include "sim/core/group.h"
#include "sim/policy.h"

typedef struct PoolPolicy {
  Policy policy;
  /* The key of an option that asks for more than the `n_split` instances that start as prefill or
   * decode instances; NULL if none does. Optional. */
  const char *(*excess)(const void *state, int64_t n_split);
  /* Before anything else. Optional. */
  void (*start)(void *state, const ClusterView *view, Arena *arena);
  bool moves_roles; // a router may place a phase on an instance of the opposite role
  /* An instance was given a phase its role does not cover: the role it takes. Required when
   * moves_roles. */
  Role (*claim)(void *state, const ClusterView *view, const Instance *instance, Phase phase);
  /* An instance ended an iteration or run: the role it has from now on (and its home, through
   * *ret_home, preset to the present one). Called after its batch has changed; `idle` when it holds
   * no request. Optional: roles then stay. */
  Role (*review_role)(void *state, const ClusterView *view, const Instance *instance, bool idle,
                      Role *ret_home);
  /* Something changed in a group that runs: the shape it should have. Another than the present one
   * makes it leave that; decode only where the view takes_prompt. Required where there are
   * groups. */
  GroupShape (*shape)(void *state, const GroupView *view);
  /* Loads were broadcast: the role this instance should have. One that differs from its own begins
   * a flip: the instance gets no new work, finishes what it has, and is of the new role *ret_ticks
   * later. A flip that would leave a phase without an instance as roomy as this one does not
   * happen. Not asked of instances that flip. Optional; not together with moves_roles. */
  Role (*watch)(void *state, const ClusterView *view, const Instance *instance, Tick *ret_ticks);
} PoolPolicy;
#endif
