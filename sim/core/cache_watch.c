/* See cache_watch.h. */
#include "sim/core/cache_watch.h"
#include "sim/core/segment_holders.h"
#include <assert.h>

void cache_watch_init(CacheWatch *self, uint32_t n_instances, Arena *arena) {
  *self = (CacheWatch){.arena = arena,
                       .n_words = (n_instances + INSTANCES_PER_WORD - 1) / INSTANCES_PER_WORD,
                       .victims = ARENA_ARRAY(arena, Victims, n_instances)};
  self->stirred = ARENA_ARRAY(arena, uint64_t, self->n_words);
  holders_init(&self->threatened, n_instances, arena);
}

void cache_watch_join(CacheWatch *self, const Instance *instance) {
  PrefixCache *cache = instance->cache;
  cache->stirred = &self->stirred[instance->ix / INSTANCES_PER_WORD];
  cache->stirred_bit = instance_bit(instance->ix);
  prefix_cache_stir(cache);
}

InstanceIx cache_watch_next(CacheWatch *self) {
  for (uint32_t w = 0; w < self->n_words; w++) {
    if (self->stirred[w] == 0) continue;
    const uint32_t bit = (uint32_t)__builtin_ctzll(self->stirred[w]);
    self->stirred[w] &= self->stirred[w] - 1;
    return w * INSTANCES_PER_WORD + bit;
  }
  return INSTANCE_NONE;
}

/* --- what requests write */

void cache_watch_enter(CacheWatch *self, RequestIx ix, const Content *content,
                       int64_t prompt_tokens, int64_t tokens) {
  ARENA_RESERVE(self->arena, self->requests, self->requests_capacity, (size_t)ix + 1);
  WrittenSegments *written = &self->requests[ix];
  if (written->n > 0) return;
  const int32_t first = content_segment(content, prompt_tokens - 1);
  const int32_t last = content_segment(content, tokens - 1);
  written->n = (uint32_t)(last - first + 1);
  if (written->n > WRITTEN) {
    self->n_unnamed++;
    return;
  }
  for (uint32_t i = 0; i < written->n; i++) {
    written->names[i] = segment_name(content->segments[first + (int32_t)i].id);
    ++*key_map_put(&self->written, written->names[i], self->arena);
  }
}

void cache_watch_leave(CacheWatch *self, RequestIx ix) {
  if (ix >= self->requests_capacity) return;
  WrittenSegments *written = &self->requests[ix];
  self->n_unnamed -= written->n > WRITTEN;
  for (uint32_t i = 0; i < written->n && written->n <= WRITTEN; i++)
    if (--*key_map_find(&self->written, written->names[i]) == 0)
      key_map_remove(&self->written, written->names[i]);
  written->n = 0;
}

bool cache_watch_is_written(const CacheWatch *self, const Content *content, int64_t block_size,
                            int64_t n) {
  if (self->n_unnamed > 0) return true;
  for (SegmentPart part = {0}; segment_part_next(content, block_size, n, &part);)
    if (key_map_find(&self->written, part.segment)) return true;
  return false;
}

/* --- what runs take */

/* Blocks that an instance's run may take beyond those that are booked: one iteration more than it
 * may have, as the next one may be decided before the last has ended. */
static int64_t growth_ahead(const Instance *instance) {
  const Batch *batch = &instance->batch;
  if (instance->activity == ACTIVITY_IDLE || batch->n_seqs == 0) return 0;
  const int64_t booked = instance->run.booked - instance->lag;
  const int64_t left = instance->activity == ACTIVITY_DECODE ? instance->run.limit - booked : 0;
  return batch_growth(batch, (left > 0 ? left : 0) + 1);
}

void cache_watch_expect(CacheWatch *self, const Instance *instance) {
  Victims *victims = &self->victims[instance->ix];
  const PrefixCache *cache = instance->cache;
  while (victims->n > 0)
    holders_remove(&self->threatened, victims->names[--victims->n], instance->ix);
  int64_t n = growth_ahead(instance) - cache->n_blank;
  for (BlockIx ix = cache->oldest; n > 0 && ix != BLOCK_NONE; ix = cache->runs.items[ix].next) {
    const CacheRun *run = &cache->runs.items[ix];
    ARENA_RESERVE(self->arena, victims->names, victims->capacity, victims->n + 1);
    victims->names[victims->n++] = segment_name(run->id);
    holders_add(&self->threatened, victims->names[victims->n - 1], instance->ix);
    n -= run->n;
  }
}
