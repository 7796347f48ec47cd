/* TetriInfer's decentralised load balancing (TetriInfer §3.3.4), on the loads last broadcast:
 *
 *   1  the machines whose free KV memory holds the prompt and the output as predicted, by the lower
 *      end of its range (§5.2.3) or by the upper; all machines where none does
 *   2  two of them, drawn at random
 *   3  the one with the lower ratio of heavy to light decodes once this one is added; of equal
 *      ratios the one with fewer pending tokens, of which a decode is one, and of equals in that
 *      the first drawn */
#include "sim/base/rng.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/predictor/predictor.h"

typedef struct State {
  int estimate; // Estimate
  Rng rng;
  RoleList roomy; // [n_machines] reused
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "dispatcher");
  self->roomy.items = ARENA_ARRAY(arena, MachineIx, view->n_machines);
}

static const RoleList *find_roomy(State *self, const ClusterView *view, const Request *request) {
  const RoleList *all = dispatch_list(view);
  const int64_t tokens =
      (int64_t)request->prompt_tokens + prediction_output(request, (Estimate)self->estimate);
  self->roomy.count = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const MachineIx m = all->items[i];
    if (view->loads[m].free_blocks >= blocks_of(&view->machines[m], tokens))
      self->roomy.items[self->roomy.count++] = m;
  }
  return self->roomy.count > 0 ? &self->roomy : all;
}

/* Whether `b` is to be preferred to `a`. Ratios are compared as products: heavy / 0 is above all
 * others, and 0 / 0 cannot be once the request counts. */
static bool is_better(const MachineLoad *b, const MachineLoad *a, bool heavy) {
  const int64_t at_a = (a->n_heavy + heavy) * (b->n_light + !heavy);
  const int64_t at_b = (b->n_heavy + heavy) * (a->n_light + !heavy);
  return at_b != at_a ? at_b < at_a : b->pending_tokens < a->pending_tokens;
}

static MachineIx pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const Request *request = &view->requests[ix];
  const RoleList *list = find_roomy(self, view, request);
  if (list->count == 1) return list->items[0];
  const uint64_t first = rng_below(&self->rng, list->count);
  uint64_t second = rng_below(&self->rng, list->count - 1);
  if (second >= first) second++;
  const MachineIx a = list->items[first], b = list->items[second];
  return is_better(&view->loads[b], &view->loads[a], view_heavy(view, request)) ? b : a;
}

static const char *const estimates[] = {"low", "high", NULL}; // as Estimate

static const OptionSpec options[] = {
    {"estimate", OPTION_CHOICE, offsetof(State, estimate), "low", .choices = estimates,
     .help = "end of the predicted range of the output that is to find room"},
    {0},
};

const Dispatcher dispatcher_power_of_two = {
    .policy = {.name = "power_of_two",
               .help = "of two with room, the lower ratio of heavy decodes (TetriInfer)",
               .state_size = sizeof(State),
               .options = options},
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
