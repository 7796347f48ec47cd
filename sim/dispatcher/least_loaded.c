/* The decode machine with the fewest pending tokens: of those last broadcast, as a prefill machine
 * sees them, so that all it sends between two broadcasts goes the same way; or of the present ones,
 * as a central scheduler would (DistServe). */
#include "sim/dispatcher/dispatcher.h"

typedef struct State {
  bool stale;
} State;

static MachineIx pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  const State *self = state;
  const RoleList *list = dispatch_list(view);
  if (!self->stale) return column_least(view->pending_tokens, list);
  MachineIx best = list->items[0];
  for (uint32_t i = 1; i < list->count; i++)
    if (view->loads[list->items[i]].pending_tokens < view->loads[best].pending_tokens)
      best = list->items[i];
  return best;
}

static const OptionSpec options[] = {
    {"stale", OPTION_BOOL, offsetof(State, stale), "true",
     .help = "decides on the loads last broadcast; false: on the present ones"},
    {0},
};

const Dispatcher dispatcher_least_loaded = {
    .policy = {.name = "least_loaded",
               .help = "the decode machine with the fewest pending tokens",
               .state_size = sizeof(State),
               .options = options},
    .reads_loads = true,
    .pick = pick,
};
