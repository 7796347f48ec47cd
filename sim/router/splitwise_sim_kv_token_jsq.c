/* SplitwiseSim's kv_token_jsq and overlap_kv_token_jsq: the fewest pending tokens in each pool, by
 * books that are only ever subtracted from (a defect of the release), so that the first instance of
 * each pool gets nearly everything. */
#include "sim/router/router.h"

typedef struct State {
  Column *pending_tokens;
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  (void)seed, (void)arena;
  ((State *)state)->pending_tokens = column_new(view->columns.all);
}

static Placement pick(void *state, const ClusterView *view, RequestIx request) {
  (void)request;
  return router_join_least(view, ((State *)state)->pending_tokens, NULL);
}

static void observe(void *state, const ClusterView *view, RequestIx request, Observation what,
                    InstanceIx instance) {
  State *self = state;
  const Request *const given_up = what == OBSERVED_CANCELLED ? &view->requests[request] : NULL;
  if (given_up && given_up->first_token_at < 0)
    column_add(self->pending_tokens, given_up->prefill_instance, -given_up->prompt_tokens);
  if (given_up && given_up->decode_instance != INSTANCE_NONE)
    column_add(self->pending_tokens, given_up->decode_instance, -1);
  if (what == OBSERVED_PREFILLED)
    column_add(self->pending_tokens, instance, -view->requests[request].prompt_tokens);
  if (what == OBSERVED_FINISHED) column_add(self->pending_tokens, instance, -1);
}

const Router router_splitwise_sim_kv_token_jsq = {
    .policy = {.name = "splitwise_sim_kv_token_jsq",
               .help = "Reproduces SplitwiseSim's kv_token_jsq, whose counts of pending tokens "
                       "only decrease.",
               .state_size = sizeof(State)},
    .start = start,
    .pick = pick,
    .observe = observe,
};
