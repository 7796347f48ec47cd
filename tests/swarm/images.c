/* Images of prompts, of which few are different, and encoders with hardly room for the longest.
 * From a stream of their own. */
#include "base/hash.h"
#include "tests/swarm/draw.h"

enum { IMAGES_MOST = 6 };

/* Images of a prompt, some of them behind each other; the longest so far. */
static int32_t draw_images(Draw *self, TraceRow *row, int64_t distinct, int64_t gap,
                           int32_t longest) {
  TraceInput *images = ARENA_ARRAY(self->arena, TraceInput, IMAGES_MOST);
  int64_t end = 0;
  for (int32_t n = 0; n < IMAGES_MOST; n++) {
    const bool follows = one_in(self, 3);
    const int64_t place = end + (follows ? 0 : between(self, 0, gap));
    const uint64_t id = (uint64_t)between(self, 1, distinct);
    const int64_t tokens = 1 + (int64_t)(hash_mix(id + self->seed) % (uint64_t)(gap + 1));
    end = place + tokens;
    if (end > row->prompt_tokens) break;
    images[n] = (TraceInput){.id = id, .place = (int32_t)place, .tokens = (int32_t)tokens};
    row->n_inputs = n + 1;
    if (tokens > longest) longest = (int32_t)tokens;
  }
  row->inputs = images;
  return longest;
}

static PolicyChoice encoding(Draw *self, PolicyChoice batcher, bool in_stages, int64_t longest) {
  void *state = arena_copy(self->arena, batcher.state, batcher.policy->state_size);
  const int64_t budget = longest + (one_in(self, 2) ? 0 : between(self, 0, 3 * longest));
  const int64_t cache = longest + (one_in(self, 2) ? 0 : between(self, 0, 3 * longest));
  const int64_t time = between(self, 0, 100) * (TICKS_PER_SECOND / 1000000) * self->scale;
  const OptionSpec *budget_option = find_option(batcher.policy, "max_num_encoder_input_tokens");
  const OptionSpec *cache_option = find_option(batcher.policy, "encoder_cache_size");
  const OptionSpec *time_option = find_option(batcher.policy, "encoder_time_per_token");
  *(int64_t *)((char *)state + budget_option->offset) = budget;
  *(int64_t *)((char *)state + cache_option->offset) = cache;
  *(Tick *)((char *)state + time_option->offset) = in_stages ? 0 : time;
  return (PolicyChoice){.policy = batcher.policy, .state = state};
}

/* Of half of the clusters. */
void cluster_draw_images(Cluster *self, const Draw *draw) {
  const SimConfig *config = &self->config;
  TraceRow *rows = (TraceRow *)self->workload.rows;
  Draw own = *draw;
  rng_init(&own.rng, draw->seed, "images");
  if (!one_in(&own, 2)) return;
  const int64_t distinct = magnitude(&own, 1, 200), gap = magnitude(&own, 1, 500);
  int32_t longest = 1;
  for (int i = 0; i < self->workload.n_rows; i++)
    if (!one_in(&own, 3)) longest = draw_images(&own, &rows[i], distinct, gap, longest);
  for (uint32_t p = 0; p < config->n_pools; p++) {
    PoolSpec *pool = &self->pools[p];
    const PolicyChoice batcher = sim_pool_policy(config, pool, POLICY_BATCHER);
    if (find_option(batcher.policy, "encoder_cache_size"))
      pool->batcher = encoding(&own, batcher, pool->pipeline_stages > 1, longest);
  }
}
