/* Setting up a run. */
#include "base/hash.h"
#include "sim/books/observing.h"
#include "sim/core/arrival.h"
#include "sim/core/connector.h"
#include "sim/core/iteration.h"
#include "sim/core/lanes.h"
#include "sim/core/lockstep.h"
#include "sim/core/loop.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/roles.h"
#include "sim/core/scheduling.h"
#include "sim/core/tier.h"
#include "sim/feature/features.h"
#include "sim/policies.h"
#include "sim/run.h"
#include <string.h>

/* Bytes/s in each direction of the link that KV takes between instances. */
static int64_t link_capacity(const SimConfig *config, const PoolSpec *pool) {
  const int64_t link =
      config->network_path == NETWORK_NVLINK ? pool->nvlink_bandwidth : pool->nic_bandwidth;
  const int64_t network = config->network_bandwidth;
  return network > 0 && network < link ? network : link;
}

/* As Column.refresh of kv_blocks. */
static void catch_up(void *simulation, InstanceIx instance) {
  sim_catch_up(simulation, &((Simulation *)simulation)->instances[instance]);
}

/* All instances of a pool serve the same traffic, so that the loads of their experts are equal. */
static ExpertBalance *init_experts(const Simulation *self, const PoolSpec *pool, uint32_t number) {
  ExpertBalance *experts = ARENA_NEW(self->arena, ExpertBalance);
  expert_balance_init(experts, pool->experts, self->config->seed,
                      arena_printf(self->arena, "experts of pool %u", number), self->arena);
  return experts;
}

static void init_instances(Simulation *self) {
  const SimConfig *config = self->config;
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->n_instances += config->pools[p].count;
  self->instances = ARENA_ARRAY(self->arena, Instance, self->n_instances);
  int64_t *capacities = ARENA_ARRAY(self->arena, int64_t, self->n_instances + 1);
  InstanceIx ix = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    Histogram *batch_tokens = ARENA_NEW(self->arena, Histogram);
    histogram_init(batch_tokens, self->arena);
    const uint32_t lanes = pool_replica_lanes(pool);
    Pipeline *pipeline = NULL;
    CopyQueue *copies = NULL;
    Lockstep *lockstep = NULL;
    for (uint32_t i = 0; i < pool->count; i++, ix++) {
      if (i % lanes == 0) copies = ARENA_NEW(self->arena, CopyQueue);
      if (pool_ranks(pool) > 1 && i % lanes == 0) {
        lockstep = ARENA_NEW(self->arena, Lockstep);
        lockstep_init(lockstep, &self->instances[ix], lanes, self->arena);
        if (pool->experts) lockstep->experts = init_experts(self, pool, p);
      }
      if (pool->pipeline_stages > 1 && i % lanes == 0) {
        pipeline = ARENA_NEW(self->arena, Pipeline);
        pipeline_init(pipeline, pool->pipeline_stages, self->arena);
        lanes_init(pipeline, &self->instances[ix], lanes, self->arena);
      }
      self->instances[ix] = (Instance){.pool = pool,
                                       .perfmodel = pool->perfmodel,
                                       .ix = ix,
                                       .role = pool->role,
                                       .home = pool->role,
                                       .listed = true,
                                       .down_since = -1,
                                       .link_factor = 1,
                                       .off_since = -1,
                                       .starts_since = -1,
                                       .prefill_queue = REQUEST_QUEUE_EMPTY,
                                       .decode_queue = REQUEST_QUEUE_EMPTY,
                                       .blocked = REQUEST_QUEUE_EMPTY,
                                       .swapped = REQUEST_QUEUE_EMPTY,
                                       .inbound = REQUEST_QUEUE_EMPTY,
                                       .running = REQUEST_QUEUE_EMPTY,
                                       .leaving = REQUEST_QUEUE_EMPTY,
                                       .pipeline = pipeline,
                                       .lockstep = lockstep,
                                       .copies = copies,
                                       .free_cpu_blocks = pool->cpu_kv_blocks,
                                       .batch_tokens = batch_tokens};
      batch_init(&self->instances[ix].batch, pool->block_size, self->arena);
      capacities[ix] = link_capacity(config, pool);
    }
  }
  capacities[self->n_instances] = config->checkpoint.bandwidth;
  links_init(&self->links, capacities, self->n_instances + 1, self->arena);
  links_set_uplinks(&self->links, &config->uplinks);
}

static void init_deployments(Simulation *self) {
  const SimConfig *config = self->config;
  self->n_deployments = sim_n_models(config);
  self->deployments = ARENA_ARRAY(self->arena, Deployment, self->n_deployments);
  cluster_columns_init(&self->columns, self->n_instances, self->n_deployments, self->arena);
  self->columns.kv_blocks->refresh = catch_up;
  self->columns.kv_blocks->context = self;
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    *deployment = (Deployment){.spec = sim_model(config, d),
                               .front = REQUEST_QUEUE_EMPTY,
                               .smallest_room = INT64_MAX,
                               .smallest_store = INT64_MAX,
                               .longest_input = INT64_MAX};
    cluster_init(&deployment->view, &self->columns, d, self->instances, self->n_instances,
                 self->arena);
    deployment->view.heavy_above = config->heavy_above;
  }
}

/* Its layers are in groups. */
static void start_groups(Simulation *self, Instance *instance, bool caches) {
  Scheduler *scheduler = instance->scheduler;
  const SchedulerLimits *limits = &scheduler->limits;
  const int64_t threshold = limits->long_prefill_token_threshold;
  const KvGroupOptions options = {
      .caches = caches,
      .retention = limits->retention,
      .max_in_flight = (1 + limits->lag) * limits->max_num_batched_tokens,
      .max_chunk = threshold > 0 && threshold < limits->max_tokens ? threshold : limits->max_tokens,
      .max_model_len = scheduler->max_model_len,
      .lag = limits->lag,
      .drafts = limits->speculation.num_speculative_tokens};
  PrefixCache *pool = instance->cache;
  if (!pool) {
    pool = ARENA_NEW(self->arena, PrefixCache);
    prefix_cache_init(pool, instance->pool->kv_blocks, self->arena);
  }
  instance->kv_groups = ARENA_NEW(self->arena, KvGroups);
  kv_groups_init(instance->kv_groups, instance->pool->layout, &options, pool, self->arena);
  batch_keep_visits(&instance->batch, self->arena);
  self->keeps_content = true;
}

static void start_cache(Simulation *self, Instance *instance) {
  self->keeps_content = true;
  if (instance->batcher->keeps_radix) {
    instance->radix = ARENA_NEW(self->arena, Radix);
    radix_init(instance->radix, instance->pool->kv_blocks, instance->pool->block_size, self->arena);
    return;
  }
  instance->cache = ARENA_NEW(self->arena, PrefixCache);
  prefix_cache_init(instance->cache, instance->pool->kv_blocks, self->arena);
  if (instance->scheduler)
    instance->cache->lookahead = instance->scheduler->limits.speculation.prefill_lookahead;
  if (self->config->saved_caches)
    prefix_cache_load(instance->cache, &self->config->saved_caches->instances[instance->ix],
                      instance->pool->block_size);
  if (!instance->pool->layout) batch_keep_lists(&instance->batch, self->arena);
}

/* Of one of several ranks with schedulers of their own. */
static const Loop *loop_of(const Instance *instance) {
  const SchedulerLimits limits = instance->batcher->schedules(instance->batcher_options);
  return limits.one_round ? &loop_of_rank_rounds : &loop_of_ranks;
}

/* The options are those of the pool; a batcher may keep there what its instances share. */
static void init_instance_policies(Simulation *self) {
  const SimConfig *config = self->config;
  const PoolSpec *pool = NULL;
  PolicyChoice batcher = {0}, kvtier = {0};
  void *options[2] = {NULL, NULL};
  for (uint32_t m = 0; m < self->n_instances; m++) {
    Instance *instance = &self->instances[m];
    if (instance->pool != pool) {
      pool = instance->pool;
      batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
      kvtier = sim_pool_policy(config, pool, POLICY_KVTIER);
      options[0] = policy_state_copy(&batcher, self->arena);
      options[1] = policy_state_copy(&kvtier, self->arena);
    }
    instance->batcher = (const Batcher *)batcher.policy;
    instance->batcher_options = options[0];
    instance->batcher_state = arena_alloc(self->arena, instance->batcher->instance_state_size);
    const bool flies = pool->pipeline_stages > 1 && pool_replica_lanes(pool) == 1;
    assert(!instance->lockstep || instance->batcher->schedules);
    instance->loop = !instance->batcher->schedules ? &loop_of_plans
                     : instance->lockstep          ? loop_of(instance)
                     : flies                       ? &loop_of_flights
                                                   : &loop_of_steps;
    if (instance->loop->start) instance->loop->start(self, instance);
    instance->kvtier = (const KvTier *)kvtier.policy;
    instance->kvtier_options = options[1];
    sim_start_tier(self, instance);
    const bool caches = sim_keeps_cache(config, pool);
    if (caches) start_cache(self, instance);
    if (pool->layout && instance->batcher->groups_layers) start_groups(self, instance, caches);
    if (instance->scheduler) {
      scheduler_limit_drafts(instance);
      connector_start(self, instance);
    }
    Deployment *deployment = sim_deployment_of(self, instance);
    if (instance_room(instance) < deployment->smallest_room)
      deployment->smallest_room = instance_room(instance);
    const InstanceView view = sim_view(self, instance);
    if (instance->batcher->start)
      instance->batcher->start(instance->batcher_options, instance->batcher_state, &view,
                               self->arena);
  }
}

/* Each draws from streams of its own. */
static void start_policies(Simulation *self, Deployment *deployment, uint64_t seed) {
  const ClusterView *view = sim_cluster(self, deployment);
  if (self->router->start) self->router->start(deployment->router_state, view, seed, self->arena);
  if (self->dispatcher->start)
    self->dispatcher->start(deployment->dispatcher_state, view, seed, self->arena);
  if (self->pool_policy->start) self->pool_policy->start(deployment->pool_state, view, self->arena);
}

static void init_policies(Simulation *self) {
  const SimConfig *config = self->config;
  PolicyChoice choices[POLICY_KINDS];
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    choices[kind] = sim_policy(config, (PolicyKind)kind);
  self->router = (const Router *)choices[POLICY_ROUTER].policy;
  self->predictor = (const Predictor *)choices[POLICY_PREDICTOR].policy;
  self->dispatcher = (const Dispatcher *)choices[POLICY_DISPATCHER].policy;
  self->pool_policy = (const PoolPolicy *)choices[POLICY_POOL].policy;
  self->transfer = (const TransferPolicy *)choices[POLICY_TRANSFER].policy;
  self->transfer_state = policy_state_copy(&choices[POLICY_TRANSFER], self->arena);
  for (uint32_t d = 0; d < self->n_deployments; d++) {
    Deployment *deployment = &self->deployments[d];
    deployment->view.roles_move = self->pool_policy->moves_roles;
    deployment->router_state = policy_state_copy(&choices[POLICY_ROUTER], self->arena);
    deployment->predictor_state = policy_state_copy(&choices[POLICY_PREDICTOR], self->arena);
    deployment->dispatcher_state = policy_state_copy(&choices[POLICY_DISPATCHER], self->arena);
    deployment->pool_state = policy_state_copy(&choices[POLICY_POOL], self->arena);
  }
  self->keeps_content = self->router->knows_content;
  init_instance_policies(self);
  features_prepare(self);
  for (uint32_t d = 0; d < self->n_deployments; d++)
    start_policies(self, &self->deployments[d], d == 0 ? config->seed : hash_fold(config->seed, d));
}

static void init_metrics(Simulation *self, Metrics *metrics) {
  metrics_init(metrics, self->arena);
  metrics->good_limits = self->config->good_limits;
  metrics->window = self->config->window;
}

static void init_components(Simulation *self) {
  const SimConfig *config = self->config;
  const uint32_t n_classes = config->n_components > 0 ? config->n_classes : 0;
  self->components = ARENA_ARRAY(self->arena, ComponentMetrics, config->n_components + n_classes);
  for (uint32_t i = 0; i < config->n_components; i++) {
    component_metrics_init(&self->components[i], self->arena);
    self->components[i].good_limits = *sim_good_limits(config, i);
  }
  for (uint32_t i = 0; i < n_classes; i++) {
    ComponentMetrics *metrics = &self->components[config->n_components + i];
    const GoodputLimits *own = config->classes[i].good_limits;
    component_metrics_init(metrics, self->arena);
    metrics->good_limits = own ? *own : config->good_limits;
  }
  self->metrics.components = self->components;
}

void sim_init(Simulation *self, const SimConfig *config, Arena *arena, Diag *diag) {
  *self = (Simulation){.config = config, .arena = arena, .diag = diag};
  self->step = config->step || config->executor || config->on_step;
  self->plan.arena = arena;
  self->transfers.first_free = TRANSFER_NONE;
  agenda_init(&self->agenda, config->tie_seed, arena);
  request_table_init(&self->requests, arena);
  self->handlers[EVENT_ARRIVAL] = sim_handle_arrival;
  self->handlers[EVENT_ITERATION] = sim_handle_iteration;
  self->handlers[EVENT_TRANSFER] = sim_handle_transfer;
  self->handlers[EVENT_CONNECTOR] = sim_handle_connector;
  init_instances(self);
  init_deployments(self);
  agenda_reserve(&self->agenda, EVENT_ARRIVAL, 1);
  agenda_reserve(&self->agenda, EVENT_ITERATION, self->n_instances);
  self->warmed_up_at = -1;
  init_metrics(self, &self->metrics);
  init_components(self);
  init_metrics(self, &self->warm_up_metrics);
  self->first_counted = UINT64_MAX;
  eventlog_init(&self->log, config->event_log);
  if (config->keeps_batches) {
    self->batches = ARENA_NEW(arena, Batches);
    batches_init(self->batches, config->ranged, arena);
    if (config->without_ranges)
      self->batches->ranged = 0;
    else
      batches_range_components(self->batches, config->ranged_components,
                               config->n_ranged_components);
  }
  self->keeps_parts = config->keeps_parts;
  if (self->keeps_parts)
    self->instance_parts = ARENA_ARRAY(self->arena, InstanceParts, self->n_instances);
  sim_start_observing(self);
  init_policies(self);
  features_start(self);
  sim_pull(self);
}
