/* Pools whose scheduler has a KV connector, or tiers under its prefix cache. From streams of their
 * own. */
#include "sim/batcher/batcher.h"
#include "tests/swarm/draw.h"
#include <string.h>

/* CPU memory from a few blocks to more than there are on the GPUs. */
static const char *draw_connector(Draw *self, const PoolSpec *pool) {
  static const char *const roles[] = {"kv_both", "kv_producer", "kv_consumer"};
  const bool offloads = one_in(self, 2);
  const int64_t blocks = magnitude(self, 1, 2 * pool->kv_blocks);
  const char *role = roles[between(self, 0, 2)];
  const int64_t overhead = between(self, 0, 2000) * self->scale;
  return offloads ? arena_printf(self->arena, "{name: offloading, cpu_bytes_to_use: %lld B}",
                                 (long long)(blocks * pool->kv_block_bytes))
                  : arena_printf(self->arena, "{name: nixl, kv_role: %s, overhead: %lld us}", role,
                                 (long long)overhead);
}

/* Gives the pool the connector, if it has the batcher of that name, which can have it there;
 * whether it does. */
static bool choose(Draw *self, const SimConfig *config, PoolSpec *pool, const char *name,
                   const char *(*draw_text)(Draw *self, const PoolSpec *pool)) {
  const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
  const OptionSpec *option = find_option(batcher.policy, "kv_connector");
  if (!option || strcmp(batcher.policy->name, name) != 0 || pool->layout ||
      pool->kv_block_bytes == 0)
    return false;
  return draw_batcher_option(self, config, pool, option, draw_text(self, pool));
}

/* Of a quarter of the clusters, the pools that can. */
void cluster_draw_connectors(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "connectors");
  if (!one_in(&own, 4)) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++)
    self->exact &=
        !choose(&own, &self->config, &self->pools[p], "vllm", draw_connector); // rates do not scale
}

/* A link of a tier, often of no width to speak of. */
static const char *draw_link(Draw *self, const PoolSpec *pool, const char *way) {
  const bool limited = one_in(self, 2), late = one_in(self, 2);
  const int64_t blocks = magnitude(self, 1, 10000), latency = between(self, 0, 2000) * self->scale;
  const char *bandwidth = limited ? arena_printf(self->arena, ", %s_bandwidth: %lld B/s", way,
                                                 (long long)(blocks * pool->kv_block_bytes))
                                  : "";
  return late ? arena_printf(self->arena, "%s, %s_latency: %lld us", bandwidth, way,
                             (long long)latency)
              : bandwidth;
}

/* From a few blocks to more than there are on the GPUs. */
static const char *draw_tier(Draw *self, const PoolSpec *pool, const char *name) {
  static const char *const shared[] = {"instance", "machine", "cluster"};
  static const char *const policies[] = {"lru", "lfu", "ttl"};
  const bool evicted = one_in(self, 2), longer = one_in(self, 3);
  const int64_t times = between(self, 2, 5), policy = between(self, 0, 2);
  const int64_t blocks = magnitude(self, 1, 2 * pool->kv_blocks);
  const int64_t ttl = 1 + magnitude(self, 1, 5000) * self->scale;
  const int64_t sharing = between(self, 0, strcmp(name, "cpu") == 0 ? 1 : 2);
  const char *read = draw_link(self, pool, "read");
  const char *write = draw_link(self, pool, "write");
  const char *size = !evicted && longer ? arena_printf(self->arena, ", block_size: %lld",
                                                       (long long)(times * pool->block_size))
                                        : "";
  const char *lasts =
      policy == 2 ? arena_printf(self->arena, ", ttl: %lld us", (long long)ttl) : "";
  return arena_printf(
      self->arena, "{name: %s, capacity: %lld B, store: %s, shared: %s, policy: %s%s%s%s%s}", name,
      (long long)(5 * blocks * pool->kv_block_bytes), evicted ? "on_eviction" : "write_through",
      shared[sharing], policies[policy], lasts, size, read, write);
}

static const char *draw_tiers(Draw *self, const PoolSpec *pool) {
  static const char *const names[] = {"cpu", "ssd", "remote"};
  const int64_t which = between(self, 1, 7);
  const bool recomputes = one_in(self, 3);
  const char *tiers = "";
  for (int i = 0; i < 3; i++) {
    const char *tier = draw_tier(self, pool, names[i]);
    if (which >> i & 1)
      tiers = arena_printf(self->arena, "%s%s%s", tiers, *tiers ? ", " : "", tier);
  }
  return arena_printf(self->arena, "{name: offloading, recompute: %s, tiers: [%s]}",
                      recomputes ? "if_faster" : "never", tiers);
}

/* Of every other cluster, the pools that can; in half of those they are alike, so that
 * they share a store. */
void cluster_draw_tiers(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "tiers");
  if (!one_in(&own, 2)) return;
  const bool alike = one_in(&own, 2);
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    Draw same = own;
    self->pools[p].per_machine = (uint32_t)between(&same, 1, 3);
    const bool chosen =
        choose(alike ? &same : &own, &self->config, &self->pools[p], "vllm", draw_tiers);
    self->exact &= !chosen;
  }
}

/* Storage under that, of a few pages or many; "": none. */
static const char *draw_storage(Draw *self, const PoolSpec *pool) {
  static const char *const names[] = {"ssd", "remote"};
  static const char *const shared[] = {"instance", "machine", "cluster"};
  const bool any = one_in(self, 2);
  const int64_t name = between(self, 0, 1), sharing = between(self, 0, 2);
  const int64_t blocks = magnitude(self, 1, 10 * pool->kv_blocks);
  const char *read = draw_link(self, pool, "read");
  const char *write = draw_link(self, pool, "write");
  return any ? arena_printf(self->arena, ", {name: %s, capacity: %lld B, shared: %s%s%s}",
                            names[name], (long long)(blocks * pool->kv_block_bytes),
                            shared[sharing], read, write)
             : "";
}

/* CPU memory under a radix tree, from a few pages to more than there are on the GPUs. */
static const char *draw_hicache(Draw *self, const PoolSpec *pool) {
  static const char *const stores[] = {"write_through", "write_through_selective", "on_eviction"};
  static const char *const policies[] = {"best_effort", "wait_complete", "timeout"};
  const int64_t store = between(self, 0, 2), threshold = between(self, 0, 40);
  const int64_t policy = between(self, 0, 2), wait = between(self, 0, 200) * self->scale;
  const int64_t blocks = magnitude(self, 1, 3 * pool->kv_blocks);
  const bool by_ratio = one_in(self, 4);
  const char *read = draw_link(self, pool, "read");
  const char *write = draw_link(self, pool, "write");
  const char *storage = draw_storage(self, pool);
  if (by_ratio)
    return arena_printf(self->arena,
                        "{name: hicache, hicache_ratio: %g, load_back_threshold: %lld}",
                        0.1 * (double)(threshold + 1), (long long)threshold);
  return arena_printf(self->arena,
                      "{name: hicache, load_back_threshold: %lld, prefetch_policy: %s, "
                      "prefetch_threshold: %lld, prefetch_timeout_base: %lld us, tiers: [{name: "
                      "cpu, capacity: %lld B, store: %s%s%s}%s]}",
                      (long long)threshold, policies[policy], (long long)threshold, (long long)wait,
                      (long long)(blocks * pool->kv_block_bytes), stores[store], read, write,
                      storage);
}

/* Of every other cluster, the pools with SGLang's scheduler that can. */
void cluster_draw_hicache(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "hicache");
  if (!one_in(&own, 2)) return;
  for (uint32_t p = 0; p < self->config.n_pools; p++)
    self->exact &= !choose(&own, &self->config, &self->pools[p], "sglang", draw_hicache);
}
