/* TetriInfer's worst case (TetriInfer §5.2.3), in which heavy decodes always go to the same
 * instances: the `heavy_machines` decode instances of the lowest numbers take all of them in turn.
 * The paper is silent on light ones; here they go to all instances in turn, so that each has its
 * share of them and the first bear the heavy ones on top. */
#include "sim/dispatcher/dispatcher.h"

typedef struct State {
  int64_t heavy_machines;
  uint64_t next[2]; // light, heavy
} State;

static InstanceIx pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const bool heavy = view_heavy(view, &view->requests[ix]);
  const RoleList *list = dispatch_list(view);
  uint64_t n = list->count;
  if (heavy && (uint64_t)self->heavy_machines < n) n = (uint64_t)self->heavy_machines;
  return list->by_number[self->next[heavy]++ % n];
}

static const OptionSpec options[] = {
    {"heavy_machines", OPTION_INT, offsetof(State, heavy_machines), "1", .min = 1, .max = 1e6,
     .help = "Number of decode instances that take all heavy decodes."},
    {0},
};

const Dispatcher dispatcher_imbalance = {
    .policy = {.name = "imbalance",
               .help =
                   "Sends all heavy decodes to the same instances, the worst case (TetriInfer).",
               .state_size = sizeof(State),
               .options = options},
    .pick = pick,
};
