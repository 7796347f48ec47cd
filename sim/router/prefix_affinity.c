/* The same instance for the same beginning of a prompt, so that its prefix cache has it: consistent
 * hashing with bounded loads (Mirrokni, Thorup & Zadimoghaddam 2016).
 *
 * Each instance has `replication` places on a ring, and a prompt goes to the first instance at or
 * after the place of its first `prefix_tokens` tokens that has room: of T requests assigned to the
 * n instances of the list, this one counted, none gets more than ⌈load_factor · T / n⌉. What a load
 * is is the column n_assigned. Instances that decode only are chosen so where they keep a cache,
 * and else by the least load. Defaults: KubeAI's PrefixHash (meanLoadFactor 125, replication 256)
 * and the 256 tokens of SGLang's gateway (prefix_hash). */
#include "base/hash.h"
#include "sim/router/router.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

typedef struct RingPlace {
  uint64_t at;
  InstanceIx instance;
} RingPlace;

typedef struct State {
  int64_t prefix_tokens, replication;
  double load_factor;
  Ties ties;       // of loads
  RingPlace *ring; // in order
  size_t n_places;
  uint64_t key; // of the request being placed
} State;

static int by_place(const void *a, const void *b) {
  const RingPlace *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (x->instance > y->instance) - (x->instance < y->instance);
}

static void start(void *state, const ClusterView *view, uint64_t seed, Arena *arena) {
  State *self = state;
  router_start_ties(&self->ties, view, seed, arena);
  self->n_places = (size_t)view->n_members * (size_t)self->replication;
  self->ring = ARENA_ARRAY(arena, RingPlace, self->n_places);
  size_t n = 0;
  for (uint32_t k = 0; k < view->n_members; k++)
    for (int64_t i = 0; i < self->replication; i++) {
      const InstanceIx m = view->members[k];
      self->ring[n++] = (RingPlace){hash_fold(hash_mix(m + UINT64_C(1)), (uint64_t)i), m};
    }
  qsort(self->ring, self->n_places, sizeof *self->ring, by_place);
}

static size_t instance_bytes(const void *state) {
  return (size_t)((const State *)state)->replication * sizeof(RingPlace);
}

/* The first place at or after `at`, as if the ring went on. */
static size_t first_place(const State *self, uint64_t at) {
  size_t low = 0, high = self->n_places;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (self->ring[middle].at < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The most requests that an instance of the list may have with this one. */
static int64_t bound(const State *self, const ClusterView *view, const RoleList *list) {
  int64_t total = 1;
  for (uint32_t i = 0; i < list->count; i++)
    total += column_at(view->columns.n_assigned, list->items[i]);
  return (int64_t)ceil(self->load_factor * (double)total / list->count);
}

static InstanceIx choose_by_load(Ties *ties, const ClusterView *view, const RoleList *list) {
  const InstanceIx m = router_least(ties, view->columns.n_assigned, list);
  router_chose(ties, view, m);
  return m;
}

static InstanceIx choose(void *state, const ClusterView *view, const RoleList *list, Phase phase) {
  State *self = state;
  if (phase == PHASE_DECODE && !view->instances[list->items[0]].cache)
    return choose_by_load(&self->ties, view, list);
  const int64_t most = bound(self, view, list);
  const size_t first = first_place(self, hash_mix(self->key));
  for (size_t i = 0; i < self->n_places; i++) {
    const InstanceIx m = self->ring[(first + i) % self->n_places].instance;
    if (view->columns.all->listed[m] == list->ix && column_at(view->columns.n_assigned, m) < most)
      return m;
  }
  assert(false); // not all of them are above the mean
  return INSTANCE_NONE;
}

static Placement pick(void *state, const ClusterView *view, RequestIx ix) {
  State *self = state;
  const int64_t prompt = view->requests[ix].prompt_tokens;
  self->key = content_key(&view->memory[ix].content,
                          prompt < self->prefix_tokens ? prompt : self->prefix_tokens);
  return router_place(view, choose, self);
}

static bool draws(const void *state) {
  const State *self = state;
  return self && router_ties_draw(&self->ties);
}

static const OptionSpec options[] = {
    {"prefix_tokens", OPTION_INT, offsetof(State, prefix_tokens), "256", .min = 1, .max = 1e7,
     .help = "Number of leading prompt tokens that choose the instance."},
    {"load_factor", OPTION_REAL, offsetof(State, load_factor), "1.25", .min = 1, .max = 1000,
     .help = "Maximum number of requests on an instance, as a multiple of the mean over all "
             "instances."},
    {"replication", OPTION_INT, offsetof(State, replication), "256", .min = 1, .max = 4096,
     .help = "Number of places that each instance has on the hash ring."},
    ROUTER_TIES(offsetof(State, ties.rule)),
    {0},
};

const Router router_prefix_affinity = {
    .policy = {.name = "prefix_affinity",
               .help = "Sends prompts with the same beginning to the same instance, within a bound "
                       "on its load.",
               .state_size = sizeof(State),
               .options = options,
               .draws = draws},
    .knows_content = true,
    .instance_bytes = instance_bytes,
    .reads_loads = true,
    .start = start,
    .pick = pick,
};
