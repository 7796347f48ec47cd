/* Join the shortest queue, measured in blocks. */
#include "sim/router/router.h"

static MachineIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)state, (void)phase;
  return role_list_least(list, view->kv_blocks);
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_least_kv = {
    .policy = {.name = "least_kv",
               .help = "joins the machine with the least KV memory held or promised"},
    .reads_memory = true,
    .pick = pick,
};
