/* The keys `faults` of the run and of its pools: what fails, for how long, and what becomes of the
 * requests that are lost with it (sim/faults.h).
 *
 * Every GPU is a source of its own, which takes its replica: all stages and the GPUs that share
 * their layers. A machine as it is bought is one over the instances that lie on it, one after
 * another, or one of the machines of an instance. Numbers of instances count from 0 in their pool.
 * The two pools of a group are the same GPUs, so that one of them says what fails. */
#include "experiments/config/faults.h"
#include "perfmodel/time_scale.h"
#include "sim/batcher/batcher.h"
#include "sim/core/scheduler.h"
#include "sim/router/router.h"
#include <string.h>

/* Llama 3 (arXiv:2407.21783), Table 5: 419 unexpected interruptions in 54 days on 16,384 H100. */
#define GPU_MTBF (16384 * 54 * 86400.0 / 419)
/* What Cui et al. (arXiv:2503.11901) take for the recovery of a node. */
#define MTTR (2.2 * 3600)
enum { SOURCES_MAX = 4000000 };

static const char *const lifetime_choices[] = {"constant", "exponential", "weibull", "lognormal",
                                               NULL}; // as LifetimeKind

#define LIFE(field, type_, ...) OPTION_OF(LifetimeKeys, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_lifetime_options[] = {
    LIFE(mtbf, LIFETIME, .min = 1e-3, .max = 1e12,
         .help = "Mean time from a repair to the next failure of one unit (MTBF).", .also = "mttf",
         .absent = "50700 h for a GPU (Llama 3, Table 5); else required"),
    LIFE(mttr, LIFETIME, .min = 1e-3, .max = FAULTS_FOR_EVER,
         .help = "Mean time to repair (MTTR), without the start of the engine.",
         .absent = "2.2 h (Cui et al. 2025)"),
    LIFE(distribution, CHOICE, .fallback = "exponential", .choices = lifetime_choices,
         .help = "Distribution of the time between failures."),
    LIFE(shape, REAL, .min = 0.05, .max = 100,
         .help = "Shape of the weibull distribution, or sigma of the lognormal one.",
         .absent = "none; needed by both"),
    LIFE(repair, CHOICE, .fallback = "exponential", .choices = lifetime_choices,
         .help = "Distribution of the time to repair."),
    LIFE(repair_shape, REAL, .min = 0.05, .max = 100,
         .help = "Shape or sigma of the distribution of the time to repair.",
         .absent = "none; needed by both"),
    {0}};

const char *const fault_kind_choices[] = {"fail", "drain", "slow",
                                          "link", "store", NULL}; // as FaultKind

typedef struct OutageKeys {
  Tick at, length;
  int64_t machine, rank;
  int kind;
  double factor;
} OutageKeys;

#define OUTAGE(name, field, type_, ...)                                                            \
  OPTION_AT(OutageKeys, name, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_outage_options[] = {
    OUTAGE("at", at, TICKS, .required = true, .min = 1e-6, .max = FAULTS_FOR_EVER,
           .help = "Time at which the outage begins."),
    OUTAGE("for", length, TICKS, .min = 1e-6, .max = FAULTS_FOR_EVER,
           .help = "Duration of the outage.", .absent = "until the end of the run"),
    OUTAGE("machine", machine, INT, .required = true, .min = 0, .max = 1e7,
           .help = "Number of the instance in its pool, from 0."),
    OUTAGE("rank", rank, INT, .min = 0, .max = 1e7,
           .help = "Number of the attention rank that fails, from 0. It needs on_rank_failure: "
                   "shrink.",
           .absent = "all of the instance"),
    OUTAGE("kind", kind, CHOICE, .fallback = "fail", .choices = fault_kind_choices,
           .help = "Kind of outage: the instance fails, finishes its requests and stops (drain), "
                   "runs slower (slow), or loses its NIC (link) or its group's store (store)."),
    OUTAGE("factor", factor, REAL, .min = 1, .max = SLOWDOWN_MAX,
           .help = "Factor on the iteration times (slow) or on the transfer times (link).",
           .absent = "required for slow; else the link is down"),
    {0}};

typedef struct PoolFaults {
  const Node *gpu, *machine, *link, *store, *schedule;
  int on_rank_failure;
  Tick rank_recovery, rank_rejoin;
} PoolFaults;

static const char *const rank_failure_choices[] = {"stop", "shrink", NULL};

#define POOL(field, ...) OPTION_OF(PoolFaults, field, OPTION_NODE, __VA_ARGS__)

const OptionSpec config_pool_faults_options[] = {
    POOL(gpu, .help = "Failures of each GPU. A failed GPU takes its replica down.",
         .absent = "no failures"),
    POOL(machine,
         .help = "Failures of each machine. A failed machine takes down every instance on it.",
         .absent = "no failures"),
    POOL(link, .help = "Failures of the NIC of each instance. KV transfers over it wait.",
         .absent = "no failures"),
    POOL(store, .help = "Failures of the store of each group. Its KV is lost; its GPUs go on.",
         .absent = "no failures"),
    POOL(schedule, .help = "List of outages at given times.", .absent = "none"),
    OPTION_OF(PoolFaults, on_rank_failure, OPTION_CHOICE, .fallback = "stop",
              .choices = rank_failure_choices,
              .help = "Reaction of the other attention ranks of an instance to the failure of "
                      "one: they stop with it, or go on and take its experts over (SGLang "
                      "--elastic-ep-backend). 'shrink' needs expert_load, and ranks that decide "
                      "together (batcher sglang)."),
    OPTION_OF(PoolFaults, rank_recovery, OPTION_TICKS, .fallback = "6 s", .max = FAULTS_FOR_EVER,
              .help = "Time from the failure of a rank until the others go on, beside moving "
                      "experts (SGLang's Elastic EP: 6.2 to 6.8 s in all, on 32 GPUs)."),
    OPTION_OF(PoolFaults, rank_rejoin, OPTION_TICKS, .fallback = "0 s", .max = FAULTS_FOR_EVER,
              .help = "Time that all ranks wait for one that has started again, without moving "
                      "experts."),
    {0}};

typedef struct RecoveryKeys {
  Tick detection;
  const Node *retry, *checkpoint, *hedge;
} RecoveryKeys;

const OptionSpec config_recovery_options[] = {
    {"detection", OPTION_TICKS, offsetof(RecoveryKeys, detection), "30 s", .max = FAULTS_FOR_EVER,
     .help = "Time from a failure until the router knows it (Kubernetes: 3 probes, 10 s apart)."},
    {"retry", OPTION_NODE, offsetof(RecoveryKeys, retry), .help = "Retries of lost requests.",
     .absent = "the defaults of its keys"},
    {"checkpoint", OPTION_NODE, offsetof(RecoveryKeys, checkpoint),
     .help = "Store for the KV of prompts, from which lost requests resume with their decode.",
     .absent = "none; prompts are computed again"},
    {"hedge", OPTION_NODE, offsetof(RecoveryKeys, hedge),
     .help = "Hedging: a request that waits is sent to a second instance too.",
     .absent = "no hedging"},
    {0}};

#define HEDGE(field, type_, ...) OPTION_OF(HedgeOptions, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_hedge_options[] = {
    HEDGE(
        after, TICKS, .required = true, .min = 1e-6, .max = FAULTS_FOR_EVER,
        .help =
            "Time after its placement at which a request is hedged, unless its prefill has ended."),
    HEDGE(share, REAL, .fallback = "0.05", .min = 0, .max = 1,
          .help =
              "Maximum share of all requests so far that are hedged (Dean and Barroso 2013: 5%)."),
    {0}};

#define CHECKPOINT(field, type_, ...)                                                              \
  OPTION_OF(CheckpointOptions, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_checkpoint_options[] = {
    CHECKPOINT(bandwidth, BANDWIDTH, .required = true, .min = 1, .max = 1e18,
               .help = "Bandwidth of the store's network in each direction."),
    CHECKPOINT(capacity, BYTES, .min = 1, .max = 1e18,
               .help = "Capacity of the store. A full store takes no more KV.",
               .absent = "no limit"),
    {0}};

#define RETRY(field, type_, ...) OPTION_OF(RetryOptions, field, OPTION_##type_, __VA_ARGS__)

const OptionSpec config_retry_options[] = {
    RETRY(limit, INT, .fallback = "3", .max = 1e6,
          .help = "Maximum number of retries of a request."),
    RETRY(backoff, TICKS, .fallback = "25 ms", .max = 86400,
          .help = "Time before the first retry. It doubles with each retry."),
    RETRY(most_backoff, TICKS, .fallback = "250 ms", .max = 86400,
          .help = "Maximum time before a retry. 0 s means no limit."),
    RETRY(resume, BOOL, .fallback = "false",
          .help = "Send the tokens that the client already has as part of the prompt, instead of "
                  "generating them again."),
    {0}};

/* --- the sources of a pool */

/* Ranks that fail alone are not maintained. */
static int check_drain(const FaultBinder *self, const Node *node, const FaultSource *source) {
  for (uint32_t k = 0; k <= source->n_others && source->kind == FAULT_DRAIN; k++) {
    const PoolSpec *pool = self->specs;
    for (uint32_t first = pool->count; fault_part(source, k).first >= first; first += pool->count)
      pool++;
    if (pool->shrinks)
      return diag_error(self->diag, node->key_at,
                        "maintenance is not combined with 'on_rank_failure: shrink' of pool '%s'",
                        pool->name);
  }
  return 0;
}

int faults_add(FaultBinder *self, const Node *node, const FaultSource *source) {
  SimConfig *sim = &self->config->sim;
  if (check_drain(self, node, source)) return -1;
  if (sim->n_faults == SOURCES_MAX)
    return diag_error(self->diag, node->key_at, "more than %d GPUs and machines have faults",
                      SOURCES_MAX);
  ARENA_RESERVE(self->arena, self->sources, self->capacity, sim->n_faults + 1);
  self->sources[sim->n_faults++] = *source;
  return 0;
}

static bool has_shape(int distribution) {
  return distribution == LIFETIME_WEIBULL || distribution == LIFETIME_LOGNORMAL;
}

static int check_shape(const Node *node, int distribution, const char *shape, Diag *diag) {
  const Node *written = node_find(node, shape);
  if (has_shape(distribution) == (written != NULL)) return 0;
  if (written)
    return diag_error(diag, written->key_at, "'%s' applies to weibull and lognormal, not to %s",
                      shape, lifetime_choices[distribution]);
  return diag_error(diag, node->key_at, "a %s distribution needs '%s'",
                    lifetime_choices[distribution], shape);
}

int faults_bind_lifetime(LifetimeKeys *keys, const Node *node, double mtbf, Diag *diag) {
  *keys = (LifetimeKeys){0};
  if (option_bind(config_lifetime_options, node, NULL, node->at, keys, diag)) return -1;
  const Node *mttr = node_find(node, "mttr");
  if (keys->mtbf == 0 && (mttr || mtbf == 0)) {
    diag_error(diag, mttr ? mttr->key_at : node->key_at, "%s needs 'mtbf'",
               mttr ? "'mttr'" : "a source of failures");
    return diag_hint(diag, "set the mean time between failures, such as mtbf: 50700 h");
  }
  if (keys->mtbf == 0) keys->mtbf = mtbf;
  if (keys->mttr == 0) keys->mttr = MTTR;
  return check_shape(node, keys->distribution, "shape", diag) |
         check_shape(node, keys->repair, "repair_shape", diag);
}

int faults_check_up(const FaultBinder *self, const PoolSpec *pool, const Node *node, double mtbf) {
  const double start_up = tick_seconds(pool_start_ticks(pool));
  if (mtbf > start_up) return 0;
  char up[32], start[32];
  units_format(up, sizeof up, DIM_TIME, mtbf);
  units_format(start, sizeof start, DIM_TIME, start_up);
  return diag_error(
      self->diag, node->key_at,
      "an instance of '%s' would fail every %s on average, before it has started, which takes %s",
      pool->name, up, start);
}

/* Sources of `kind`: `times` of them for each `together` instances, one after another. `mtbf` as
 * for faults_bind_lifetime. */
static int bind_sources(FaultBinder *self, const Node *node, FaultKind kind, double mtbf,
                        int64_t together, int64_t times) {
  LifetimeKeys keys;
  if (faults_bind_lifetime(&keys, node, mtbf, self->diag)) return -1;
  const uint32_t count = self->pool->spec.count;
  int status = kind == FAULT_FAIL
                   ? faults_check_up(self, &self->pool->spec, node, keys.mtbf / (double)times)
                   : 0;
  for (uint32_t i = 0; i < count && !status; i += (uint32_t)together) {
    const FaultSource source = {.kind = kind,
                                .first = self->first + i,
                                .n_instances =
                                    count - i < together ? count - i : (uint32_t)together,
                                .up = {(LifetimeKind)keys.distribution, keys.mtbf, keys.shape},
                                .down = {(LifetimeKind)keys.repair, keys.mttr, keys.repair_shape}};
    for (int64_t k = 0; k < times && !status; k++)
      status = faults_add(self, node, &source);
  }
  return status;
}

const GroupSpec *faults_group(const SimConfig *sim, uint32_t pool) {
  for (uint32_t g = 0; g < sim->n_groups; g++)
    if (sim->groups[g].pools[SHAPE_PREFILL] == pool || sim->groups[g].pools[SHAPE_DECODE] == pool)
      return &sim->groups[g];
  return NULL;
}

/* Whether a pool, in a group or in none, can have faults of a kind. */
static int check_kind(const FaultBinder *self, Place at, FaultKind kind) {
  const bool grouped = faults_group(&self->config->sim, self->ix);
  if (kind == FAULT_STORE && !grouped) {
    diag_error(self->diag, at, "pool '%s' is in no group and has no store", self->pool->spec.name);
    return diag_hint(self->diag,
                     "only 'groups' have stores; elsewhere these can fail: gpu, machine, link");
  }
  if (!grouped || (kind != FAULT_DRAIN && kind != FAULT_LINK)) return 0;
  diag_error(self->diag, at, "%s cannot be used with pool '%s', which is in a group",
             kind == FAULT_DRAIN ? "maintenance" : "links", self->pool->spec.name);
  return diag_hint(self->diag,
                   kind == FAULT_DRAIN
                       ? "groups do not drain; they support fail, slow and store"
                       : "the KV of a group uses no NIC; groups support fail, slow and store");
}

/* The same of the other shape of its GPUs: they are slow in both. */
static int add_other_shape(FaultBinder *self, const Node *node, FaultSource source,
                           uint32_t replica) {
  const SimConfig *sim = &self->config->sim;
  const GroupSpec *group = faults_group(sim, self->ix);
  if (!group || source.kind != FAULT_SLOW) return 0;
  const uint32_t other = group->pools[group->pools[SHAPE_PREFILL] == self->ix];
  source.first = 0;
  for (uint32_t p = 0; p < other; p++)
    source.first += sim->pools[p].count;
  source.n_instances = sim->pools[other].lanes;
  source.first += replica * source.n_instances;
  return faults_add(self, node, &source);
}

int faults_check_factor(const Node *node, int kind, double factor, Diag *diag) {
  if (kind == FAULT_SLOW && factor == 0)
    return diag_error(diag, config_place(node, "kind"), "'kind: slow' needs 'factor'");
  if (kind != FAULT_SLOW && kind != FAULT_LINK && factor > 0)
    return diag_error(diag, config_place(node, "factor"),
                      "'factor' needs 'kind: slow' or 'kind: link'");
  return 0;
}

FaultSpan *faults_span(Tick at, Tick length, Arena *arena) {
  FaultSpan *span = ARENA_NEW(arena, FaultSpan);
  *span = (FaultSpan){.from = at,
                      .until = length > 0 && length < TICK_MAX - at ? at + length : TICK_MAX};
  return span;
}

MachineShare faults_share(const PoolConfig *pool) {
  const int64_t gpus = parallelism_gpus(config_degrees(pool));
  const int64_t instances = pool->hardware.num_gpus * pool->nnodes / gpus * pool->spec.lanes;
  return (MachineShare){(uint32_t)pool->nnodes, (uint32_t)instances};
}

/* A rank is numbered in its instance as it is bought. */
static int check_rank(const FaultBinder *self, const Node *rank, const OutageKeys *keys) {
  const PoolSpec *spec = &self->specs[self->ix];
  if (!spec->shrinks || keys->kind != FAULT_FAIL)
    return diag_error(self->diag, rank->key_at,
                      "'rank' needs 'on_rank_failure: shrink' and kind 'fail'");
  if (keys->rank < spec->lanes) return 0;
  return diag_error(self->diag, rank->at, "an instance of pool '%s' has the ranks 0 to %u",
                    spec->name, spec->lanes - 1);
}

static int bind_outage(FaultBinder *self, const Node *node) {
  OutageKeys keys = {0};
  if (option_bind(config_outage_options, node, NULL, node->at, &keys, self->diag)) return -1;
  const PoolSpec *spec = &self->pool->spec;
  const uint32_t n = spec->count / spec->lanes;
  if (check_kind(self, config_place(node, "kind"), (FaultKind)keys.kind)) return -1;
  if (faults_check_factor(node, keys.kind, keys.factor, self->diag)) return -1;
  if (keys.machine >= n) {
    diag_error(self->diag, config_place(node, "machine"), "pool '%s' has no instance %lld",
               spec->name, (long long)keys.machine);
    return diag_hint(self->diag, "its instances are 0 to %u", n - 1);
  }
  const Node *rank = node_find(node, "rank");
  if (rank && check_rank(self, rank, &keys)) return -1;
  const FaultSource source = {.kind = (FaultKind)keys.kind,
                              .factor = keys.factor,
                              .first = self->first + (uint32_t)keys.machine * spec->lanes +
                                       (uint32_t)keys.rank,
                              .n_instances = rank ? 1 : spec->lanes,
                              .spans = faults_span(keys.at, keys.length, self->arena),
                              .n_spans = 1};
  return faults_add(self, node, &source) |
         add_other_shape(self, node, source, (uint32_t)keys.machine);
}

static int bind_schedule(FaultBinder *self, const Node *node) {
  if (node->kind != NODE_LIST || node->n_children == 0)
    return diag_error(self->diag, node->at,
                      "'schedule' must be a list of outages, such as "
                      "[{at: 2 h, for: 30 min, machine: 0}]");
  int status = 0;
  for (const Node *child = node->first; child; child = child->next)
    status |= bind_outage(self, child);
  return status;
}

/* The GPUs of a group fail once, not once for each shape. */
static int check_once(const FaultBinder *self, const Node *node) {
  const GroupSpec *group = faults_group(&self->config->sim, self->ix);
  if (!group || group->pools[SHAPE_DECODE] != self->ix ||
      !self->config->pools[group->pools[SHAPE_PREFILL]].faults)
    return 0;
  const char *prefill = self->config->sim.pools[group->pools[SHAPE_PREFILL]].name;
  diag_error(self->diag, node->key_at,
             "pools '%s' and '%s' share their GPUs, and both have 'faults'", prefill,
             self->pool->spec.name);
  return diag_hint(self->diag, "set the faults of the group in one of them, such as '%s'", prefill);
}

/* Whether the batcher's ranks go on without each other. */
static bool may_shrink(const FaultBinder *self) {
  const PoolSpec *spec = &self->specs[self->ix];
  const PolicyChoice choice = sim_pool_policy(&self->config->sim, spec, POLICY_BATCHER);
  const Batcher *batcher = (const Batcher *)choice.policy;
  return spec->ranks > 1 && spec->experts && batcher->schedules(choice.state).one_round;
}

static int bind_shrinking(FaultBinder *self, const Node *node, const PoolFaults *keys) {
  PoolSpec *spec = &self->specs[self->ix];
  const Place at = config_place(node, "on_rank_failure");
  if (!may_shrink(self)) {
    diag_error(self->diag, at,
               "'on_rank_failure: shrink' applies to attention ranks that decide together, whose "
               "loads of experts are followed");
    return diag_hint(self->diag, "set 'expert_load' and 'attention_data_parallel_size', and "
                                 "batcher 'sglang'");
  }
  const char *other = spec->scaling.max > 0                        ? "'scaling'"
                      : faults_group(&self->config->sim, self->ix) ? "'groups'"
                                                                   : NULL;
  if (other)
    return diag_error(self->diag, at, "'on_rank_failure: shrink' is not combined with %s", other);
  spec->shrinks = true;
  spec->rank_recovery = keys->rank_recovery;
  spec->rank_rejoin = keys->rank_rejoin;
  return 0;
}

static int bind_pool(FaultBinder *self) {
  PoolFaults keys = {0};
  const Node *node = self->pool->faults;
  if (option_bind(config_pool_faults_options, node, NULL, node->at, &keys, self->diag)) return -1;
  if (!keys.gpu && !keys.machine && !keys.link && !keys.store && !keys.schedule) {
    diag_error(self->diag, node->key_at, "'faults' of pool '%s' names nothing that fails",
               self->pool->spec.name);
    return diag_hint(self->diag, "add 'gpu', 'machine', 'link' or 'schedule', such as gpu: {}");
  }
  int status = check_once(self, node);
  if (keys.link) status |= check_kind(self, keys.link->key_at, FAULT_LINK);
  if (keys.store) status |= check_kind(self, keys.store->key_at, FAULT_STORE);
  if (status) return -1;
  if (keys.on_rank_failure && bind_shrinking(self, node, &keys)) return -1;
  const int64_t gpus = parallelism_gpus(config_degrees(self->pool));
  const int64_t lanes = self->pool->spec.lanes, ranks = pool_replica_lanes(&self->pool->spec);
  const int64_t each = keys.on_rank_failure ? 1 : ranks;
  MachineShare share = faults_share(self->pool);
  if (keys.on_rank_failure && share.machines > 1 && ranks % share.machines == 0)
    share = (MachineShare){1, (uint32_t)ranks / share.machines};
  if (keys.gpu)
    status |= bind_sources(self, keys.gpu, FAULT_FAIL, GPU_MTBF, each,
                           gpus / self->pool->data_parallel_size * each / ranks);
  if (keys.machine)
    status |= bind_sources(self, keys.machine, FAULT_FAIL, 0, share.instances, share.machines);
  if (keys.link) status |= bind_sources(self, keys.link, FAULT_LINK, 0, lanes, 1);
  if (keys.store) status |= bind_sources(self, keys.store, FAULT_STORE, 0, lanes, 1);
  if (keys.schedule) status |= bind_schedule(self, keys.schedule);
  return status;
}

/* Of groups the prompts lie in stores of their own, and who resumes has a longer one. */
static int bind_checkpoint(Config *self, const Node *node, Diag *diag) {
  SimConfig *sim = &self->sim;
  if (option_bind(config_checkpoint_options, node, NULL, node->at, &sim->checkpoint, diag))
    return -1;
  if (sim->n_groups > 0)
    return diag_error(diag, node->key_at,
                      "'checkpoint' cannot be used with groups, whose KV has a store");
  if (!sim->retry.resume) return 0;
  diag_error(diag, node->key_at, "'checkpoint' and 'retry.resume' exclude each other");
  return diag_hint(diag,
                   "a checkpoint holds the prompt alone: tokens after the first are made again");
}

static int bind_hedge(Config *self, const Node *node, Diag *diag) {
  SimConfig *sim = &self->sim;
  if (option_bind(config_hedge_options, node, NULL, node->at, &sim->hedge, diag)) return -1;
  const Router *router = (const Router *)sim_policy(sim, POLICY_ROUTER).policy;
  if (sim->n_groups > 0)
    return diag_error(diag, node->key_at, "'hedge' cannot be used with groups");
  if (!router->observe) return 0;
  diag_error(diag, node->key_at,
             "'hedge' cannot be used with router '%s', which counts what it sent to each instance",
             router->policy.name);
  return diag_hint(
      diag, "a copy goes to the instance with the fewest pending tokens, whatever the router "
            "decides; these routers support it: jsq, token_jsq, llm_d, prefix_affinity");
}

int config_bind_faults(Config *self, const Node *node, const Node *domains, Arena *arena,
                       Diag *diag) {
  RecoveryKeys keys = {0};
  int status = 0;
  if (node) {
    status = option_bind(config_recovery_options, node, NULL, node->at, &keys, diag);
  } else {
    option_defaults(config_recovery_options, &keys);
  }
  status |=
      option_bind(config_retry_options, keys.retry, NULL, self->root->at, &self->sim.retry, diag);
  if (keys.hedge) status |= bind_hedge(self, keys.hedge, diag);
  if (keys.checkpoint) status |= bind_checkpoint(self, keys.checkpoint, diag);
  self->sim.detection = keys.detection;
  FaultBinder binder = {.config = self,
                        .specs = ARENA_ARRAY(arena, PoolSpec, self->sim.n_pools),
                        .arena = arena,
                        .diag = diag};
  memcpy(binder.specs, self->sim.pools, self->sim.n_pools * sizeof *binder.specs);
  self->sim.pools = binder.specs;
  for (uint32_t i = 0; i < self->sim.n_pools; i++) {
    binder.ix = i;
    binder.pool = &self->pools[i];
    if (binder.pool->faults) status |= bind_pool(&binder);
    binder.first += binder.pool->spec.count;
  }
  if (domains && !status) status |= faults_bind_domains(&binder, domains);
  self->sim.faults = binder.sources;
  if (status || !node || keys.hedge || self->sim.n_faults > 0) return status;
  diag_error(diag, node->key_at,
             "'faults' applies to pools and domains with faults, and none has any");
  return diag_hint(diag, "add them to a pool, such as pools.%s.faults: {gpu: {}}",
                   self->pools[0].spec.name);
}
