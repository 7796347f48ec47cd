/* Join the shortest queue, measured in prompt tokens to prefill, plus one per decode. */
#include "sim/router/router.h"

static MachineIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)state, (void)phase;
  return role_list_least(list, view->pending_tokens);
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_token_jsq = {
    .policy = {.name = "token_jsq", .help = "joins the machine with the fewest pending tokens"},
    .pick = pick,
};
