/* TetriInfer's decentralised load balancing (TetriInfer §3.3.4), on the loads last broadcast:
 *
 *   1  the instances whose free KV memory holds the prompt and the output as predicted, by the
 *      lower end of its range (§5.2.3) or by the upper; all instances where none does
 *   2  two of them, drawn at random
 *   3  the one with the lower ratio of heavy to light decodes once this one is added; of equal
 *      ratios the one with fewer pending tokens, of which a decode is one, and of equals in that
 *      the first drawn */
#include "base/ranks.h"
#include "base/rng.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/predictor/predictor.h"
#include <stdlib.h>

/* Of the instance at a place of the list. */
typedef struct Room {
  int64_t tokens;
  uint32_t place;
} Room;

/* Between two broadcasts and changes of the list nobody's room changes: how many have some, and
 * which is the k-th of them in the order of the list, is then a matter of searching. */
typedef struct Rooms {
  Tick loads_at;     // the broadcast that they are of; -1: none yet
  uint64_t n_joined; // Columns.n_joined then
  int64_t least;
  bool sorted;
  Room *items;      // [n_instances] the most first
  uint32_t *places; // [n_instances] in this order
  Ranks ranks;      // of those
} Rooms;

typedef struct State {
  int estimate; // Estimate
  Rng rng;
  Rooms rooms;
} State;

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  rng_init(&self->rng, seed, "dispatcher");
  self->rooms = (Rooms){.loads_at = -1,
                        .items = ARENA_ARRAY(arena, Room, view->n_instances),
                        .places = ARENA_ARRAY(arena, uint32_t, view->n_instances)};
  ranks_init(&self->rooms.ranks, view->n_instances, arena);
}

static void look(Rooms *self, const ClusterView *view, const RoleList *list) {
  if (self->loads_at == view->loads_at && self->n_joined == view->columns.all->n_joined) return;
  self->loads_at = view->loads_at;
  self->n_joined = view->columns.all->n_joined;
  self->least = INT64_MAX;
  self->sorted = false;
  for (uint32_t i = 0; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    const int64_t tokens = view->loads[m].free_blocks * view->instances[m].pool->block_size;
    self->items[i] = (Room){tokens, i};
    if (tokens < self->least) self->least = tokens;
  }
}

static int roomier(const void *a, const void *b) {
  const int64_t x = ((const Room *)a)->tokens, y = ((const Room *)b)->tokens;
  return (x < y) - (x > y);
}

static void sort(Rooms *self, uint32_t n) {
  qsort(self->items, n, sizeof *self->items, roomier);
  for (uint32_t i = 0; i < n; i++)
    self->places[i] = self->items[i].place;
  ranks_build(&self->ranks, self->places, n);
  self->sorted = true;
}

/* Of n instances, those with room for so many tokens. */
static uint32_t count_roomy(Rooms *self, uint32_t n, int64_t tokens) {
  if (tokens <= self->least) return n;
  if (!self->sorted) sort(self, n);
  uint32_t low = 0, high = n;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (self->items[middle].tokens >= tokens)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Whether `b` is to be preferred to `a`. Ratios are compared as products: heavy / 0 is above all
 * others, and 0 / 0 cannot be once the request counts. */
static bool is_better(const InstanceLoad *b, const InstanceLoad *a, bool heavy) {
  const int64_t at_a = (a->n_heavy + heavy) * (b->n_light + !heavy);
  const int64_t at_b = (b->n_heavy + heavy) * (a->n_light + !heavy);
  return at_b != at_a ? at_b < at_a : b->pending_tokens < a->pending_tokens;
}

static InstanceIx pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const Request *request = &view->requests[ix];
  const RoleList *all = dispatch_list(view);
  const int64_t output = prediction_output(request, (Estimate)self->estimate);
  look(&self->rooms, view, all);
  const uint32_t n_roomy = count_roomy(&self->rooms, all->count, request->prompt_tokens + output);
  const uint32_t n = n_roomy > 0 ? n_roomy : all->count;
  uint32_t drawn[2] = {0, 0};
  if (n > 1) {
    drawn[0] = (uint32_t)rng_below(&self->rng, n);
    drawn[1] = (uint32_t)rng_below(&self->rng, n - 1);
    if (drawn[1] >= drawn[0]) drawn[1]++;
  }
  InstanceIx of[2];
  for (int i = 0; i < 2; i++)
    of[i] = all->items[n < all->count ? ranks_find(&self->rooms.ranks, n, drawn[i]) : drawn[i]];
  const bool heavy = view_heavy(view, request);
  return is_better(&view->loads[of[1]], &view->loads[of[0]], heavy) ? of[1] : of[0];
}

static const char *const estimates[] = {"low", "high", NULL}; // as Estimate

static const OptionSpec options[] = {
    {"estimate", OPTION_CHOICE, offsetof(State, estimate), "low", .choices = estimates,
     .help =
         "End of the predicted range of output tokens for which the instance must have KV memory."},
    {0},
};

const Dispatcher dispatcher_power_of_two = {
    .policy = {.name = "power_of_two",
               .help = "Draws two decode instances with enough memory and takes the lower ratio of "
                       "heavy decodes (TetriInfer).",
               .draws = policy_always_draws,
               .state_size = sizeof(State),
               .options = options},
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
