/* An instance at random, each equally likely. */
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
  (void)view, (void)phase;
  return list->items[rng_below(&((State *)state)->rng, list->count)];
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_random = {
    .policy = {.name = "random",
               .help = "Sends each request to an instance drawn at random.",
               .draws = policy_always_draws,
               .state_size = sizeof(State)},
    .start = start,
    .pick = pick,
};
