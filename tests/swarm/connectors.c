/* Pools whose scheduler has a KV connector. From a stream of their own. */
#include "base/yaml.h"
#include "sim/batcher/batcher.h"
#include "tests/swarm/draw.h"
#include <string.h>

/* CPU memory from a few blocks to more than there are on the GPUs. */
static Node *draw_node(Draw *self, const PoolSpec *pool, Diag *diag) {
  static const char *const roles[] = {"kv_both", "kv_producer", "kv_consumer"};
  const bool offloads = one_in(self, 2);
  const int64_t blocks = magnitude(self, 1, 2 * pool->kv_blocks);
  const char *role = roles[between(self, 0, 2)];
  const int64_t overhead = between(self, 0, 2000) * self->scale;
  const char *text = offloads
                         ? arena_printf(self->arena, "{name: offloading, cpu_bytes_to_use: %lld B}",
                                        (long long)(blocks * pool->kv_block_bytes))
                         : arena_printf(self->arena, "{name: nixl, kv_role: %s, overhead: %lld us}",
                                        role, (long long)overhead);
  return yaml_parse("drawn", text, strlen(text), self->arena, diag);
}

/* Of a quarter of the clusters, the pools that can. */
void cluster_draw_connectors(Cluster *self, const Draw *draw) {
  const SimConfig *config = &self->config;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "connectors");
  if (!one_in(&own, 4)) return;
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
    const OptionSpec *option = find_option(batcher.policy, "kv_connector");
    const char *key;
    if (!option || pool->layout || pool->kv_block_bytes == 0) continue;
    void *state = arena_copy(own.arena, batcher.state, batcher.policy->state_size);
    Diag diag;
    diag_init(&diag);
    *(Node **)((char *)state + option->offset) = draw_node(&own, pool, &diag);
    const Batcher *vllm = (const Batcher *)batcher.policy;
    if (!batcher.policy->check(state, NULL, place_of_file("drawn"), own.arena, &diag) &&
        !vllm->refuse(state, pool, own.arena, &key))
      pool->batcher = (PolicyChoice){.policy = batcher.policy, .state = state};
    diag_done(&diag);
  }
}
