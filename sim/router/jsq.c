/* Join the shortest queue, measured in requests assigned and unfinished. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_join_least(view, view->columns.n_assigned, state);
}

const Router router_jsq = {
    .policy = {.name = "jsq",
               .help = "Sends each request to the instance with the fewest requests.",
               .state_size = sizeof(Ties),
               .options = router_load_options,
               .draws = router_ties_draw},
    .reads_loads = true,
    .start = router_start_ties,
    .pick = pick,
};
