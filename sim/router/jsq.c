/* Join the shortest queue, measured in requests assigned and unfinished. */
#include "sim/router/router.h"

static MachineIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)state, (void)phase;
  return role_list_least(list, view->n_assigned);
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_jsq = {
    .policy = {.name = "jsq", .help = "joins the machine with the fewest requests"},
    .pick = pick,
};
