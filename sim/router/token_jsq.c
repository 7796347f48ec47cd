/* Join the shortest queue, measured in prompt tokens to prefill, plus one per decode. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_join_least(view, view->columns.pending_tokens, state);
}

const Router router_token_jsq = {
    .policy = {.name = "token_jsq",
               .help = "Sends each request to the instance with the fewest pending tokens.",
               .state_size = sizeof(Ties),
               .options = router_load_options,
               .draws = router_ties_draw},
    .reads_loads = true,
    .start = router_start_ties,
    .pick = pick,
};
