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

const OptionSpec router_load_options[] = {
    ROUTER_TIES(offsetof(Ties, rule)),
    OPTION_OF(Ties, by_speed, OPTION_BOOL, .fallback = "false",
              .help = "Whether loads are divided by the speed of their instances, by the "
                      "performance models of the pools, for pools of different machines or "
                      "degrees."),
    {0}};

/* Of the work that the instance's home role has most of: a prompt of 2,048 tokens, or a step of 64
 * decodes, or as many as there can be, with 1,024 tokens of context each. */
static double token_ticks(const Instance *instance) {
  enum { PROMPT = 2048, SEQS = 64, CONTEXT = 1024 };
  const PerfModel *times = instance->pool->perfmodel;
  if (instance->home != ROLE_DECODE)
    return (double)perfmodel_prefill(times, PROMPT) / (double)PROMPT;
  const int64_t seqs = times->max_decode_seqs < SEQS ? times->max_decode_seqs : SEQS;
  return (double)perfmodel_decode_step(times, seqs, seqs * CONTEXT) / (double)seqs;
}

/* In 1,024ths of the fastest of those with the same home role. */
static void weigh(const ClusterView *view) {
  enum { UNIT = 1024 };
  int64_t *slowness = columns_slowness(view->columns.all);
  double least[ROLES] = {0};
  for (uint32_t i = 0; i < view->n_members; i++) {
    const Instance *instance = &view->instances[view->members[i]];
    double *of = &least[instance->home];
    const double ticks = token_ticks(instance);
    if (*of == 0 || ticks < *of) *of = ticks;
  }
  for (uint32_t i = 0; i < view->n_members; i++) {
    const Instance *instance = &view->instances[view->members[i]];
    const double times =
        least[instance->home] > 0 ? token_ticks(instance) / least[instance->home] : 1;
    slowness[instance->ix] = (int64_t)(UNIT * (times < 1e6 ? times : 1e6) + 0.5);
  }
}

void router_start_ties(void *ties, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)arena;
  rng_init(&((Ties *)ties)->rng, seed, "router");
  if (((Ties *)ties)->by_speed) weigh(view);
}

/* One of those of a list with as little as `least`. */
static InstanceIx draw(Rng *rng, const Column *figure, ColumnOrder order, const RoleList *list,
                       InstanceIx least) {
  const int64_t little = column_weighed(figure, order, least);
  uint64_t n = 0;
  for (uint32_t i = 0; i < list->count; i++)
    n += column_weighed(figure, order, list->items[i]) == little;
  uint64_t left = n > 1 ? rng_below(rng, n) : 0;
  for (uint32_t i = 0; i < list->count; i++)
    if (column_weighed(figure, order, list->items[i]) == little && left-- == 0)
      return list->items[i];
  return least;
}

bool router_ties_draw(const void *ties) {
  return ties && ((const Ties *)ties)->rule == TIES_RANDOM;
}

InstanceIx router_least(Ties *ties, Column *figure, const RoleList *list) {
  const ColumnOrder first = ties->by_speed ? COLUMN_BY_SPEED : COLUMN_BY_LIST;
  const ColumnOrder in_turn = ties->by_speed ? COLUMN_BY_SPEED_AND_TURN : COLUMN_BY_TURN;
  if (ties->rule == TIES_ROUND_ROBIN) return column_least_in(figure, in_turn, list);
  const InstanceIx least = column_least_in(figure, first, list);
  return ties->rule == TIES_FIRST || least == INSTANCE_NONE
             ? least
             : draw(&ties->rng, figure, first, list, least);
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
