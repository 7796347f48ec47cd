/* Second-level scheduling: which instance decodes a request that was prefilled elsewhere
 * (TetriInfer §3.3).
 *
 * With a dispatcher that picks, a router's choice of prefill instance stands and its decode
 * instance is left open until the first chunk of the prompt has been prefilled. A dispatcher sees
 * the columns of the cluster as they are, and `view->loads` as they were when last broadcast; one
 * that is to decide as a prefill instance would must keep to the latter. */
#ifndef SIM_DISPATCHER_DISPATCHER_H
#define SIM_DISPATCHER_DISPATCHER_H
#include "sim/core/cluster.h"
#include "sim/policy.h"

typedef struct Dispatcher {
  Policy policy;
  bool reads_loads; // loads are to be broadcast
  /* Before the first pick. Optional. */
  void (*start)(void *state, const ClusterView *view, uint64_t seed, Arena *arena);
  /* One of the instances of dispatch_list(view), which is not empty; asked once for each request of
   * two tokens or more, and again when that instance fails. NULL: the router has decided on
   * arrival. */
  InstanceIx (*pick)(void *state, const ClusterView *view, RequestIx request);
} Dispatcher;

/* The instances to choose among: those that decode, or mixed ones where there are none. An instance
 * that flips is in no list. */
static inline const RoleList *dispatch_list(const ClusterView *view) {
  const RoleList *decode = &view->by_role[ROLE_DECODE];
  return decode->count > 0 ? decode : &view->by_role[ROLE_MIXED];
}
#endif
