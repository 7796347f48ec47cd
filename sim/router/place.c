/* The shapes that most routers share; see router.h. */
#include "sim/router/router.h"

/* Of the phase's own machines, else of the mixed ones; of the others where those may move. */
static const RoleList *list_of(const ClusterView *view, Role role, Role other) {
  const RoleList *lists = view->by_role;
  return &lists[lists[role].count ? role : lists[ROLE_MIXED].count ? ROLE_MIXED : other];
}

Placement router_place(const ClusterView *view, RouterChoice choose, void *state) {
  const RoleList *prefill = list_of(view, ROLE_PREFILL, ROLE_DECODE);
  const RoleList *decode = list_of(view, ROLE_DECODE, ROLE_PREFILL);
  if (prefill == decode) {
    const MachineIx both = choose(state, view, prefill, PHASE_PREFILL);
    return (Placement){.prefill = both, .decode = both};
  }
  return (Placement){.prefill = choose(state, view, prefill, PHASE_PREFILL),
                     .decode = choose(state, view, decode, PHASE_DECODE)};
}

static MachineIx least(void *figure, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)view, (void)phase;
  return column_least(figure, list);
}

Placement router_join_least(const ClusterView *view, Column *figure) {
  return router_place(view, least, figure);
}
