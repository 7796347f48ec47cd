/* See cluster.h. Every time goes through `ticks`, which scales it; no draw depends on the scale. */
#include "tests/swarm/cluster.h"
#include "base/hash.h"
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "sim/pool/pool.h"
#include "sim/predictor/predictor.h"
#include "tests/swarm/clients.h"
#include "tests/swarm/draw.h"
#include <assert.h>
#include <string.h>

enum { MAX_REQUESTS = 80, MAX_KNOTS = 5, MAX_ROWS = 4 };

#define FASTEST INT64_C(1000000000000) // bytes/s

/* --- performance models */

/* A rising curve over x: whole slopes, so that it scales to the tick, unless it is to be ragged.
 * `floor` is below it everywhere. */
static Pwl draw_curve(Draw *self, int64_t max_x, Tick floor, bool extend_left) {
  PwlKnot knots[MAX_KNOTS];
  const int n = (int)between(self, 1, MAX_KNOTS);
  int64_t x = between(self, 0, max_x / 4);
  Tick at = floor + (extend_left ? 2 * x * (MILLISECOND / 1000) * self->scale : 0);
  double more = self->ragged ? tick_seconds(1) * rng_uniform(&self->rng) : 0;
  for (int i = 0; i < n; i++) {
    knots[i] = (PwlKnot){x, tick_seconds(at) + more};
    const int64_t run = between(self, 1, max_x / 2);
    const Tick slope = one_in(self, 2) ? 0 : between(self, 0, MILLISECOND / 1000) * self->scale;
    x += run;
    at += run * slope;
    if (self->ragged) more += tick_seconds(run) * rng_uniform(&self->rng); // below a tick per x
  }
  Pwl curve;
  pwl_init(&curve, knots, n, extend_left, self->arena);
  return curve;
}

/* Rows whose keys and x are drawn about so far apart. */
static void draw_table(Draw *self, CurveTable *table, int64_t key_step, int64_t max_x) {
  CurveRow *rows = ARENA_ARRAY(self->arena, CurveRow, MAX_ROWS);
  table->n_rows = (int32_t)between(self, 0, self->coarse ? 1 : MAX_ROWS);
  int64_t key = between(self, 1, key_step / 2);
  Tick floor = ticks_or_zero(self, 10);
  table->low = key;
  for (int32_t i = 0; i < table->n_rows; i++) {
    rows[i] = (CurveRow){key, draw_curve(self, one_in(self, 2) ? 100 : max_x, floor, false)};
    table->high = key;
    key += between(self, 1, key_step);
    floor = pwl_eval(&rows[i].curve, 1000000) + 1; // the next row lies above all of this one
  }
  table->rows = rows;
}

static void draw_decode_table(Draw *self, CurveTable *table) {
  draw_table(self, table, 16, 20000);
}

/* Attention of prefill in two variables, and decodes beside it. */
static void draw_shared_attention(Draw *self, PerfModel *model) {
  if (one_in(self, 3)) draw_table(self, &model->prefill_rows, 1000, 4000 * SPAN_STEPS);
  if (one_in(self, 3))
    draw_decode_table(self, &model->mixed_attention);
  else if (!self->coarse && one_in(self, 2))
    model->mixed_factor = 1 + rng_uniform(&self->rng);
}

/* Returns whether its times scale to the tick. */
static bool draw_model(Draw *self, PerfModel *model) {
  *model = (PerfModel){.name = "drawn"};
  CurveTable table = {0};
  self->ragged = !self->coarse && one_in(self, 2);
  if (one_in(self, 3)) {
    model->form = PERF_SPLITWISE_SIM;
    model->mixed_factor = 1 + rng_uniform(&self->rng);
    model->linear = draw_curve(self, 4000, ticks(self, 50), true);
    model->head = draw_curve(self, 100, ticks(self, 20), true);
  } else {
    model->form = PERF_COMPOSED;
    model->overhead = ticks(self, 10);
    if (!one_in(self, 4)) model->linear = draw_curve(self, 4000, ticks_or_zero(self, 20), false);
    if (one_in(self, 2)) model->prefill_attention = draw_curve(self, 1000000, 0, false);
    if (one_in(self, 2)) model->head = draw_curve(self, 50, 0, false);
    draw_decode_table(self, &table);
    draw_shared_attention(self, model);
  }
  perfmodel_compile(model, &table, MAX_REQUESTS, self->arena);
  return model->form == PERF_COMPOSED && model->mixed_factor == 0 && table.n_rows <= 1 &&
         model->prefill_rows.n_rows <= 1 && model->mixed_attention.n_rows <= 1;
}

/* --- policies */

enum { PINNED_MOST = 16 };
static const char *const PINNED[POLICY_KINDS][PINNED_MOST] = {
    [POLICY_ROUTER] = {"random", "round_robin", "jsq", "token_jsq", "least_kv", "power_of_two",
                       "prefix_affinity", "dynamo_kv", "llm_d", "splitwise", "splitwise_sim_kv_jsq",
                       "splitwise_sim_kv_token_jsq", "splitwise_sim_mixed_pool"},
    [POLICY_PREDICTOR] = {"none", "oracle", "buckets"},
    [POLICY_DISPATCHER] = {"router", "power_of_two", "least_loaded", "random", "imbalance"},
    [POLICY_POOL] = {"fixed", "splitwise_mixed", "splitwise_sim", "tetriinfer_flip", "seesaw"},
    [POLICY_BATCHER] = {"request_level", "continuous", "mixed", "sarathi", "splitwise",
                        "splitwise_sim", "splitwise_sim_orca", "tetriinfer", "vllm"},
    [POLICY_TRANSFER] = {"serialized", "layerwise", "chunked", "splitwise", "splitwise_sim"},
    [POLICY_KVTIER] = {"recompute", "swap", "pie", "flexgen", "splitwise_sim"},
    [POLICY_SCALER] = {"none", "target", "forecast", "schedule", "spares", "dynamo_planner"},
};
static const Policy *pinned[POLICY_KINDS][PINNED_MOST + 1]; // empty: all are drawn

void cluster_pin_policies(void) {
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    for (int i = 0; i < PINNED_MOST && PINNED[kind][i]; i++) {
      pinned[kind][i] = policy_find((PolicyKind)kind, PINNED[kind][i]);
      assert(pinned[kind][i]); // it is gone: take its name away, which moves the outcomes
    }
}

bool cluster_pin_batcher(const char *name) {
  pinned[POLICY_BATCHER][0] = name ? policy_find(POLICY_BATCHER, name) : NULL;
  pinned[POLICY_BATCHER][1] = NULL;
  return pinned[POLICY_BATCHER][0] != NULL;
}

const Policy *const *cluster_policies(PolicyKind kind) {
  return pinned[kind][0] ? pinned[kind] : policy_list(kind);
}

uint64_t cluster_count_policies(PolicyKind kind) {
  uint64_t n = 0;
  while (cluster_policies(kind)[n])
    n++;
  return n;
}

/* Predictors and dispatchers meet the others at random: with them the sets would be too many. */
static bool is_counted(PolicyKind kind) {
  return kind != POLICY_PREDICTOR && kind != POLICY_DISPATCHER && kind != POLICY_SCALER;
}

/* The choice with this number out of all, those that cannot work together included. */
static void number_policies(uint64_t number, PolicyChoice *ret_policies) {
  for (int kind = 0; kind < POLICY_KINDS; kind++) {
    const uint64_t n = is_counted((PolicyKind)kind) ? cluster_count_policies((PolicyKind)kind) : 1;
    ret_policies[kind] = (PolicyChoice){.policy = cluster_policies((PolicyKind)kind)[number % n]};
    number /= n;
  }
}

static uint64_t count_choices(void) {
  uint64_t n = 1;
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    n *= is_counted((PolicyKind)kind) ? cluster_count_policies((PolicyKind)kind) : 1;
  return n;
}

uint64_t cluster_policy_sets(void) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < count_choices(); i++) {
    PolicyChoice policies[POLICY_KINDS];
    number_policies(i, policies);
    n += sim_conflict(policies[POLICY_POOL].policy, policies[POLICY_BATCHER].policy,
                      policies[POLICY_KVTIER].policy) == NULL;
  }
  return n;
}

/* The set with this number among those that work together. */
static void choose_policies(uint64_t number, PolicyChoice *ret_policies) {
  uint64_t i = 0;
  for (;; i++) {
    number_policies(i, ret_policies);
    if (sim_conflict(ret_policies[POLICY_POOL].policy, ret_policies[POLICY_BATCHER].policy,
                     ret_policies[POLICY_KVTIER].policy))
      continue;
    if (number-- == 0) return;
  }
}

/* Ratios, which begin at 1, are more often small. */
static double draw_real(Draw *self, double low, double high) {
  const double share = rng_uniform(&self->rng);
  return low < 1 ? low + (high - low) * share
                 : low * portable_exp(portable_log(high / low) * share * share);
}

static int draw_choice(Draw *self, const char *const *choices) {
  int n = 0;
  while (choices[n])
    n++;
  return (int)between(self, 0, n - 1);
}

static void draw_option(Draw *self, const OptionSpec *spec, void *state) {
  void *field = (char *)state + spec->offset;
  const int64_t low = spec->min > 1 ? (int64_t)spec->min : 1;
  const int64_t high = spec->max > 0 && spec->max < 10000 ? (int64_t)spec->max : 10000;
  switch (spec->type) {
  case OPTION_INT:
    *(int64_t *)field =
        spec->min < 1 && one_in(self, 4) ? (spec->min < 0 ? -1 : 0) : magnitude(self, low, high);
    break;
  case OPTION_REAL:
    *(double *)field = draw_real(self, spec->min, spec->max);
    break;
  case OPTION_CHOICE:
    *(int *)field = draw_choice(self, spec->choices);
    break;
  case OPTION_BOOL:
    *(bool *)field = one_in(self, 2);
    break;
  case OPTION_TICKS:
    *(Tick *)field = between(self, spec->min > 0, 1000) * MILLISECOND * self->scale;
    break;
  case OPTION_NODE: // a subtree, which is left out
    break;
  case OPTION_BANDWIDTH:
    *(int64_t *)field = magnitude(self, 1000000, FASTEST);
    break;
  default:
    assert(false); // a policy with an option of a new type: say here how to draw it
  }
}

static void scale_option(const Draw *self, const OptionSpec *spec, void *state) {
  if (spec->type == OPTION_TICKS) *(Tick *)((char *)state + spec->offset) *= self->scale;
}

/* Options that contradict each other are drawn again. */
static const void *draw_state(Draw *self, const Policy *policy) {
  void *state = arena_alloc(self->arena, policy->state_size);
  Diag diag;
  diag_init(&diag);
  do {
    memset(state, 0, policy->state_size);
    if (!policy->options) continue;
    option_defaults(policy->options, state);
    for (const OptionSpec *spec = policy->options; spec->key; spec++)
      if (!option_is_late(spec) && one_in(self, 3))
        scale_option(self, spec, state);
      else if (!option_is_late(spec))
        draw_option(self, spec, state);
  } while (policy->check && policy->check(state, NULL, place_of_file("drawn"), self->arena, &diag));
  diag_done(&diag);
  return state;
}

/* Not so short that a run over slow links, or with few arrivals, would be broadcasts for the most
 * part. */
static Tick draw_monitor_interval(Draw *self, const Cluster *cluster, int64_t largest) {
  const SimConfig *config = &cluster->config;
  const ArrayTrace *workload = &cluster->workload;
  int64_t rate = config->network_bandwidth > 0 ? config->network_bandwidth : INT64_MAX;
  for (uint32_t i = 0; i < config->n_pools; i++) {
    const PoolSpec *pool = &config->pools[i];
    const int64_t rates[] = {pool->nic_bandwidth, pool->host_link.options.to_cpu,
                             pool->host_link.options.to_gpu};
    for (int k = 0; k < 3; k++)
      if (rates[k] < rate) rate = rates[k];
  }
  const int64_t bytes = largest * workload->n_rows * config->pools[0].kv_bytes_per_token;
  const Tick arriving = workload->rows[workload->n_rows - 1].at;
  const int64_t milliseconds = magnitude(self, 1, 300) + bytes / rate;
  return milliseconds * MILLISECOND * self->scale + arriving / 1000;
}

/* Whether a pool policy is to keep more machines than there are, which makes flips rare. */
static bool exceeds(const SimConfig *config, const Policy *policy, const void *state) {
  int64_t n_split = 0;
  for (uint32_t i = 0; i < config->n_pools; i++)
    if (config->pools[i].role != ROLE_MIXED) n_split += config->pools[i].count;
  const PoolPolicy *pool = (const PoolPolicy *)policy;
  return pool->excess && n_split > 0 && pool->excess(state, n_split);
}

/* CPU memory and the link to it, slow enough to be felt. */
static void draw_host(Draw *self, PoolSpec *pool) {
  HostLink *link = &pool->host_link;
  pool->kv_block_bytes = pool->block_size * pool->kv_bytes_per_token;
  pool->cpu_kv_blocks = 2 + pool->kv_blocks * between(self, 1, 6);
  pool->weight_bytes = magnitude(self, 1, pool->cpu_kv_blocks * pool->kv_block_bytes / 2 + 1);
  const int64_t kv_bytes = pool->kv_blocks * pool->kv_block_bytes;
  link->options.to_gpu = (1 + kv_bytes) * magnitude(self, 20, 20000);
  link->options.to_cpu = (1 + kv_bytes) * magnitude(self, 20, 20000);
  link->options.half_size =
      one_in(self, 2) ? 0 : magnitude(self, 1, kv_bytes / pool->num_hidden_layers + 1);
  link->options.efficiency = 0.3 + 0.7 * rng_uniform(&self->rng);
  link->n_background = (int32_t)between(self, 0, 3);
  link->background = ARENA_ARRAY(self->arena, BackgroundTraffic, 3);
  for (int32_t i = 0; i < link->n_background; i++) {
    const Tick from = ticks(self, 3000);
    link->background[i] = (BackgroundTraffic){.from = from,
                                              .to = from + ticks(self, 3000),
                                              .direction = (int)between(self, 0, 2),
                                              .share = 0.8 * rng_uniform(&self->rng)};
  }
}

static bool can_have(const Cluster *cluster, const KvTier *tier, const void *state) {
  Diag diag;
  diag_init(&diag);
  bool good = true;
  for (uint32_t i = 0; i < cluster->config.n_pools; i++)
    good &= tier->check(state, &cluster->pools[i], place_of_file("drawn"), &diag) == 0;
  diag_done(&diag);
  return good;
}

/* Pools that the tier can be used with. */
static void draw_tier(Draw *self, Cluster *cluster) {
  enum { TRIES = 100 };
  PolicyChoice *choice = &cluster->config.policies[POLICY_KVTIER];
  const KvTier *tier = (const KvTier *)choice->policy;
  if (!kvtier_moves(tier) && !(tier->swaps && one_in(self, 2))) return;
  cluster->exact = false; // a link's rate does not scale
  for (uint32_t i = 0; i < cluster->config.n_pools; i++) {
    cluster->pools[i].num_hidden_layers += 2;
    draw_host(self, &cluster->pools[i]);
  }
  for (int i = 0; i < TRIES && !can_have(cluster, tier, choice->state); i++)
    choice->state = draw_state(self, choice->policy);
  assert(can_have(cluster, tier, choice->state));
}

static void draw_policies(Draw *self, SimConfig *config) {
  config->heavy_above = magnitude(self, 1, 100);
  for (int kind = 0; kind < POLICY_KINDS; kind++) {
    if (kind == POLICY_SCALER) continue; // in scaling.c
    if (!self->rule && !is_counted((PolicyKind)kind))
      config->policies[kind].policy = cluster_policies((
          PolicyKind)kind)[between(self, 0, (int64_t)cluster_count_policies((PolicyKind)kind) - 1)];
    const Policy *policy = config->policies[kind].policy;
    do
      config->policies[kind].state = draw_state(self, policy);
    while (kind == POLICY_POOL && exceeds(config, policy, config->policies[kind].state));
  }
}

/* --- machines */

static bool roles_cover(const PoolSpec *pools, uint32_t n) {
  bool covered[2] = {false, false};
  for (uint32_t i = 0; i < n; i++)
    for (Phase phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++)
      covered[phase] |= role_covers(pools[i].role, phase);
  return covered[0] && covered[1];
}

/* Room for part of the largest request, for hardly more than it, or for many. */
static int64_t draw_kv_blocks(Draw *self, int64_t largest, int64_t block_size) {
  static const double times[] = {0.6, 1, 1, 1.02, 1.3, 2, 5, 100};
  const double tokens = times[between(self, 0, 7)] * (double)largest;
  return (int64_t)tokens / block_size + 1;
}

static int64_t turn_bytes(Draw *self) {
  return one_in(self, 2) ? 0 : magnitude(self, 1, 1000000);
}

/* Makes the two pools shapes of the same GPUs. */
static void draw_group(Draw *self, Cluster *cluster, int64_t largest) {
  PoolSpec *prefill = &cluster->pools[0], *decode = &cluster->pools[1];
  const uint32_t n = (uint32_t)between(self, 1, 3);
  prefill->role = ROLE_PREFILL;
  decode->role = ROLE_DECODE;
  prefill->count = n * pool_replica_lanes(prefill);
  decode->count = n * pool_replica_lanes(decode);
  cluster->group = (GroupSpec){.pools = {0, 1},
                               .store_blocks = draw_kv_blocks(self, largest, decode->block_size),
                               .turn_bytes = {turn_bytes(self), turn_bytes(self)},
                               .overlaps = one_in(self, 2)};
  prefill->host_link.options = (HostLinkOptions){.to_gpu = magnitude(self, 10000, 1000000000),
                                                 .to_cpu = magnitude(self, 10000, 1000000000),
                                                 .half_size = one_in(self, 2) ? 1000 : 0,
                                                 .efficiency = 1};
  if (one_in(self, 2)) decode->host_link = prefill->host_link;
  cluster->config.groups = &cluster->group;
  cluster->config.n_groups = 1;
  cluster->exact = false;
}

/* Of CPU memory: none, hardly any, as much as on the GPU, or plenty. */
static int64_t draw_cpu_kv_blocks(Draw *self, int64_t kv_blocks) {
  const int64_t sizes[] = {0, kv_blocks / 8, kv_blocks, 100 * kv_blocks};
  return sizes[between(self, 0, 3)];
}

static void draw_pools(Draw *self, Cluster *cluster, int64_t largest) {
  static const int64_t block_sizes[] = {1, 1, 2, 7, 16, 16, 32, 64};
  SimConfig *config = &cluster->config;
  const bool grouped = ((const PoolPolicy *)config->policies[POLICY_POOL].policy)->shape;
  const bool moves = kvtier_moves((const KvTier *)config->policies[POLICY_KVTIER].policy);
  const bool fills = ((const Batcher *)config->policies[POLICY_BATCHER].policy)->fills_pipelines;
  config->n_pools = grouped ? 2 : (uint32_t)between(self, 1, CLUSTER_POOLS);
  config->pools = cluster->pools;
  const int64_t layers = magnitude(self, 1, 100), bytes = magnitude(self, 1, 100000);
  do {
    for (uint32_t i = 0; i < config->n_pools; i++)
      cluster->pools[i].role = (Role)between(self, 0, ROLES - 1);
  } while (!roles_cover(cluster->pools, config->n_pools));
  cluster->exact = self->coarse;
  for (uint32_t i = 0; i < config->n_pools; i++) {
    const int64_t block_size = block_sizes[between(self, 0, 7)];
    const int64_t nic = magnitude(self, 10000, FASTEST);
    cluster->exact &= draw_model(self, &cluster->models[i]);
    const uint32_t stages = !moves && cluster->models[i].form == PERF_COMPOSED && one_in(self, 3)
                                ? (uint32_t)between(self, 2, 4)
                                : 1;
    cluster->models[i].send = stages > 1 ? ticks_or_zero(self, 1) / 100 : 0;
    cluster->models[i].stages = one_in(self, 2) ? stages : 1;
    cluster->exact &= stages == 1;
    cluster->pools[i] = (PoolSpec){.name = "drawn",
                                   .machine = "drawn",
                                   .role = cluster->pools[i].role,
                                   .count = (uint32_t)between(self, 1, 6 / config->n_pools),
                                   .pipeline_stages = stages,
                                   .pipeline_lanes = fills ? 1 : 0,
                                   .perfmodel = &cluster->models[i],
                                   .kv_blocks = draw_kv_blocks(self, largest, block_size),
                                   .block_size = block_size,
                                   .kv_bytes_per_token = bytes,
                                   .num_hidden_layers = layers,
                                   .nic_bandwidth = nic,
                                   .nvlink_bandwidth = magnitude(self, nic, FASTEST),
                                   .kv_transfer_overhead = ticks_or_zero(self, 10)};
    cluster->pools[i].count *= pool_replica_lanes(&cluster->pools[i]);
    cluster->pools[i].cpu_kv_blocks = draw_cpu_kv_blocks(self, cluster->pools[i].kv_blocks);
    cluster->pools[i].kv_block_bytes = bytes * block_size;
    cluster->pools[i].host_link.options =
        (HostLinkOptions){.to_gpu = magnitude(self, 10000, FASTEST),
                          .to_cpu = magnitude(self, 10000, FASTEST),
                          .half_size = one_in(self, 2) ? magnitude(self, 1, 100000) : 0,
                          .efficiency = 1};
  }
  if (grouped) draw_group(self, cluster, largest);
  config->network_path = one_in(self, 2) ? NETWORK_NIC : (int)between(self, 0, NETWORK_INDIRECT);
  config->network_bandwidth = one_in(self, 2) ? 0 : magnitude(self, 10000, 1000000000);
  config->network_latency = ticks_or_zero(self, 5);
}

/* --- workload */

void cluster_rewind(Cluster *self) {
  array_trace_init(&self->workload, self->workload.rows, self->workload.n_rows);
  self->config.trace = &self->workload.source;
}

/* What requests have in common: paths in a tree of texts, some of which go on into outputs and past
 * them. They have a stream of their own. */
static void draw_content(const Draw *self, TraceRow *rows, int n) {
  enum { DEPTH = 4 };
  Rng rng;
  rng_init(&rng, self->seed, "content");
  TraceSegment *segments = ARENA_ARRAY(self->arena, TraceSegment, n * DEPTH);
  const uint64_t texts = 1 + rng_below(&rng, 4), longest = 1 + rng_below(&rng, 600);
  for (int i = 0; i < n; i++, segments += DEPTH) {
    TraceSegment last = {0};
    const int depth = (int)rng_below(&rng, DEPTH + 1);
    for (int k = 0; k < depth; k++) {
      last.id = hash_fold(last.id, rng_below(&rng, texts));
      last.end += 1 + (int32_t)(hash_mix(last.id) % longest);
      segments[k] = last;
    }
    if (depth > 0 && rng_below(&rng, 3) == 0) segments[depth - 1].end = INT32_MAX;
    rows[i].segments = segments;
    rows[i].n_segments = depth;
  }
}

/* Clients of half the clusters may give up, some before much happens. From a stream of their own,
 * so that all else is as without them. */
static void draw_patience(const Draw *self, TraceRow *rows, int n) {
  Draw own = *self;
  rng_init(&own.rng, self->seed, "patience");
  if (one_in(&own, 2)) return;
  const int64_t most = magnitude(&own, 10, 20000);
  for (int i = 0; i < n; i++) {
    if (one_in(&own, 2)) rows[i].patience = ticks(&own, most);
    if (one_in(&own, 3)) rows[i].first_token_patience = ticks(&own, most);
  }
}

/* Of servers in front of the router, of a third of the clusters. From a stream of its own. */
static Tick draw_request_time(const Draw *self) {
  Draw own = *self;
  rng_init(&own.rng, self->seed, "request time");
  return one_in(&own, 3) ? ticks(&own, magnitude(&own, 1, 1000)) : 0;
}

/* For batchers that mind. From a stream of their own too. */
static void draw_priorities(const Draw *self, TraceRow *rows, int n) {
  Rng rng;
  rng_init(&rng, self->seed, "priorities");
  const uint64_t classes = 1 + rng_below(&rng, 3);
  for (int i = 0; i < n; i++)
    rows[i].priority = (int32_t)rng_below(&rng, classes) * PRIORITY_STEP;
}

/* Returns the most tokens of one request. */
static int64_t draw_workload(Draw *self, ArrayTrace *workload) {
  const int n = (int)magnitude(self, 1, MAX_REQUESTS);
  TraceRow *rows = ARENA_ARRAY(self->arena, TraceRow, n);
  const int64_t prompts = magnitude(self, 1, 3000), outputs = magnitude(self, 1, 150);
  const int64_t gap = magnitude(self, 1, 200);
  const bool equal_prompts = one_in(self, 3), equal_outputs = one_in(self, 3);
  const int64_t burst = one_in(self, 2) ? 1 : between(self, 2, 30);
  int64_t largest = 0;
  Tick at = ticks_or_zero(self, 100);
  for (int i = 0; i < n; i++) {
    if (i > 0 && one_in(self, burst)) at += ticks(self, gap);
    const int64_t prompt = equal_prompts ? prompts : magnitude(self, 1, prompts);
    const int64_t output = equal_outputs ? outputs : magnitude(self, 1, outputs);
    rows[i] =
        (TraceRow){.at = at, .prompt_tokens = (int32_t)prompt, .output_tokens = (int32_t)output};
    if (prompt + output > largest) largest = prompt + output;
  }
  arrivals_draw(rows, n, self->seed, self->scale, self->arena);
  draw_content(self, rows, n);
  draw_patience(self, rows, n);
  draw_priorities(self, rows, n);
  draw_ends(self, rows, n);
  workload->rows = rows;
  workload->n_rows = n;
  return largest;
}

static void draw_features(Draw *draw, Cluster *self) {
  const Rule *rule = draw->rule;
  if (rule && rule_has(rule, "sleep")) cluster_draw_mixed(self);
  if (!rule) cluster_draw_ranks(self, draw);
  if (!rule || rule_has(rule, "components")) cluster_draw_components(self, draw);
  if (!rule || rule_has(rule, "adapters")) cluster_draw_adapters(self, draw);
  if (!rule || rule_has(rule, "faults")) cluster_draw_faults(self, draw);
  const bool scales = rule && rule->kind == POLICY_SCALER;
  if (!rule || (scales && rule->policy != policy_list(POLICY_SCALER)[0]))
    cluster_draw_scaling(self, draw);
  if (!rule) cluster_draw_streams(self, draw);
  if (!rule || rule_has(rule, "early_rejection")) cluster_draw_early_rejection(self, draw);
  if (!rule || rule_has(rule, "reports")) cluster_draw_reports(self, draw);
  if (!rule || rule_has(rule, "sleep")) cluster_draw_sleep(self, draw);
  if (!rule || rule_has(rule, "uplinks")) cluster_draw_uplinks(self, draw);
  cluster_draw_flow(self, draw);
  cluster_draw_limits(self, draw);
}

static void draw_cluster(Draw drawn, Cluster *self) {
  *self = (Cluster){.config = {.seed = drawn.seed}};
  Draw draw = drawn;
  rng_init(&draw.rng, drawn.seed, "swarm");
  draw.coarse = one_in(&draw, 2);
  const int64_t largest = draw_workload(&draw, &self->workload);
  if (draw.rule)
    rule_policies(draw.rule, self->config.policies);
  else
    choose_policies(drawn.seed % cluster_policy_sets(), self->config.policies);
  draw_pools(&draw, self, largest);
  draw_policies(&draw, &self->config);
  self->config.monitor_interval = draw_monitor_interval(&draw, self, largest);
  self->config.request_time = draw_request_time(&draw);
  const Predictor *predictor = (const Predictor *)self->config.policies[POLICY_PREDICTOR].policy;
  self->exact &= !predictor->cost; // a share of an iteration is rounded
  draw_tier(&draw, self);
  draw_features(&draw, self);
  cluster_rewind(self);
}

void cluster_draw(Cluster *self, uint64_t seed, int64_t time_scale, Arena *arena) {
  draw_cluster((Draw){.arena = arena, .seed = seed, .scale = time_scale}, self);
}

void cluster_draw_rule(Cluster *self, const Rule *rule, uint64_t seed, Arena *arena) {
  draw_cluster((Draw){.arena = arena, .seed = seed, .scale = 1, .rule = rule}, self);
}

const char *cluster_describe(const Cluster *self, Arena *arena) {
  const SimConfig *config = &self->config;
  const char *text = arena_printf(arena, "%d requests on", self->workload.n_rows);
  for (uint32_t i = 0; i < config->n_pools; i++)
    text = arena_printf(arena, "%s %u%s %s%s", text, config->pools[i].count,
                        config->pools[i].ranks > 1 ? " ranks of" : "",
                        role_name(config->pools[i].role),
                        config->pools[i].model > 0 ? " of another model" : "");
  for (int kind = 0; kind < POLICY_KINDS; kind++)
    text = arena_printf(arena, "%s, %s %s", text, policy_kind_name((PolicyKind)kind),
                        config->policies[kind].policy->name);
  return text;
}

bool cluster_flip_layers(Cluster *cluster, Arena *arena) {
  PolicyChoice *choice = &cluster->config.policies[POLICY_KVTIER];
  const OptionSpec *spec = choice->policy->options;
  while (spec && spec->key && strcmp(spec->key, "layers") != 0)
    spec++;
  if (!spec || !spec->key) return false;
  char *state = arena_alloc(arena, choice->policy->state_size);
  memcpy(state, choice->state, choice->policy->state_size);
  *(bool *)(state + spec->offset) ^= true;
  choice->state = state;
  return true;
}
