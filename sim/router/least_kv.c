/* Join the shortest queue, measured in blocks. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)state, (void)request;
  return router_join_least(view, view->columns.kv_blocks);
}

const Router router_least_kv = {
    .policy = {.name = "least_kv",
               .help = "joins the machine with the least KV memory held or promised"},
    .pick = pick,
};
