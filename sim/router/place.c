/* The shapes that most routers share; see router.h. */
#include "sim/router/router.h"

/* Of the phase's own instances, else of the mixed ones; of the others where those may move. */
static const RoleList *list_of(const ClusterView *view, Role role, Role other) {
  const RoleList *lists = view->by_role;
  return &lists[lists[role].count ? role : lists[ROLE_MIXED].count ? ROLE_MIXED : other];
}

Placement router_place(const ClusterView *view, RouterChoice choose, void *state) {
  const RoleList *prefill = list_of(view, ROLE_PREFILL, ROLE_DECODE);
  const RoleList *decode = list_of(view, ROLE_DECODE, ROLE_PREFILL);
  if (prefill == decode) {
    const InstanceIx both = choose(state, view, prefill, PHASE_PREFILL);
    return (Placement){.prefill = both, .decode = both};
  }
  return (Placement){.prefill = choose(state, view, prefill, PHASE_PREFILL),
                     .decode = choose(state, view, decode, PHASE_DECODE)};
}

/* --- by a figure */

const char *const router_tie_rules[] = {"round_robin", "first", "random", NULL};

const OptionSpec router_ties_options[] = {ROUTER_TIES(offsetof(Ties, rule)), {0}};

void router_start_ties(void *ties, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)view, (void)arena;
  rng_init(&((Ties *)ties)->rng, seed, "router");
}

/* One of those of a list with as little as `least`. */
static InstanceIx draw(Rng *rng, const Column *figure, const RoleList *list, InstanceIx least) {
  const int64_t little = column_at(figure, least);
  uint64_t n = 0;
  for (uint32_t i = 0; i < list->count; i++)
    n += column_at(figure, list->items[i]) == little;
  uint64_t left = n > 1 ? rng_below(rng, n) : 0;
  for (uint32_t i = 0; i < list->count; i++)
    if (column_at(figure, list->items[i]) == little && left-- == 0) return list->items[i];
  return least;
}

bool router_ties_draw(const void *ties) {
  return ties && ((const Ties *)ties)->rule == TIES_RANDOM;
}

InstanceIx router_least(Ties *ties, Column *figure, const RoleList *list) {
  if (ties->rule == TIES_ROUND_ROBIN) return column_least_in_turn(figure, list);
  const InstanceIx first = column_least(figure, list);
  return ties->rule == TIES_FIRST || first == INSTANCE_NONE ? first
                                                            : draw(&ties->rng, figure, list, first);
}

void router_chose(const Ties *ties, const ClusterView *view, InstanceIx instance) {
  if (ties->rule == TIES_ROUND_ROBIN) columns_take_turn(view->columns.all, instance);
}

typedef struct Least {
  Column *figure;
  Ties *ties;
} Least;

static InstanceIx choose_least(void *state, const ClusterView *view, const RoleList *list,
                               Phase phase) {
  (void)phase;
  const Least *self = state;
  if (!self->ties) return column_least(self->figure, list);
  const InstanceIx m = router_least(self->ties, self->figure, list);
  router_chose(self->ties, view, m);
  return m;
}

Placement router_join_least(const ClusterView *view, Column *figure, Ties *ties) {
  return router_place(view, choose_least, &(Least){figure, ties});
}
