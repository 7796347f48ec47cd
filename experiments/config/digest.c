/* The digest of a configuration: equal when the outcome must be. What data files say is taken as
 * the numbers that were made of it, so that a comment in one of them does not matter. */
#include "base/cleanup.h"
#include "base/hash.h"
#include "experiments/base/epoch.h"
#include "experiments/base/version.h"
#include "experiments/config/config.h"
#include "perfmodel/power.h"
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"
#include "sim/policies.h"
#include <errno.h>
#include <string.h>

static void fold_reals(uint64_t *hash, const double *values, int n) {
  for (int i = 0; i < n; i++)
    *hash = hash_fold(*hash, hash_bytes(&values[i], sizeof values[i]));
}

/* What layers keep that do not keep every token. */
static void fold_layers(uint64_t *hash, const PoolSpec *pool) {
  const int64_t counts[] = {pool->window_bytes_per_token, pool->window, pool->state_bytes};
  *hash = hash_fold(*hash, hash_bytes(counts, sizeof counts));
  for (int32_t g = 0; pool->layout && g < pool->layout->n_groups; g++) {
    const KvGroupSpec *group = &pool->layout->groups[g];
    const int64_t figures[] = {(int64_t)group->kind, group->block_size, group->window};
    *hash = hash_fold(*hash, hash_bytes(figures, sizeof figures));
  }
}

/* Watts of its GPUs, whatever they are from. */
static void fold_power(uint64_t *hash, const PoolSpec *pool) {
  const PowerModel *power = pool->perfmodel->power;
  const double reals[] = {pool->gpus, pool->rest_power, power->idle, power->cap};
  const PowerTerm *terms[] = {&power->linear, &power->prefill, &power->decode, &power->head};
  fold_reals(hash, reals, sizeof reals / sizeof *reals);
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
    fold_reals(hash, terms[i]->watts.at, POWER_OCTAVES);
}

/* What of loads of experts and of their moves is not in the text: a file, the model, links. */
static void fold_experts(uint64_t *hash, const ExpertSpec *spec) {
  const int64_t counts[] = {spec->load.n_layers, spec->load.n_experts, spec->expert_bytes,
                            spec->node_rate, spec->wide_rate};
  *hash = hash_fold(*hash, hash_bytes(counts, sizeof counts));
  if (spec->load.measured)
    fold_reals(hash, spec->load.measured,
               (size_t)spec->load.n_measured * (size_t)spec->load.n_experts);
}

static void fold_pool(uint64_t *hash, const PoolSpec *pool) {
  const int64_t counts[] = {pool->role,
                            pool->count,
                            pool->kv_blocks,
                            pool->block_size,
                            pool->cpu_kv_blocks,
                            pool->kv_block_bytes,
                            pool->kv_bytes_per_token,
                            pool->host_link.options.to_gpu,
                            pool->host_link.options.to_cpu,
                            pool->weight_bytes,
                            pool->num_hidden_layers,
                            pool->nic_bandwidth,
                            pool->nvlink_bandwidth,
                            pool->kv_transfer_overhead};
  const double reals[] = {pool->idle_power, pool->prefill_power, pool->decode_power,
                          pool->provisioned_power, pool->cost_per_hour};
  *hash = hash_fold(*hash, hash_bytes(counts, sizeof counts));
  if (pool->window_bytes_per_token + pool->state_bytes > 0 || pool->layout) fold_layers(hash, pool);
  if (pool->ranks > 1) *hash = hash_fold(*hash, (uint64_t)pool->ranks);
  if (pool->wake_ticks > 0) *hash = hash_fold(*hash, (uint64_t)pool->wake_ticks);
  if (pool->sleep_ticks > 0) *hash = hash_fold(*hash, (uint64_t)pool->sleep_ticks);
  if (pool->experts) fold_experts(hash, pool->experts);
  fold_reals(hash, reals, sizeof reals / sizeof *reals);
  if (pool->perfmodel->power) fold_power(hash, pool);
  *hash = hash_fold(*hash, pool->perfmodel->digest);
}

/* Instances that are all of a machine cost the same however it is sold. */
static void fold_sold(uint64_t *hash, const PoolConfig *pool) {
  const int64_t gpus = pool->hardware.num_gpus;
  if (pool->hardware.sold == SOLD_WHOLE && parallelism_gpus(config_degrees(pool)) < gpus)
    *hash = hash_fold(*hash, (uint64_t)gpus);
}

/* How many instances are on a machine, where they have a tier of KV together. */
static void fold_shared(uint64_t *hash, const SimConfig *sim, const PoolSpec *pool) {
  const PolicyChoice choice = sim_pool_policy(sim, pool, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  if (!batcher->schedules || !choice.state) return;
  const ConnectorOptions connector = batcher->schedules(choice.state).connector;
  for (int32_t t = 0; t < connector.n_tiers; t++)
    if (connector.tiers[t].shared == KV_STORE_OF_MACHINE)
      *hash = hash_fold(*hash, pool->per_machine);
}

static void fold_group(uint64_t *hash, const GroupSpec *group) {
  const int64_t counts[] = {group->store_blocks, group->turn_bytes[SHAPE_PREFILL],
                            group->turn_bytes[SHAPE_DECODE]};
  *hash = hash_fold(*hash, hash_bytes(counts, sizeof counts));
  fold_reals(hash, group->copy_share, COPY_DIRECTIONS);
}

static int fold_file(uint64_t *hash, const char *path, Diag *diag) {
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  char bytes[1 << 16];
  for (size_t got; file && (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
    *hash = hash_fold(*hash, hash_bytes(bytes, got));
  if (file && !ferror(file)) return 0;
  return diag_environment(diag, place_of_file(path), "cannot read '%s': %s", path, strerror(errno));
}

static void fold_pattern(uint64_t *hash, const RateCurve *curve) {
  *hash = hash_fold(*hash, hash_bytes(curve->at, (size_t)curve->n_points * sizeof *curve->at));
  fold_reals(hash, curve->rates, curve->n_points);
}

/* What tables say of drawn requests. */
static void fold_drawn(uint64_t *hash, const WorkloadConfig *workload) {
  fold_reals(hash, workload->prompt.quantiles, workload->prompt.n_quantiles);
  fold_reals(hash, workload->output.quantiles, workload->output.n_quantiles);
  const LengthDistribution *turns[] = {&workload->sessions.prompt, &workload->sessions.output,
                                       &workload->sessions.turns};
  for (int i = 0; i < 3 && workload->sessions.given; i++)
    fold_reals(hash, turns[i]->quantiles, turns[i]->n_quantiles);
  if (workload->pattern.given) fold_pattern(hash, &workload->pattern.curve);
  for (int i = 0; i < workload->n_components; i++)
    fold_drawn(hash, &workload->components[i].of);
}

static int fold_traces(uint64_t *hash, const WorkloadConfig *workload, Diag *diag) {
  if (workload->trace && fold_file(hash, workload->trace, diag)) return -1;
  for (int i = 0; i < workload->n_components; i++)
    if (fold_traces(hash, &workload->components[i].of, diag)) return -1;
  return 0;
}

typedef struct Rules {
  const char **names;
  size_t n, capacity;
  Arena *arena;
} Rules;

static void add_rule(Rules *self, const char *name) {
  ARENA_RESERVE(self->arena, self->names, self->capacity, self->n + 1);
  self->names[self->n++] = name;
}

static void add_policy(Rules *self, PolicyKind kind, PolicyChoice choice) {
  add_rule(self, arena_printf(self->arena, "%s.%s", policy_kind_name(kind), choice.policy->name));
}

/* KV goes from machine to machine where some do not do both phases. */
static bool transfers(const SimConfig *sim) {
  bool split = false;
  for (uint32_t i = 0; i < sim->n_pools; i++)
    split |= sim->pools[i].role != ROLE_MIXED;
  return split;
}

const char *config_epoch(const Config *self, Arena *arena) {
  const SimConfig *sim = &self->sim;
  Rules rules = {.arena = arena};
  for (int kind = 0; kind < POLICY_KINDS; kind++) {
    if (kind == POLICY_TRANSFER && !transfers(sim)) continue;
    if (kind != POLICY_BATCHER && kind != POLICY_KVTIER)
      add_policy(&rules, (PolicyKind)kind, sim_policy(sim, (PolicyKind)kind));
    for (uint32_t i = 0; (kind == POLICY_BATCHER || kind == POLICY_KVTIER) && i < sim->n_pools; i++)
      add_policy(&rules, (PolicyKind)kind, sim_pool_policy(sim, &sim->pools[i], (PolicyKind)kind));
  }
  if (sim->n_faults > 0 || sim->hedge.after > 0) add_rule(&rules, "faults");
  if (sim->n_components > 0 || sim->n_models > 0 || sim->n_classes > 0)
    add_rule(&rules, "components");
  if (sim->early_rejection.ttft > 0) add_rule(&rules, "early_rejection");
  if (sim->report_interval > 0) add_rule(&rules, "reports");
  if (sim->n_adapters > 0) add_rule(&rules, "adapters");
  if (sim->sleep.awake > 0) add_rule(&rules, "sleep");
  if (sim->flow.watermark > 0) add_rule(&rules, "flow");
  if (sim->uplinks.n > 0) add_rule(&rules, "uplinks");
  return epoch_of(rules.names, rules.n, arena);
}

static uint64_t digest_text(const Config *self, const char *epoch) {
  uint64_t hash = 0;
  hash = hash_text(hash, tandem_version);
  hash = hash_text(hash, epoch);
  hash = hash_text(hash, self->text);
  return hash;
}

uint64_t config_text_digest(const Config *self) {
  Arena arena;
  arena_init(&arena);
  const uint64_t hash = digest_text(self, epoch_of(NULL, 0, &arena));
  arena_done(&arena);
  return hash;
}

int config_digest(const Config *self, uint64_t *ret_digest, Diag *diag) {
  Arena arena;
  arena_init(&arena);
  uint64_t hash = digest_text(self, config_epoch(self, &arena));
  arena_done(&arena);
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    fold_pool(&hash, &self->sim.pools[i]);
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    if (self->pools[i].giver) hash = hash_text(hash, self->pools[i].given);
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    fold_sold(&hash, &self->pools[i]);
  if (self->n_levels > 0) hash = hash_fold(hash, self->n_machines);
  for (uint32_t i = 0; i < self->sim.n_pools; i++)
    fold_shared(&hash, &self->sim, &self->sim.pools[i]);
  for (uint32_t i = 0; i < self->sim.uplinks.n; i++)
    hash = hash_fold(hash, (uint64_t)self->sim.uplinks.bandwidth[i]);
  for (uint32_t i = 0; i < self->sim.n_groups; i++)
    fold_group(&hash, &self->sim.groups[i]);
  for (uint32_t i = 0; i < self->n_models; i++)
    hash = hash_fold(hash, (uint64_t)self->specs[i].max_model_len);
  if (self->sim.request_time > 0) hash = hash_fold(hash, (uint64_t)self->sim.request_time);
  for (uint32_t i = 0; i < self->n_models; i++)
    if (self->specs[i].slo_reference) hash = hash_fold(hash, self->specs[i].slo_reference->digest);
  if (self->energy.g_per_kwh) fold_reals(&hash, self->energy.g_per_kwh, self->energy.n_hours);
  fold_drawn(&hash, &self->workload);
  if (self->sim.saved_caches) hash = hash_fold(hash, self->sim.saved_caches->salt);
  if (fold_traces(&hash, &self->workload, diag)) return -1;
  *ret_digest = hash;
  return 0;
}
