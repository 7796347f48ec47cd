/* By a figure's ratio to its target, as Kubernetes' HorizontalPodAutoscaler: of a figure whose mean
 * over the machines should be `target`, wanted = ⌈machines · figure/target⌉, unless the ratio is
 * within `tolerance` of 1; of several figures the one that wants most counts. Machines that start
 * count with nothing on them. */
#include "sim/scaling/scaler.h"
#include <math.h>

#define KV_USE 0.8 // where there is no other target

typedef struct State {
  double concurrency, queue, kv_use, tolerance;
  Tick ttft;
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

static void plan(void *state, const ScalingView *view, double *wanted) {
  const State *self = state;
  for (uint32_t p = 0; p < view->n_pools; p++) {
    const PoolLoad *pool = &view->pools[p];
    const bool prefills = role_covers(pool->spec->role, PHASE_PREFILL);
    const double loads[] = {
        self->concurrency > 0 ? (double)pool->n_assigned / self->concurrency : -1,
        self->queue > 0 ? (double)pool->n_waiting / self->queue : -1,
        self->kv_use > 0 ? pool->kv_machines / self->kv_use : -1,
        self->ttft > 0 && prefills ? ttft_load(pool, self->ttft) : -1,
    };
    double most = -1;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
      if (loads[i] >= 0) most = fmax(most, wanted_by(loads[i], pool->n_machines, self->tolerance));
    if (most >= 0) wanted[p] = most;
  }
}

static bool reads_kv(const void *state) {
  return ((const State *)state)->kv_use > 0;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  (void)map, (void)owner, (void)arena, (void)diag;
  State *self = state;
  if (self->concurrency == 0 && self->queue == 0 && self->kv_use == 0 && self->ttft == 0)
    self->kv_use = KV_USE;
  return 0;
}

static const OptionSpec options[] = {
    {"concurrency", OPTION_REAL, offsetof(State, concurrency), .min = 1e-3, .max = 1e6,
     .help = "requests that a machine should have, waiting ones too", .absent = "not looked at"},
    {"queue", OPTION_REAL, offsetof(State, queue), .min = 1e-3, .max = 1e6,
     .help = "of those, that should wait on a machine", .absent = "not looked at"},
    {"kv_use", OPTION_REAL, offsetof(State, kv_use), .min = 1e-3, .max = 1,
     .help = "share of its KV memory that should be held or promised",
     .absent = "0.8 if there is no other"},
    {"ttft", OPTION_TICKS, offsetof(State, ttft), .min = 1e-3, .max = 86400,
     .help = "that the mean over an interval should be, of pools that prefill",
     .absent = "not looked at"},
    {"tolerance", OPTION_REAL, offsetof(State, tolerance), "0.1", .max = 1,
     .help = "ratio to the target that is left as it is, from 1 (Kubernetes)"},
    {0},
};

const Scaler scaler_target = {
    .policy = {.name = "target",
               .help = "machines in proportion to a figure over its target (Kubernetes' HPA)",
               .state_size = sizeof(State),
               .options = options,
               .check = check},
    .reads_kv = reads_kv,
    .plan = plan,
};
