/* SplitwiseSim's kv_jsq and overlap_kv_jsq: the fewest pending requests in each pool. Its quirk: a
 * decode instance counts only requests whose KV has arrived, not those on their way. */
#include "sim/router/router.h"

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)state, (void)request;
  return router_join_least(view, view->columns.n_present, NULL);
}

const Router router_splitwise_sim_kv_jsq = {
    .policy = {.name = "splitwise_sim_kv_jsq",
               .help = "Reproduces SplitwiseSim's kv_jsq: the fewest requests, without those whose "
                       "KV is still in transfer."},
    .reads_loads = true,
    .pick = pick,
};
