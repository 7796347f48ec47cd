/* Each instance in turn, the phases separately. */
#include "sim/router/router.h"

typedef struct State {
  uint32_t next[2]; // by phase
} State;

static InstanceIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  (void)view;
  State *self = state;
  return list->items[self->next[phase]++ % list->count];
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_place(view, choose, state);
}

const Router router_round_robin = {
    .policy = {.name = "round_robin",
               .help = "Sends requests to each instance in turn.",
               .state_size = sizeof(State)},
    .pick = pick,
};
