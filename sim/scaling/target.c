/* By a figure's ratio to its target, as Kubernetes' HorizontalPodAutoscaler: of a figure whose mean
 * over the machines should be `target`, wanted = ⌈machines · figure/target⌉, unless the ratio is
 * within `tolerance` of 1; of several figures the one that wants most counts. Machines that start
 * count with nothing on them. A pool that `pools` names has the targets there and no others. */
#include "sim/scaling/scaler.h"
#include <math.h>
#include <string.h>

#define KV_USE 0.8 // where there is no other target

/* First of what holds them, for the rows of their options. 0: not looked at. */
typedef struct Targets {
  double concurrency, queue, kv_use;
  Tick ttft;
} Targets;

typedef struct PoolTargets {
  Targets targets;
  const char *pool;
  Place at;
} PoolTargets;

typedef struct State {
  Targets targets; // of pools that are not among
  const Node *pools_node;
  PoolTargets *pools;
  int n_pools;
  double tolerance;
} State;

/* `load` is how many machines it would take at the target. */
static double wanted_by(double load, double n_machines, double tolerance) {
  const double off = fabs(load - n_machines);
  return off <= tolerance * n_machines ? n_machines : ceil(load - 1e-9);
}

/* Of the mean TTFT; without a first token nothing is known of it while there are requests. */
static double ttft_load(const PoolLoad *pool, Tick target) {
  if (pool->first_tokens == 0) return pool->n_assigned > 0 ? pool->n_machines : 0;
  const double mean = (double)pool->ttft_ticks / (double)pool->first_tokens;
  return pool->n_machines * mean / (double)target;
}

static const Targets *targets_of(const State *self, const char *pool) {
  for (int i = 0; i < self->n_pools; i++)
    if (strcmp(self->pools[i].pool, pool) == 0) return &self->pools[i].targets;
  return &self->targets;
}

static void plan(void *state, const ScalingView *view, double *wanted) {
  const State *self = state;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    const Targets *targets = targets_of(self, pool->spec->name);
    const bool prefills = role_covers(pool->spec->role, PHASE_PREFILL);
    const double loads[] = {
        targets->concurrency > 0 ? (double)pool->n_assigned / targets->concurrency : -1,
        targets->queue > 0 ? (double)pool->n_waiting / targets->queue : -1,
        targets->kv_use > 0 ? pool->kv_machines / targets->kv_use : -1,
        targets->ttft > 0 && prefills ? ttft_load(pool, targets->ttft) : -1,
    };
    double most = -1;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
      if (loads[i] >= 0) most = fmax(most, wanted_by(loads[i], pool->n_machines, self->tolerance));
    if (most >= 0) wanted[p] = most;
  }
}

static bool reads_kv(const void *state) {
  const State *self = state;
  bool reads = self->targets.kv_use > 0;
  for (int i = 0; i < self->n_pools; i++)
    reads |= self->pools[i].targets.kv_use > 0;
  return reads;
}

static bool has_none(const Targets *self) {
  return self->concurrency == 0 && self->queue == 0 && self->kv_use == 0 && self->ttft == 0;
}

static int bind_pool(State *self, const Node *node, Diag *diag) {
  PoolTargets *pool = &self->pools[self->n_pools++];
  pool->pool = node->key;
  pool->at = node->key_at;
  if (option_bind(target_pool_options, node, NULL, node->at, pool, diag)) return -1;
  if (!has_none(&pool->targets)) return 0;
  return diag_error(diag, node->at, "pool '%s' has no target", node->key);
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)map, (void)owner;
  State *self = state;
  if (has_none(&self->targets)) self->targets.kv_use = KV_USE;
  const Node *pools = self->pools_node;
  if (!pools) return 0;
  if (pools->kind != NODE_MAP)
    return diag_error(diag, pools->at, "'pools' wants a map of pools to their targets");
  self->pools = ARENA_ARRAY(arena, PoolTargets, pools->n_children);
  int status = 0;
  for (const Node *node = pools->first; node; node = node->next)
    status |= bind_pool(self, node, diag);
  return status;
}

static int check_pools(const void *state, const PoolSpec *pools, uint32_t n_pools, Place at,
                       Diag *diag) {
  (void)at;
  const State *self = state;
  int status = 0;
  for (int i = 0; i < self->n_pools; i++)
    status |= scaler_check_pool(self->pools[i].pool, self->pools[i].at, pools, n_pools, diag);
  return status;
}

#define ROW(key_, type_, max_, help_, absent_)                                                     \
  {                                                                                                \
    .key = #key_, .type = OPTION_##type_, .offset = offsetof(Targets, key_), .min = 1e-3,          \
    .max = max_, .help = help_, .absent = absent_                                                  \
  }
#define UNSAID "not looked at"
#define TARGETS(kv_use_unsaid)                                                                     \
  ROW(concurrency, REAL, 1e6, "requests that a machine should have, waiting ones too", UNSAID),    \
      ROW(queue, REAL, 1e6, "of those, that should wait on a machine", UNSAID),                    \
      ROW(kv_use, REAL, 1, "share of its KV memory that should be held or promised",               \
          kv_use_unsaid),                                                                          \
      ROW(ttft, TICKS, 86400, "that the mean over an interval should be, of pools that prefill",   \
          UNSAID)

const OptionSpec target_pool_options[] = {TARGETS(UNSAID), {0}};

static const OptionSpec options[] = {
    TARGETS("0.8 if there is no other"),
    {"tolerance", OPTION_REAL, offsetof(State, tolerance), "0.1", .max = 1,
     .help = "ratio to the target that is left as it is, from 1 (Kubernetes)"},
    {"pools", OPTION_NODE, offsetof(State, pools_node),
     .help = "{NAME: {concurrency: 2}, …}: targets of pools of their own, see below",
     .absent = "all have the same"},
    {0},
};

const Scaler scaler_target = {
    .policy = {.name = "target",
               .help = "instances in proportion to a figure divided by its target (Kubernetes HPA)",
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .check_pools = check_pools,
    .reads_kv = reads_kv,
    .plan = plan,
};
