/* A decode instance at random, each equally likely (TetriInfer §5.2.3's second policy). */
#include "base/rng.h"
#include "sim/dispatcher/dispatcher.h"

typedef struct State {
  Rng rng;
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)view, (void)arena;
  rng_init(&((State *)state)->rng, seed, "dispatcher");
}

static InstanceIx pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  const RoleList *list = dispatch_list(view);
  return list->items[rng_below(&((State *)state)->rng, list->count)];
}

const Dispatcher dispatcher_random = {
    .policy = {.name = "random",
               .help = "Sends each prefilled request to a decode instance drawn at random.",
               .draws = policy_always_draws,
               .state_size = sizeof(State)},
    .start = start,
    .pick = pick,
};
