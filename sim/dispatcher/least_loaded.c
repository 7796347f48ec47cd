/* The decode instance with the fewest pending tokens: of those last broadcast, as a prefill
 * instance sees them, so that all it sends between two broadcasts goes the same way; or of the
 * present ones, as a central scheduler would (DistServe). */
#include "sim/dispatcher/dispatcher.h"

typedef struct State {
  bool stale;
  Tick told_at; // when `told` was broadcast; -1: not yet
  Column *told; // pending tokens
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)seed, (void)arena;
  State *self = state;
  self->told_at = -1;
  self->told = column_new(view->columns.all);
}

static InstanceIx pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  State *self = state;
  if (!self->stale) return column_least(view->columns.pending_tokens, dispatch_list(view));
  for (uint32_t i = 0; self->told_at < view->loads_at && i < view->n_members; i++)
    column_set(self->told, view->members[i], view->loads[view->members[i]].pending_tokens);
  self->told_at = view->loads_at;
  return column_least(self->told, dispatch_list(view));
}

static const OptionSpec options[] = {
    {"stale", OPTION_BOOL, offsetof(State, stale), "true",
     .help = "Decide by the loads that the monitor broadcast last. With false, decide by the "
             "present loads."},
    {0},
};

const Dispatcher dispatcher_least_loaded = {
    .policy =
        {.name = "least_loaded",
         .help =
             "Sends each prefilled request to the decode instance with the fewest pending tokens.",
         .state_size = sizeof(State),
         .options = options},
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
