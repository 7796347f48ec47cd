/* The less loaded, by pending tokens, of two instances drawn at random: most of what looking at all
 * of them gives (Mitzenmacher 2001), for two looks. */
#include "base/rng.h"
#include "sim/router/router.h"

typedef struct State {
  Rng rng;
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)view, (void)arena;
  rng_init(&((State *)state)->rng, seed, "router");
}

static InstanceIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)phase;
  Rng *rng = &((State *)state)->rng;
  if (list->count == 1) return list->items[0];
  const uint64_t first = rng_below(rng, list->count);
  uint64_t second = rng_below(rng, list->count - 1);
  if (second >= first) second++;
  const InstanceIx a = list->items[first], b = list->items[second];
  return column_at(view->columns.pending_tokens, b) < column_at(view->columns.pending_tokens, a)
             ? b
             : a;
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_power_of_two = {
    .policy = {.name = "power_of_two",
               .help = "Draws two instances at random and takes the one with fewer pending tokens.",
               .draws = policy_always_draws,
               .state_size = sizeof(State)},
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
