/* llm-d's Workload Variant Autoscaler v0.9 with its saturation analyzer V2 and the cost-aware
 * optimizer (llm-d/llm-d-workload-variant-autoscaler: saturation scaling configuration,
 * multi-analyzer pipeline). Pools that serve one model in one role are its variants. Demand and
 * supply are tokens of KV:
 *
 *   required = demand / scale_up_threshold − supply, with the machines that start,
 *   spare    = supply − demand / scale_down_boundary
 *
 * What is required starts on the variant with the least cost per capacity; what is spare stops on
 * the dearest one. RULES.md has the rules. */
#include "base/sort.h"
#include "sim/scaling/scaler.h"
#include <math.h>

enum { HISTORY = 10 };
#define UNKNOWN_COST 10 // WVA's, of a variant that has none

/* A pool. */
typedef struct Variant {
  double observed[HISTORY]; // capacities of engines with a full queue, a ring
  uint64_t n_observed;
  double last; // its last capacity; 0: it never had an engine
} Variant;

/* A pool at present, by machines. */
typedef struct Capacity {
  double each, demand; // tokens
  double cost;         // $/h
} Capacity;

typedef struct State {
  double scale_up_threshold, scale_down_boundary, kv_cache_threshold;
  int64_t queue_length_threshold, max_num_batched_tokens;
  double isl, osl;   // of the last interval in which any came, or ended
  Variant *variants; // [view.n_pools], as the rest
  Capacity *now;
  double *capacities; // [engines of a pool] reused
  uint32_t *order;    // reused
} State;

static void start(void *state, const ScalingView *view, Arena *arena) {
  State *self = state;
  uint32_t most = 0;
  for (uint32_t p = 0; p < view->n_pools; p++)
    if (view->pools[p].spec->count > most) most = view->pools[p].spec->count;
  self->variants = ARENA_ARRAY(arena, Variant, view->n_pools);
  self->now = ARENA_ARRAY(arena, Capacity, view->n_pools);
  self->order = ARENA_ARRAY(arena, uint32_t, view->n_pools);
  self->capacities = ARENA_ARRAY(arena, double, most);
}

/* --- the capacity of an engine */

static double by_memory(const State *self, const PoolSpec *spec) {
  return floor((double)(spec->kv_blocks * spec->block_size) * self->kv_cache_threshold);
}

static double history_mean(const Variant *self) {
  const uint64_t n = self->n_observed < HISTORY ? self->n_observed : HISTORY;
  double sum = 0;
  for (uint64_t i = 0; i < n; i++)
    sum += self->observed[i];
  return sum / (double)n;
}

/* Sequences that a token budget of each step keeps going; 0: outputs are not known. */
static double by_budget(const State *self, const PoolSpec *spec) {
  if (self->osl == 0) return 0;
  const double most = (double)spec->perfmodel->max_decode_seqs;
  const double budget = (double)self->max_num_batched_tokens;
  const double steady = fmin(budget * self->osl / (self->isl + self->osl), most);
  return floor(steady * (self->isl + self->osl / 2));
}

/* What it holds while its queue is full is what it can compute. */
static double by_compute(const State *self, Variant *variant, const PoolSpec *spec,
                         const EngineLoad *engine) {
  if (engine && engine->n_waiting >= self->queue_length_threshold && engine->kv_tokens > 0) {
    variant->observed[variant->n_observed++ % HISTORY] = (double)engine->kv_tokens;
    return (double)engine->kv_tokens;
  }
  if (variant->n_observed > 0) return floor(history_mean(variant));
  const double derived = by_budget(self, spec);
  return derived > 0 ? derived : by_memory(self, spec);
}

static int by_value(const void *a, const void *b) {
  const double one = *(const double *)a, other = *(const double *)b;
  return (one > other) - (one < other);
}

static double median(double *values, uint32_t n) {
  sort_items(values, n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* --- demand and supply */

static double charge(const State *self, Role role) {
  return role == ROLE_PREFILL ? self->isl : self->isl + self->osl;
}

static void look_at(State *self, const PoolLoad *pool, Variant *variant, Capacity *ret) {
  const PoolSpec *spec = pool->spec;
  const double memory = by_memory(self, spec);
  *ret = (Capacity){.cost = spec->cost_per_hour > 0 ? spec->cost_per_hour : UNKNOWN_COST};
  for (uint32_t i = 0; i < pool->n_engines; i++) {
    const EngineLoad *engine = &pool->engines[i];
    self->capacities[i] = fmin(memory, by_compute(self, variant, spec, engine));
    ret->demand += (double)engine->kv_tokens + (double)engine->n_waiting * charge(self, spec->role);
  }
  if (pool->n_engines > 0) variant->last = median(self->capacities, pool->n_engines);
  const double engine =
      variant->last > 0 ? variant->last : fmin(memory, by_compute(self, variant, spec, NULL));
  ret->each = engine * pool_lanes(spec);
}

typedef struct Balance {
  double required, spare;
} Balance;

static Balance balance_of(const State *self, const ScalingView *view, Role role) {
  double demand = (double)view->n_front * charge(self, role), supply = 0, starting = 0;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    if (pool->spec->role != role) continue;
    demand += self->now[p].demand;
    supply += self->now[p].each * (pool->n_machines - pool->n_starting);
    starting += self->now[p].each * pool->n_starting;
  }
  return (Balance){fmax(0, demand / self->scale_up_threshold - supply - starting),
                   fmax(0, supply - demand / self->scale_down_boundary)};
}

/* --- which variant */

static bool goes_first(const State *self, uint32_t a, uint32_t b, bool up) {
  const Capacity *one = &self->now[a], *other = &self->now[b];
  if (up) return one->cost * other->each < other->cost * one->each;
  if (one->cost != other->cost) return one->cost > other->cost;
  return one->each < other->each;
}

/* Variants of a role that are scaled, the one first that starts or stops first; of equals the first
 * of the configuration. */
static uint32_t sort_variants(const State *self, const ScalingView *view, Role role, bool up) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolSpec *spec = view->pools[p].spec;
    if (spec->role != role || spec->scaling.max == 0 || self->now[p].each <= 0) continue;
    uint32_t i = n++;
    for (; i > 0 && goes_first(self, p, self->order[i - 1], up); i--)
      self->order[i] = self->order[i - 1];
    self->order[i] = p;
  }
  return n;
}

static void start_more(const State *self, const ScalingView *view, Role role, double required,
                       double *wanted) {
  const uint32_t n = sort_variants(self, view, role, true);
  for (uint32_t i = 0; i < n && required > 0; i++) {
    const uint32_t p = self->order[i];
    const double room = fmax(0, view->pools[p].spec->scaling.max - wanted[p]);
    const double more = fmin(ceil(required / self->now[p].each - 1e-9), room);
    wanted[p] += more;
    required -= more * self->now[p].each;
  }
}

/* The cheapest keeps a machine if no other variant has one. */
static void stop_some(const State *self, const ScalingView *view, Role role, double spare,
                      double *wanted) {
  const uint32_t n = sort_variants(self, view, role, false);
  double left = 0; // on those before
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t p = self->order[i];
    double fewer = floor(spare / self->now[p].each + 1e-9);
    fewer = fmin(fewer, wanted[p] - view->pools[p].spec->scaling.min);
    if (i + 1 == n && left == 0 && wanted[p] - fewer < 1) fewer = wanted[p] - 1;
    fewer = fmax(0, fewer);
    wanted[p] -= fewer;
    spare -= fewer * self->now[p].each;
    left += wanted[p];
  }
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  State *self = state;
  if (view->arrivals > 0) self->isl = (double)view->prompt_tokens / (double)view->arrivals;
  if (view->completed > 0) self->osl = (double)view->output_tokens / (double)view->completed;
  for (uint32_t p = 0; p < view->n_pools; p++)
    look_at(self, &view->pools[p], &self->variants[p], &self->now[p]);
  Balance balances[ROLES];
  bool grows = false;
  for (int role = 0; role < ROLES; role++) {
    balances[role] = balance_of(self, view, (Role)role);
    grows |= balances[role].required > 0;
  }
  for (int role = 0; role < ROLES; role++)
    if (grows)
      start_more(self, view, (Role)role, balances[role].required, wanted);
    else
      stop_some(self, view, (Role)role, balances[role].spare, wanted);
}

static const OptionSpec options[] = {
    {"scale_up_threshold", OPTION_REAL, offsetof(State, scale_up_threshold), "0.85", .min = 1e-3,
     .max = 1, .help = "Use of the capacity above which instances start (WVA scaleUpThreshold)."},
    {"scale_down_boundary", OPTION_REAL, offsetof(State, scale_down_boundary), "0.7", .min = 1e-3,
     .max = 1, .help = "Use of the capacity below which instances stop (WVA scaleDownBoundary)."},
    {"kv_cache_threshold", OPTION_REAL, offsetof(State, kv_cache_threshold), "0.8", .min = 1e-3,
     .max = 1,
     .help = "Share of the KV memory that is the capacity of an instance (WVA kvCacheThreshold)."},
    {"queue_length_threshold", OPTION_INT, offsetof(State, queue_length_threshold), "5", .min = 1,
     .max = 1e6,
     .help = "Number of waiting requests from which on what an instance holds is the capacity that "
             "it can compute (WVA queueLengthThreshold)."},
    {"max_num_batched_tokens", OPTION_INT, offsetof(State, max_num_batched_tokens), "8192",
     .min = 1, .max = 1e9,
     .help = "Token budget of a step, from which the capacity follows that was never observed."},
    {0},
};

const Scaler scaler_llm_d_wva = {
    .policy = {.name = "llm_d_wva",
               .help = "Starts the cheapest and stops the dearest instances of a model by KV "
                       "demand and capacity (llm-d Workload Variant Autoscaler).",
               .state_size = sizeof(State),
               .options = options},
    .reads_engines = true,
    .keeps_one = true,
    .start = start,
    .plan = plan,
};
