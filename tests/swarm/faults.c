/* Faults of a cluster. See draw.h. */
#include "sim/policies.h"
#include "sim/router/router.h"
#include "tests/swarm/draw.h"
#include <assert.h>

/* Groups do not drain, and have no KV on links; the others have no store. */
static FaultKind draw_kind(Draw *own, bool grouped) {
  static const FaultKind of_groups[] = {FAULT_FAIL, FAULT_SLOW, FAULT_STORE};
  if (grouped) return of_groups[between(own, 0, 2)];
  return (FaultKind)between(own, 0, FAULT_LINK);
}

static FaultSource draw_fault(Draw *own, bool grouped, uint32_t first, uint32_t n_machines,
                              int64_t up, int64_t down) {
  const LifetimeKind kind = (LifetimeKind)between(own, 0, LIFETIMES - 1);
  const double shape = 0.5 + rng_uniform(&own->rng);
  const FaultKind what = one_in(own, 2) ? FAULT_FAIL : draw_kind(own, grouped);
  const double factor = 1 + 9 * rng_uniform(&own->rng);
  const Tick mean = between(own, up / 2, up) * MILLISECOND * own->scale;
  return (FaultSource){.kind = what,
                       .factor = what == FAULT_LINK && one_in(own, 2) ? 0 : factor,
                       .first = first,
                       .n_instances = n_machines,
                       .up = {kind, tick_seconds(mean), shape},
                       .down = {kind, tick_seconds(ticks(own, down)), shape}};
}

/* In ms, at least a tenth of what a group takes to copy all KV of its GPUs and its weights: a copy
 * that takes for ever would see faults without end. */
static int64_t least_up(const SimConfig *config, const Draw *own) {
  Tick longest = 0;
  for (uint32_t p = 0; p < config->n_pools && config->n_groups > 0; p++) {
    const PoolSpec *pool = &config->pools[p];
    const int64_t bytes = pool->kv_blocks * pool->block_size * pool->kv_bytes_per_token +
                          config->groups[0].turn_bytes[p % SHAPES];
    for (int direction = 0; direction < LINK_DIRECTIONS; direction++) {
      const Tick ticks =
          host_link_ticks(&pool->host_link, NULL, (LinkDirection)direction, bytes, 0);
      if (ticks > longest) longest = ticks;
    }
  }
  return longest / 10 / (MILLISECOND * own->scale);
}

/* A sixth of the clusters whose routers keep no books of their own. */
static void draw_hedge(SimConfig *config, Draw *own) {
  const Router *router = (const Router *)config->policies[POLICY_ROUTER].policy;
  if (config->n_groups > 0 || !one_in(own, 6) || (router && router->observe)) return;
  config->hedge = (HedgeOptions){.after = ticks(own, 2000), .share = one_in(own, 2) ? 1 : 0.2};
}

/* Replicas of half of the clusters break, are maintained or slow now and then, and
 * whole pools do. */
void cluster_draw_faults(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "faults");
  draw_hedge(config, &own);
  self->exact &= config->hedge.after == 0; // times that are drawn are rounded
  if (one_in(&own, 2)) return;
  const bool grouped = config->n_groups > 0;
  int64_t up = magnitude(&own, 100, 20000);
  const int64_t down = magnitude(&own, 1, up / 8), least = least_up(config, &own);
  if (up < least) up = least;
  uint32_t first = 0;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    const PoolSpec *pool = &config->pools[p];
    const uint32_t lanes = pool_replica_lanes(pool);
    if (one_in(&own, 3))
      self->faults[config->n_faults++] = draw_fault(&own, grouped, first, pool->count, up, down);
    for (uint32_t i = 0; i < pool->count; i += lanes, first += lanes)
      if (!one_in(&own, 3))
        self->faults[config->n_faults++] = draw_fault(&own, grouped, first, lanes, up, down);
  }
  assert(config->n_faults <= CLUSTER_FAULTS);
  self->exact &= config->n_faults == 0;
  config->faults = self->faults;
  config->detection = ticks_or_zero(&own, magnitude(&own, 1, 2000));
  const Tick start_up = ticks_or_zero(&own, magnitude(&own, 1, up / 8));
  for (uint32_t p = 0; p < config->n_pools; p++)
    self->pools[p].start_up.boot = start_up;
  config->retry = (RetryOptions){.limit = between(&own, 0, 4),
                                 .backoff = ticks_or_zero(&own, 500),
                                 .most_backoff = ticks_or_zero(&own, 5000)};
  config->retry.resume = one_in(&own, 2);
  if (grouped || config->retry.resume || one_in(&own, 2)) return;
  const int64_t prompt = 500 * config->pools[0].kv_bytes_per_token;
  config->checkpoint.bandwidth = prompt * magnitude(&own, 1, 2000);
  if (one_in(&own, 3)) config->checkpoint.capacity = prompt * between(&own, 1, 50);
}

/* Up to three, between which the replicas of all pools are dealt out; groups with both shapes. */
enum { DOMAINS = 3 };

static void deal_out(const SimConfig *config, Draw *own, FaultPart *parts[DOMAINS],
                     uint32_t n_parts[DOMAINS], int64_t n_domains) {
  uint32_t first = 0;
  for (uint32_t p = 0; p < config->n_pools; first += config->pools[p++].count) {
    const uint32_t lanes = pool_replica_lanes(&config->pools[p]);
    if (sim_is_second_shape(config, p)) continue;
    for (uint32_t i = 0; i < config->pools[p].count; i += lanes) {
      const int64_t d = between(own, 0, n_domains); // the last one: it is in none
      if (d < n_domains) parts[d][n_parts[d]++] = (FaultPart){first + i, lanes};
    }
  }
}

/* Of a release, which comes to one domain after another; or drawn. */
static void draw_times(Draw *own, FaultSource *source, int64_t up, int64_t down, Tick *begins) {
  *source = draw_fault(own, false, 0, 0, up, down);
  if (!one_in(own, 3)) return;
  FaultSpan *span = ARENA_NEW(own->arena, FaultSpan);
  const Tick length = ticks(own, down);
  *begins += ticks(own, up);
  *span = (FaultSpan){*begins, *begins + length};
  source->spans = span;
  source->n_spans = 1;
}

/* A third of the clusters have domains that take instances of several pools at once; none of those
 * whose outcomes were pinned before there were any. */
void cluster_draw_domains(Cluster *self, const Draw *draw) {
  SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "domains");
  const bool pinned = cluster_policies(POLICY_ROUTER) != policy_list(POLICY_ROUTER);
  if (pinned || !one_in(&own, 3)) return;
  int64_t up = magnitude(&own, 100, 20000);
  const int64_t down = magnitude(&own, 1, up / 8), least = least_up(config, &own);
  if (up < least) up = least;
  uint32_t n_instances = 0;
  Tick start = 0;
  for (uint32_t p = 0; p < config->n_pools; n_instances += config->pools[p++].count) {
    const Tick all = pool_start_ticks(&config->pools[p]) * config->pools[p].count;
    if (all > start) start = all;
  }
  const int64_t up_least = 8 * start / (MILLISECOND * own.scale); // up before it fails again
  if (up < up_least) up = up_least;
  const int64_t n_domains = between(&own, 1, DOMAINS);
  FaultPart *parts[DOMAINS];
  uint32_t n_parts[DOMAINS] = {0};
  for (int d = 0; d < DOMAINS; d++)
    parts[d] = ARENA_ARRAY(own.arena, FaultPart, n_instances);
  deal_out(config, &own, parts, n_parts, n_domains);
  FaultSource *faults = ARENA_ARRAY(own.arena, FaultSource, config->n_faults + DOMAINS);
  for (uint32_t i = 0; i < config->n_faults; i++)
    faults[i] = config->faults[i];
  Tick begins = 0;
  for (int64_t d = 0; d < n_domains; d++) {
    FaultSource source;
    draw_times(&own, &source, up, down, &begins);
    if (config->n_groups > 0) source.kind = FAULT_FAIL;
    source.first = parts[d][0].first;
    source.n_instances = parts[d][0].n_instances;
    source.others = &parts[d][1];
    source.n_others = n_parts[d] > 0 ? n_parts[d] - 1 : 0;
    if (n_parts[d] > 0) faults[config->n_faults++] = source;
  }
  config->faults = faults;
  self->exact &= config->n_faults == 0;
  if (config->retry.limit == 0) config->retry.limit = between(&own, 0, 4);
}
