/* Splitwise's cluster-level scheduler (Splitwise §IV-A, §IV-D): join the shortest queue, in pending
 * tokens, for the prefill and the decode instance at once. An instance whose queue is past its
 * limit is passed over for the mixed pool, then for an instance of the opposite pool, which the
 * pool policy turns to mixed; when those are over their limits too, both phases run on the least
 * loaded instance of all. Role moves need a pool policy that makes them; without one the two pools
 * stay apart and the limits have no effect. */
#include "sim/router/router.h"

typedef struct State {
  int64_t prefill_queue_limit, decode_queue_limit;
  Ties ties;
} State;

/* The least loaded instance of a role if it can take `tokens` more within `limit`. */
static InstanceIx within(Ties *ties, const ClusterView *view, Role role, int64_t tokens,
                         int64_t limit) {
  const InstanceIx m = router_least(ties, view->columns.pending_tokens, &view->by_role[role]);
  const int64_t pending = m == INSTANCE_NONE ? 0 : column_at(view->columns.pending_tokens, m);
  const bool over = pending > 0 && pending + tokens > limit;
  return over ? INSTANCE_NONE : m;
}

static InstanceIx find(Ties *ties, const ClusterView *view, Phase phase, int64_t tokens,
                       int64_t limit) {
  const bool prefill = phase == PHASE_PREFILL;
  const Role order[ROLES] = {prefill ? ROLE_PREFILL : ROLE_DECODE, ROLE_MIXED,
                             prefill ? ROLE_DECODE : ROLE_PREFILL};
  for (int i = 0; i < ROLES; i++) {
    const InstanceIx m = within(ties, view, order[i], tokens, limit);
    if (m != INSTANCE_NONE) return m;
  }
  return INSTANCE_NONE;
}

static InstanceIx least_of_all(Ties *ties, const ClusterView *view) {
  InstanceIx best = INSTANCE_NONE;
  for (int role = 0; role < ROLES; role++) {
    const InstanceIx m = router_least(ties, view->columns.pending_tokens, &view->by_role[role]);
    if (m == INSTANCE_NONE) continue;
    if (best == INSTANCE_NONE ||
        column_at(view->columns.pending_tokens, m) < column_at(view->columns.pending_tokens, best))
      best = m;
  }
  return best;
}

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  router_start_ties(&((State *)state)->ties, view, seed, arena);
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  State *self = state;
  Ties *ties = &self->ties;
  if (!view->roles_move) return router_join_least(view, view->columns.pending_tokens, ties);
  const InstanceIx prefill = find(ties, view, PHASE_PREFILL, view->requests[request].prompt_tokens,
                                  self->prefill_queue_limit);
  const InstanceIx decode = find(ties, view, PHASE_DECODE, 1, self->decode_queue_limit);
  if (prefill != INSTANCE_NONE && decode != INSTANCE_NONE) {
    router_chose(ties, view, prefill);
    router_chose(ties, view, decode);
    return (Placement){.prefill = prefill, .decode = decode};
  }
  const InstanceIx both = least_of_all(ties, view);
  router_chose(ties, view, both);
  return (Placement){both, both, .roles_stay = true, .claimed = INSTANCE_NONE};
}

static bool draws(const void *state) {
  const State *self = state;
  return self && router_ties_draw(&self->ties);
}

static const OptionSpec options[] = {
    {"prefill_queue_limit", OPTION_INT, offsetof(State, prefill_queue_limit), "8192", .min = 1,
     .max = 1e12,
     .help =
         "Number of pending tokens of an instance above which a prefill goes to the mixed pool."},
    {"decode_queue_limit", OPTION_INT, offsetof(State, decode_queue_limit), "512", .min = 1,
     .max = 1e12,
     .help = "Number of pending tokens of an instance, one per decode, above which a decode goes "
             "to the mixed pool."},
    ROUTER_TIES(offsetof(State, ties.rule)),
    {0},
};

const Router router_splitwise = {
    .policy = {.name = "splitwise",
               .help = "Chooses the prefill and the decode instance at once by pending tokens; "
                       "above limits it takes the mixed pool (Splitwise).",
               .state_size = sizeof(State),
               .options = options,
               .draws = draws},
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
