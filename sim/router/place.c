/* The shapes that most routers share; see router.h. */
#include "sim/router/router.h"

Placement router_place(const ClusterView *view, RouterChoice choose, void *state) {
  const RoleList *prefill = &view->by_role[ROLE_PREFILL];
  const RoleList *decode = &view->by_role[ROLE_DECODE];
  const RoleList *mixed = &view->by_role[ROLE_MIXED];
  if (prefill->count == 0 && decode->count == 0) {
    const MachineIx both = choose(state, view, mixed, PHASE_PREFILL);
    return (Placement){.prefill = both, .decode = both};
  }
  return (Placement){.prefill =
                         choose(state, view, prefill->count ? prefill : mixed, PHASE_PREFILL),
                     .decode = choose(state, view, decode->count ? decode : mixed, PHASE_DECODE)};
}

static MachineIx least(void *figure, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)view, (void)phase;
  return column_least(figure, list);
}

Placement router_join_least(const ClusterView *view, Column *figure) {
  return router_place(view, least, figure);
}
