/* See policies.h. The .def files are read here and by the build, which takes NAME.c for each
 * line. */
#include "sim/policies.h"
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"
#include "sim/dispatcher/dispatcher.h"
#include "sim/kvtier/kvtier.h"
#include "sim/pool/pool.h"
#include "sim/predictor/predictor.h"
#include "sim/router/router.h"
#include "sim/scaling/scaler.h"
#include "sim/sim.h"
#include "sim/transfer/transfer_policy.h"
#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(Router, policy) == 0 && offsetof(Predictor, policy) == 0 &&
                   offsetof(Dispatcher, policy) == 0 && offsetof(PoolPolicy, policy) == 0 &&
                   offsetof(Batcher, policy) == 0 && offsetof(TransferPolicy, policy) == 0 &&
                   offsetof(KvTier, policy) == 0 && offsetof(Scaler, policy) == 0,
               "a Policy may be cast to its table");

#define ROUTER(name) extern const Router router_##name;
#include "sim/router/routers.def"
#undef ROUTER
#define PREDICTOR(name) extern const Predictor predictor_##name;
#include "sim/predictor/predictors.def"
#undef PREDICTOR
#define DISPATCHER(name) extern const Dispatcher dispatcher_##name;
#include "sim/dispatcher/dispatchers.def"
#undef DISPATCHER
#define POOL(name) extern const PoolPolicy pool_##name;
#include "sim/pool/pools.def"
#undef POOL
#define BATCHER(name) extern const Batcher batcher_##name;
#include "sim/batcher/batchers.def"
#undef BATCHER
#define TRANSFER(name) extern const TransferPolicy transfer_##name;
#include "sim/transfer/transfers.def"
#undef TRANSFER
#define KVTIER(name) extern const KvTier kvtier_##name;
#include "sim/kvtier/kvtiers.def"
#undef KVTIER
#define SCALER(name) extern const Scaler scaler_##name;
#include "sim/scaling/scalers.def"
#undef SCALER

#define ROUTER(name)     &router_##name.policy,
#define PREDICTOR(name)  &predictor_##name.policy,
#define DISPATCHER(name) &dispatcher_##name.policy,
#define POOL(name)       &pool_##name.policy,
#define BATCHER(name)    &batcher_##name.policy,
#define TRANSFER(name)   &transfer_##name.policy,
#define KVTIER(name)     &kvtier_##name.policy,
#define SCALER(name)     &scaler_##name.policy,

static const Policy *const routers[] = {
#include "sim/router/routers.def"
    NULL};
static const Policy *const predictors[] = {
#include "sim/predictor/predictors.def"
    NULL};
static const Policy *const dispatchers[] = {
#include "sim/dispatcher/dispatchers.def"
    NULL};
static const Policy *const pools[] = {
#include "sim/pool/pools.def"
    NULL};
static const Policy *const batchers[] = {
#include "sim/batcher/batchers.def"
    NULL};
static const Policy *const transfers[] = {
#include "sim/transfer/transfers.def"
    NULL};
static const Policy *const kvtiers[] = {
#include "sim/kvtier/kvtiers.def"
    NULL};
static const Policy *const scalers[] = {
#include "sim/scaling/scalers.def"
    NULL};

static const struct {
  const char *name;
  const Policy *const *list;
} kinds[POLICY_KINDS] = {
    [POLICY_ROUTER] = {"router", routers},
    [POLICY_PREDICTOR] = {"predictor", predictors},
    [POLICY_DISPATCHER] = {"dispatcher", dispatchers},
    [POLICY_POOL] = {"pool", pools},
    [POLICY_BATCHER] = {"batcher", batchers},
    [POLICY_TRANSFER] = {"transfer", transfers},
    [POLICY_KVTIER] = {"kvtier", kvtiers},
    [POLICY_SCALER] = {"scaler", scalers},
};

const char *policy_kind_name(PolicyKind kind) {
  return kinds[kind].name;
}

const Policy *const *policy_list(PolicyKind kind) {
  return kinds[kind].list;
}

const Policy *policy_find(PolicyKind kind, const char *name) {
  for (const Policy *const *policy = kinds[kind].list; *policy; policy++)
    if (strcmp((*policy)->name, name) == 0) return *policy;
  return NULL;
}

void *policy_bind(const Policy *policy, const Node *map, Place owner, Arena *arena, Diag *diag) {
  static const OptionSpec no_options[] = {{0}};
  static const char *const own_keys[] = {"name", NULL};
  const OptionSpec *options = policy->options ? policy->options : no_options;
  void *state = arena_alloc(arena, policy->state_size);
  if (option_bind(options, map, own_keys, owner, state, diag)) return NULL;
  if (policy->check && policy->check(state, map, owner, arena, diag)) return NULL;
  return state;
}

PolicyChoice sim_policy(const SimConfig *config, PolicyKind kind) {
  const PolicyChoice *choice = &config->policies[kind];
  return choice->policy ? *choice : (PolicyChoice){policy_list(kind)[0], NULL};
}

PolicyChoice sim_pool_policy(const SimConfig *config, const PoolSpec *pool, PolicyKind kind) {
  const PolicyChoice *own = kind == POLICY_BATCHER ? &pool->batcher : &pool->kvtier;
  return own->policy ? *own : sim_policy(config, kind);
}

/* Whether rooms in which prefill and decode ranks meet are drawn. */
static bool draws_rooms(const PoolSpec *pool, const PolicyChoice *choice) {
  const Batcher *batcher = (const Batcher *)choice->policy;
  if (pool->ranks <= 1 || !batcher->schedules || !choice->state) return false;
  const RankSpread spread = batcher->schedules(choice->state).rank_spread;
  return spread == RANKS_BY_ROOM || (spread == RANKS_AUTO && pool->role != ROLE_MIXED);
}

bool sim_draws(const SimConfig *config) {
  static const PolicyKind kinds[] = {POLICY_ROUTER, POLICY_DISPATCHER, POLICY_PREDICTOR};
  bool draws = config->n_adapters > 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const PolicyChoice choice = sim_policy(config, kinds[i]);
    draws |= choice.policy->draws && choice.policy->draws(choice.state);
  }
  for (uint32_t i = 0; i < config->n_pools; i++) {
    const PolicyChoice batcher = sim_pool_policy(config, &config->pools[i], POLICY_BATCHER);
    draws |= batcher.policy->draws && batcher.policy->draws(batcher.state);
    draws |= config->pools[i].experts != NULL; // whose loads are drawn
    draws |= draws_rooms(&config->pools[i], &batcher);
  }
  for (uint32_t i = 0; i < config->n_faults; i++)
    draws |= config->faults[i].n_spans == 0;
  return draws;
}

bool sim_encodes(const SimConfig *config, const PoolSpec *pool, Tick *ret_time) {
  const PolicyChoice choice = sim_pool_policy(config, pool, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  if (!batcher->schedules || !choice.state) return false;
  const SchedulerLimits limits = batcher->schedules(choice.state);
  *ret_time = limits.encoder_time;
  return limits.encoder_tokens > 0;
}

bool sim_keeps_cache(const SimConfig *config, const PoolSpec *pool) {
  const PolicyChoice choice = sim_pool_policy(config, pool, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  const KvTier *kvtier = (const KvTier *)sim_pool_policy(config, pool, POLICY_KVTIER).policy;
  const PoolPolicy *shaper = (const PoolPolicy *)sim_policy(config, POLICY_POOL).policy;
  return batcher->caches && choice.state && batcher->caches(choice.state) &&
         !kvtier_moves(kvtier) && !shaper->shape;
}

const char *sim_conflict(const Policy *pool, const Policy *batcher, const Policy *kvtier) {
  const Batcher *batches = (const Batcher *)batcher;
  const KvTier *tier = (const KvTier *)kvtier;
  if (((const PoolPolicy *)pool)->shape && kvtier_moves(tier))
    return "the kvtier moves KV to CPU memory, which the stores of GPUs that change shape occupy";
  if (((const PoolPolicy *)pool)->shape && (batches->owns_queues || batches->reorders))
    return "GPUs that change shape take prompts in the order in which their store has room, and "
           "the batcher has its own order";
  if (batches->owns_queues && tier->pick)
    return "the batcher has its own queues and does not support a kvtier that evicts requests";
  if (!batches->reserves_output && !tier->pick)
    return "the batcher lets sequences grow and needs a kvtier that evicts requests when KV memory "
           "is full";
  if (batches->schedules && (kvtier_moves(tier) || ((const PoolPolicy *)pool)->shape))
    return "the batcher recomputes evicted requests and supports neither swapping nor GPUs that "
           "change shape";
  if (tier->swaps && !batches->returns_swapped)
    return "the batcher does not support a kvtier that swaps requests out";
  return NULL;
}
