/* How machines start, and the pools that a scaler makes larger and smaller: `pools.NAME.start_up`,
 * `pools.NAME.scaling` and `scaling` (sim/core/starting.h, sim/feature/autoscaling.h). */
#include "experiments/config/config.h"
#include "sim/policies.h"
#include "sim/scaling/scaler.h"

#define DAYS(n) ((n)*86400.0)
enum { WINDOW_INTERVALS_MAX = 10000 };                  // as many recommendations are kept
static const Tick DOWN_WINDOW = 300 * TICKS_PER_SECOND; // Kubernetes

typedef struct StartKeys {
  StartUp start_up;
  const Node *weights;
} StartKeys;

#define START(field, ...)                                                                          \
  OPTION_AT(StartKeys, #field, start_up.field, OPTION_TICKS, .fallback = "0 s", .max = DAYS(1),    \
            __VA_ARGS__)

const OptionSpec config_start_up_options[] = {
    START(boot, .help = "Time from power-on until the image can be fetched."),
    START(image, .help = "Time to fetch the image and start the engine's process."),
    OPTION_OF(StartKeys, weights, OPTION_NODE,
              .help = "Source of the model's weights, from which the time to load them follows.",
              .absent = "loading takes no time"),
    START(capture, .help = "Time to capture graphs and compile kernels."),
    START(warm_up, .help = "Time from then on until the instance takes requests."),
    {0}};

static const char *const weights_choices[] = {"disk", "peer", "store", NULL}; // as WeightsFrom

const OptionSpec config_weights_options[] = {
    {"from", OPTION_CHOICE, offsetof(StartUp, weights_from), .required = true,
     .choices = weights_choices,
     .help = "Source of the weights: the machine's disk, another instance's NIC (peer), or a store "
             "that the pool shares."},
    {"bandwidth", OPTION_BANDWIDTH, offsetof(StartUp, bandwidth), .min = 1, .max = 1e18,
     .help = "Bandwidth of the source. Transfers over the network are also limited by the NIC.",
     .absent = "that of the NIC for a peer; else required"},
    {0}};

typedef struct ScalingKeys {
  int64_t min, max;
  PoolScaling scaling;
} ScalingKeys;

#define SCALING(field, kind, ...) OPTION_AT(ScalingKeys, #field, scaling.field, kind, __VA_ARGS__)

const OptionSpec config_pool_scaling_options[] = {
    {"min", OPTION_INT, offsetof(ScalingKeys, min), "1", .max = 1e6,
     .help = "Minimum number of instances. With 0 requests wait in front until the scaler starts "
             "one, which hpa does; llm_d_wva keeps one instance of each model."},
    {"max", OPTION_INT, offsetof(ScalingKeys, max), .required = true, .min = 1, .max = 1e6,
     .help = "Maximum number of instances. The pool begins with count instances."},
    SCALING(up_window, OPTION_TICKS, .fallback = "0 s", .max = DAYS(7),
            .help = "Stabilisation window for growth: the pool grows to the lowest number wanted "
                    "within it (Kubernetes)."),
    SCALING(down_window, OPTION_TICKS, .max = DAYS(7),
            .help = "Stabilisation window for shrinking: the pool shrinks to the highest number "
                    "wanted within it (Kubernetes).",
            .absent = "300 s; 0 s with Dynamo's planners, which have none"),
    SCALING(cool_down, OPTION_TICKS, .fallback = "0 s", .max = DAYS(7),
            .help = "Minimum time between two changes."),
    SCALING(machine_rate, OPTION_RATE, .min = 1e-9, .max = 1e9,
            .help = "Rate of requests that one instance serves. The scaler forecast needs it.",
            .absent = "not known"),
    {0}};

const OptionSpec config_scaling_options[] = {
    {"interval", OPTION_TICKS, offsetof(SimConfig, scaling_interval), "15 s", .min = 1e-3,
     .max = DAYS(7), .help = "Interval at which the scaler decides (Kubernetes)."},
    {0}};

static int bind_weights(PoolConfig *pool, const Node *node, Diag *diag) {
  StartUp *start_up = &pool->spec.start_up;
  if (option_bind(config_weights_options, node, NULL, node->at, start_up, diag)) return -1;
  if (start_up->bandwidth > 0) return 0;
  if (start_up->weights_from == WEIGHTS_PEER) {
    start_up->bandwidth = INT64_MAX; // the NIC is the limit
    return 0;
  }
  return diag_error(diag, node->at, "loading weights from a %s needs its 'bandwidth'",
                    weights_choices[start_up->weights_from]);
}

static int bind_start_up(PoolConfig *pool, Diag *diag) {
  StartKeys keys = {0};
  const Node *node = pool->start_up;
  int status = option_bind(config_start_up_options, node, NULL, node->at, &keys, diag);
  pool->spec.start_up = keys.start_up;
  if (keys.weights) status |= bind_weights(pool, keys.weights, diag);
  return status;
}

/* Those of `count` that fail are replaced. */
static PoolScaling spare_scaling(const PoolConfig *pool) {
  return (PoolScaling){.start = (uint32_t)pool->count,
                       .min = (uint32_t)pool->count,
                       .max = (uint32_t)(pool->count + pool->spares)};
}

/* Only a scaler starts the first instance of a pool. */
static int check_count(const PoolConfig *pool, const Node *map, int64_t min, Diag *diag) {
  if (pool->count > 0 || min == 0) return 0;
  diag_error(diag, config_place(map, "count"), "pool '%s' has no instances", pool->spec.name);
  return diag_hint(diag, "'count' may be 0 with scaling: {min: 0}");
}

static Tick usual_window(const Config *self) {
  const Scaler *scaler = (const Scaler *)self->sim.policies[POLICY_SCALER].policy;
  return scaler && scaler->has_no_windows ? 0 : DOWN_WINDOW;
}

int config_bind_pool_scaling(const Config *self, PoolConfig *pool, const Node *map, Diag *diag) {
  ScalingKeys keys = {.scaling.down_window = usual_window(self)};
  const int status = pool->start_up ? bind_start_up(pool, diag) : 0;
  const Node *node = pool->scaling;
  if (!node && check_count(pool, map, 1, diag)) return -1;
  if (!node && pool->spares > 0) pool->spec.scaling = spare_scaling(pool);
  if (!node) return status;
  if (pool->spares > 0) {
    diag_error(diag, node->key_at, "'scaling' and 'spares' of pool '%s' exclude each other",
               pool->spec.name);
    return diag_hint(diag, "a scaler replaces instances that fail: set a larger 'max'");
  }
  if (option_bind(config_pool_scaling_options, node, NULL, node->at, &keys, diag)) return -1;
  if (check_count(pool, map, keys.min, diag)) return -1;
  if (keys.min > keys.max)
    return diag_error(diag, config_place(node, "min"),
                      "'min', %lld instances, is above 'max', %lld", (long long)keys.min,
                      (long long)keys.max);
  if (pool->count < keys.min || pool->count > keys.max) {
    diag_error(diag, node->key_at,
               "pool '%s' begins with %lld instances, but must have %lld to %lld", pool->spec.name,
               (long long)pool->count, (long long)keys.min, (long long)keys.max);
    return diag_hint(diag, "'count' sets the instances at the beginning");
  }
  pool->spec.scaling = keys.scaling;
  pool->spec.scaling.min = (uint32_t)keys.min;
  pool->spec.scaling.max = (uint32_t)keys.max;
  pool->spec.scaling.start = (uint32_t)pool->count;
  return status;
}

static int check_windows(const Config *self, const PoolConfig *pool, Diag *diag) {
  static const char *const keys[] = {"up_window", "down_window"};
  const Tick windows[] = {pool->spec.scaling.up_window, pool->spec.scaling.down_window};
  for (int i = 0; i < 2; i++) {
    if (windows[i] / self->sim.scaling_interval < WINDOW_INTERVALS_MAX) continue;
    char interval[32];
    units_format(interval, sizeof interval, DIM_TIME, tick_seconds(self->sim.scaling_interval));
    return diag_error(diag, config_place(pool->scaling, keys[i]),
                      "'%s' must be at most %d intervals of %s", keys[i], WINDOW_INTERVALS_MAX,
                      interval);
  }
  return 0;
}

/* Whether the scaler can do with a pool that may have no instance. */
static int check_min(const PoolConfig *pool, const Scaler *scaler, Diag *diag) {
  if (pool->spec.scaling.min > 0) return 0;
  const Place at = config_place(pool->scaling, "min");
  if (pool->spec.role != ROLE_MIXED)
    return diag_error(diag, at, "a pool with 'min: 0' must serve both phases: role: mixed");
  if (scaler->wakes || scaler->keeps_one) return 0;
  diag_error(diag, at, "scaler '%s' cannot start the first instance of a pool with 'min: 0'",
             scaler->policy.name);
  return diag_hint(diag, "the scalers 'hpa' and 'llm_d_wva' can");
}

static int check_pool(const Config *self, const PoolConfig *pool, const Scaler *scaler,
                      Diag *diag) {
  const Node *pools = node_find(self->root, "pools");
  const Place at = node_find(pools, pool->spec.name)->key_at;
  if (!scaler->plan) {
    diag_error(diag, at, "pool '%s' has 'scaling', but there is no scaler", pool->spec.name);
    return diag_hint(
        diag, "choose one, such as policies: {scaler: target}; 'tandem list scalers' lists all");
  }
  if (sim_policy(&self->sim, POLICY_POOL).policy != policy_list(POLICY_POOL)[0])
    return diag_error(diag, at,
                      "'scaling' needs a pool policy under which instances keep their role: '%s'",
                      policy_list(POLICY_POOL)[0]->name);
  if (self->sim.n_groups > 0) return diag_error(diag, at, "'scaling' cannot be used with 'groups'");
  return check_windows(self, pool, diag) | check_min(pool, scaler, diag);
}

/* Pools with spares have the scaler of that name, which need not be chosen. */
static int choose_spares(Config *self, Arena *arena, Diag *diag) {
  PolicyChoice *choice = &self->sim.policies[POLICY_SCALER];
  const Policy *spares = policy_find(POLICY_SCALER, "spares");
  const PoolConfig *pool = NULL;
  for (uint32_t p = 0; p < self->sim.n_pools && !pool; p++)
    if (self->pools[p].spares > 0) pool = &self->pools[p];
  if (!pool || choice->policy == spares) return 0;
  if (!choice->policy || ((const Scaler *)choice->policy)->plan) {
    const Place at = node_find(node_find(self->root, "pools"), pool->spec.name)->key_at;
    diag_error(diag, at, "'spares' of pool '%s' cannot be used with another scaler",
               pool->spec.name);
    return diag_hint(diag, "use 'scaling' with a larger 'max' instead");
  }
  choice->policy = spares;
  choice->state = policy_bind(spares, NULL, place_of_file(self->path), arena, diag);
  return choice->state ? 0 : -1;
}

/* Nobody starts the first instance of a model whose scaler only keeps one. */
static int check_first(const Config *self, const PoolConfig *pool, const Scaler *scaler,
                       Diag *diag) {
  bool any = pool->count > 0 || scaler->wakes;
  for (uint32_t p = 0; p < self->sim.n_pools; p++)
    any |= self->pools[p].spec.model == pool->spec.model && self->pools[p].count > 0;
  if (any) return 0;
  const Node *map = node_find(node_find(self->root, "pools"), pool->spec.name);
  diag_error(diag, config_place(map, "count"), "no pool of its model begins with an instance");
  return diag_hint(diag, "the scaler 'hpa' starts the first one");
}

int config_bind_scaling(Config *self, const Node *node, Arena *arena, Diag *diag) {
  if (choose_spares(self, arena, diag)) return -1;
  const PolicyChoice choice = self->sim.policies[POLICY_SCALER];
  const Scaler *scaler = (const Scaler *)choice.policy;
  if (option_bind(config_scaling_options, node, NULL, self->root->at, &self->sim, diag)) return -1;
  if (!scaler || !choice.state) return -1;
  const Node *written = node_find(node_find(self->root, "policies"), "scaler");
  const Place at = written ? written->at : node ? node->key_at : self->root->at;
  int status = 0;
  bool any = false;
  for (uint32_t p = 0; p < self->sim.n_pools; p++) {
    if (self->pools[p].spec.scaling.max == 0) continue;
    any = true;
    status |= check_pool(self, &self->pools[p], scaler, diag);
    status |= check_first(self, &self->pools[p], scaler, diag);
  }
  if (status) return status;
  if (!any && (scaler->plan || node)) {
    diag_error(diag, at, "no pool has 'scaling'");
    return diag_hint(diag, "add it to a pool, such as pools.%s.scaling: {min: 1, max: 8}",
                     self->pools[0].spec.name);
  }
  if (!scaler->check_pools) return 0;
  return scaler->check_pools(choice.state, self->sim.pools, self->sim.n_pools, at, diag);
}
