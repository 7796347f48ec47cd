/* Join the shortest queue, measured in blocks. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_join_least(view, view->columns.kv_blocks, state);
}

const Router router_least_kv = {
    .policy = {.name = "least_kv",
               .help =
                   "Sends each request to the instance with the least KV memory held or promised.",
               .state_size = sizeof(Ties),
               .options = router_ties_options,
               .draws = router_ties_draw},
    .reads_loads = true,
    .start = router_start_ties,
    .pick = pick,
};
