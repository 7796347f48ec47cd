/* Layers that do not all keep every token: groups of them in the pools whose batcher has such. From
 * a stream of its own. */
#include "sim/batcher/batcher.h"
#include "sim/policies.h"
#include "tests/swarm/draw.h"

enum { GROUPS_MOST = 6 };

static KvGroupSpec draw_group(Draw *self, KvGroupKind kind, int64_t block_size) {
  const int64_t doublings = between(self, 0, 2);
  return (KvGroupSpec){.kind = kind,
                       .block_size = block_size * (INT64_C(1) << doublings),
                       .window = kind == KV_WINDOW ? magnitude(self, 1, 2000) : 0};
}

/* One to three kinds, the last of which is full attention in most cases. */
static const KvLayout *draw_layout(Draw *self, int64_t block_size) {
  KvGroupSpec *groups = ARENA_ARRAY(self->arena, KvGroupSpec, GROUPS_MOST);
  KvLayout *layout = ARENA_NEW(self->arena, KvLayout);
  const KvGroupSpec full = draw_group(self, KV_FULL, block_size);
  int32_t n = 0;
  for (int kind = KV_WINDOW; kind <= KV_STATE; kind++) {
    KvGroupSpec group = draw_group(self, (KvGroupKind)kind, block_size);
    if (kind == KV_STATE) group.block_size = full.block_size;
    for (int64_t k = one_in(self, 2) ? between(self, 1, 2) : 0; k > 0; k--)
      groups[n++] = group;
  }
  if (n == 0 || groups[n - 1].kind == KV_STATE || !one_in(self, 4)) groups[n++] = full;
  *layout = (KvLayout){.groups = groups, .n_groups = n, .block_size = full.block_size};
  return layout;
}

void cluster_draw_layers(Cluster *self, const Draw *draw) {
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "layers");
  for (uint32_t p = 0; p < self->config.n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const Batcher *batcher =
        (const Batcher *)sim_pool_policy(&self->config, pool, POLICY_BATCHER).policy;
    pool->window_bytes_per_token = one_in(&own, 3) ? pool->kv_bytes_per_token : 0;
    pool->window = magnitude(&own, 1, 2000);
    pool->state_bytes = one_in(&own, 3) ? pool->kv_bytes_per_token * 100 : 0;
    if (!batcher->groups_layers || pool->pipeline_stages > 1 || !one_in(&own, 3)) continue;
    pool->layout = draw_layout(&own, pool->block_size);
    pool->kv_blocks *= between(&own, 1, pool->layout->n_groups);
  }
}
