/* Join the shortest queue, measured in requests assigned and unfinished. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)state, (void)request;
  return router_join_least(view, view->columns.n_assigned);
}

const Router router_jsq = {
    .policy = {.name = "jsq", .help = "joins the machine with the fewest requests"},
    .pick = pick,
};
