/* What requests' tokens are, and blocks that are found again by it. Pinned: keys are equal exactly
 * where segment and length are, and never 0; random operations against arrays that are looked at
 * from end to end, with the books and the queue of free blocks compared after each; the order in
 * which blocks are taken, and which of several with equal content is found; that neighbours are
 * one run. Not pinned: keys' values, where else runs are cut. */
#include "base/rng.h"
#include "sim/core/prefix_cache.h"
#include "tests/unit/testing.h"

TestSuite(content, .init = setup, .fini = teardown);
TestSuite(prefix_cache, .init = setup, .fini = teardown);

enum { BLOCK = 4, DEPTH = 4 };

static Content content_of(const TraceSegment *segments, int32_t n, uint64_t request) {
  Content content = {0};
  content_set(&content, &(TraceRow){.segments = segments, .n_segments = n}, request, &arena);
  return content;
}

/* One that all requests with this id have, however long. */
static Content endless(uint64_t id) {
  return content_of(&(TraceSegment){id, INT32_MAX}, 1, 0);
}

/* A path down a tree of beginnings, so that some are shared; ends are those of its depth. */
static int32_t draw_segments(Rng *rng, TraceSegment *ret_segments) {
  static const int32_t ends[DEPTH] = {5, 16, 17, 32};
  const int32_t n = (int32_t)rng_below(rng, DEPTH + 1);
  uint64_t id = 1;
  for (int32_t i = 0; i < n; i++) {
    id = 2 * id + rng_below(rng, 2);
    ret_segments[i] = (TraceSegment){id, ends[i]};
  }
  return n;
}

/* --- content */

/* Names a beginning by the first segment that reaches so far; past all, by the request. */
static TraceSegment naive_name(const TraceSegment *segments, int32_t n, uint64_t request,
                               int32_t tokens) {
  for (int32_t i = 0; i < n; i++)
    if (segments[i].end >= tokens) return (TraceSegment){segments[i].id, tokens};
  return (TraceSegment){UINT64_MAX - request, tokens};
}

Test(content, keys_are_equal_where_segment_and_length_are) {
  enum { REQUESTS = 40, TOKENS = 37 };
  TraceSegment names[REQUESTS * TOKENS];
  uint64_t keys[REQUESTS * TOKENS];
  Rng rng;
  rng_init(&rng, 1, "content");
  int n_keys = 0, n_equal = 0;
  for (uint64_t request = 0; request < REQUESTS; request++) {
    TraceSegment segments[DEPTH];
    const int32_t n = draw_segments(&rng, segments);
    const Content content = content_of(segments, n, request);
    for (int32_t tokens = 1; tokens <= TOKENS; tokens++, n_keys++) {
      names[n_keys] = naive_name(segments, n, request, tokens);
      keys[n_keys] = content_key(&content, tokens);
    }
  }
  for (int i = 0; i < n_keys; i++)
    for (int j = 0; j < i; j++) {
      const bool equal = names[i].id == names[j].id && names[i].end == names[j].end;
      cr_assert_eq(keys[i] == keys[j], equal, "keys %d and %d", i, j);
      n_equal += equal;
    }
  cr_expect_gt(n_equal, 1000);
}

Test(content, an_id_says_what_comes_before_however_that_is_cut) {
  const Content cut = content_of((TraceSegment[]){{7, 50}, {8, 100}}, 2, 1);
  const Content whole = content_of(&(TraceSegment){8, 100}, 1, 2);
  for (int64_t tokens = 51; tokens <= 100; tokens++)
    cr_expect_eq(content_key(&cut, tokens), content_key(&whole, tokens));
  for (int64_t tokens = 1; tokens <= 50; tokens++)
    cr_expect_neq(content_key(&whole, tokens), content_key(&cut, 50 + tokens));
  cr_expect_neq(content_key(&cut, 101), content_key(&whole, 101), "tails are their own");
}

Test(content, beginnings_are_equal_up_to_where_they_part) {
  const Content one = content_of((TraceSegment[]){{1, 48}, {2, 96}}, 2, 1);
  const Content two = content_of((TraceSegment[]){{1, 48}, {3, 64}, {4, INT32_MAX}}, 3, 2);
  const Content bare = content_of(&(TraceSegment){1, 48}, 1, 3);
  for (int64_t size = 1; size <= 64; size++)
    for (int64_t end = size; end <= 200; end += size) {
      cr_expect_eq(content_key(&one, end) == content_key(&two, end), end <= 48);
      cr_expect_eq(content_key(&one, end) == content_key(&bare, end), end <= 48);
    }
}

Test(content, lengths_differ) {
  enum { LENGTHS = 500 };
  const Content content = endless(1);
  uint64_t keys[LENGTHS];
  for (int64_t i = 0; i < LENGTHS; i++) {
    keys[i] = content_key(&content, 1 + i * i * i * 17);
    for (int64_t j = 0; j < i; j++)
      cr_assert_neq(keys[i], keys[j], "%lld and %lld", (long long)i, (long long)j);
  }
}

/* The x that hash_mix makes into this. */
static uint64_t unmix(uint64_t x) {
  x = (x ^ x >> 31 ^ x >> 62) * UINT64_C(0x319642b2d24d8ec3);
  x = (x ^ x >> 27 ^ x >> 54) * UINT64_C(0x96de1b173f119089);
  return x ^ x >> 30 ^ x >> 60;
}

Test(content, no_key_is_0) {
  const uint64_t id = unmix(-UINT64_C(0x9e3779b97f4a7c15) - 9);
  cr_assert_eq(hash_fold(hash_mix(id), 9), 0);
  const Content content = endless(id);
  cr_expect_neq(content_key(&content, 9), 0);
}

/* --- against arrays */

enum { BLOCKS = 24, REQUESTS = 6, TOKENS_MAX = 48, KEYS_MAX = 1000 };

typedef struct NaiveBlock {
  uint64_t key; // 0: none
  int references;
  int64_t freed, registered; // when
} NaiveBlock;

typedef struct Naive {
  NaiveBlock blocks[BLOCKS];
  int held[REQUESTS][BLOCKS], n_held[REQUESTS];
  int64_t now, n_evictions;
} Naive;

static int naive_find(const Naive *self, uint64_t key) {
  int found = -1;
  for (int i = 0; i < BLOCKS; i++)
    if (self->blocks[i].key == key &&
        (found < 0 || self->blocks[i].registered < self->blocks[found].registered))
      found = i;
  return found;
}

static int64_t naive_free(const Naive *self) {
  int64_t n = 0;
  for (int i = 0; i < BLOCKS; i++)
    n += self->blocks[i].references == 0;
  return n;
}

/* What is taken next: one without a key, else the one that became free first. */
static int naive_next(const Naive *self) {
  int next = -1;
  for (int i = 0; i < BLOCKS; i++) {
    const NaiveBlock *block = &self->blocks[i];
    if (block->references > 0) continue;
    if (block->key == 0) return i;
    if (next < 0 || block->freed < self->blocks[next].freed) next = i;
  }
  return next;
}

typedef struct Scene {
  PrefixCache cache;
  Naive naive;
  Content contents[REQUESTS];
  HeldBlocks held[REQUESTS];
  uint64_t keys[KEYS_MAX];  // all that were ever asked for
  SavedRun names[KEYS_MAX]; // the blocks that they are of
  size_t n_keys;
  Rng rng;
} Scene;

/* A request with what others may have too, or with what only its namesakes have. */
static void begin(Scene *self, int r) {
  TraceSegment segments[DEPTH];
  const int32_t n = draw_segments(&self->rng, segments);
  self->contents[r] = content_of(segments, n, rng_below(&self->rng, 8));
  const Content *content = &self->contents[r];
  for (int32_t tokens = BLOCK; tokens <= TOKENS_MAX; tokens += BLOCK) {
    const uint64_t key = content_key(content, tokens);
    size_t k = 0;
    while (k < self->n_keys && self->keys[k] != key)
      k++;
    if (k < self->n_keys) continue;
    cr_assert_lt(k, COUNT(self->keys));
    self->names[k] = (SavedRun){content->segments[content_segment(content, tokens - 1)].id,
                                tokens / BLOCK - 1, 1};
    self->keys[self->n_keys++] = key;
  }
}

static void match_and_hit(Scene *self, int r) {
  Naive *naive = &self->naive;
  const Content *content = &self->contents[r];
  int64_t n = 0, n_unheld = 0, unheld;
  for (; n < TOKENS_MAX / BLOCK; n++) {
    const int found = naive_find(naive, content_key(content, (n + 1) * BLOCK));
    if (found < 0) break;
    n_unheld += naive->blocks[found].references == 0;
  }
  cr_assert_eq(prefix_cache_match(&self->cache, content, BLOCK, TOKENS_MAX / BLOCK, &unheld), n);
  cr_assert_eq(unheld, n_unheld);
  if (rng_below(&self->rng, 2)) n = (int64_t)rng_below(&self->rng, (uint64_t)n + 1);
  prefix_cache_hit(&self->cache, &self->held[r], content, BLOCK, n);
  for (int64_t i = 0; i < n; i++) {
    const int found = naive_find(naive, content_key(content, (i + 1) * BLOCK));
    naive->blocks[found].references++;
    naive->held[r][naive->n_held[r]++] = found;
  }
}

static void take(Scene *self, int r) {
  Naive *naive = &self->naive;
  int64_t most = TOKENS_MAX / BLOCK - naive->n_held[r];
  if (most > naive_free(naive)) most = naive_free(naive);
  const int64_t n = (int64_t)rng_below(&self->rng, (uint64_t)most + 1);
  prefix_cache_take(&self->cache, &self->held[r], n);
  for (int64_t i = 0; i < n; i++) {
    const int next = naive_next(naive);
    NaiveBlock *block = &naive->blocks[next];
    naive->n_evictions += block->key != 0;
    *block = (NaiveBlock){.references = 1};
    naive->held[r][naive->n_held[r]++] = next;
  }
}

static void fill_blocks(Scene *self, int r) {
  Naive *naive = &self->naive;
  const int64_t tokens = (int64_t)rng_below(&self->rng, (uint64_t)naive->n_held[r] * BLOCK + 1);
  prefix_cache_register(&self->cache, &self->held[r], &self->contents[r], BLOCK, tokens);
  for (int64_t i = 0; i < tokens / BLOCK; i++) {
    NaiveBlock *block = &naive->blocks[naive->held[r][i]];
    if (block->key != 0) continue;
    block->key = content_key(&self->contents[r], (i + 1) * BLOCK);
    block->registered = naive->now++;
  }
}

static void release(Scene *self, int r) {
  Naive *naive = &self->naive;
  prefix_cache_release(&self->cache, &self->held[r]);
  while (naive->n_held[r] > 0) {
    NaiveBlock *block = &naive->blocks[naive->held[r][--naive->n_held[r]]];
    if (--block->references == 0) block->freed = naive->now++;
  }
}

/* Takes what the cache tells of keys to be so. */
static void follow(Scene *self, bool *cached) {
  for (size_t i = 0; i < self->cache.n_changes; i++) {
    const CacheChange *change = &self->cache.changes[i];
    for (int32_t b = change->first; b < change->first + change->n; b++) {
      size_t k = 0;
      while (k < self->n_keys && (self->names[k].id != change->id || self->names[k].first != b))
        k++;
      cr_assert_lt(k, self->n_keys);
      cr_assert_neq(cached[k], change->cached, "told twice");
      cached[k] = change->cached;
    }
  }
  self->cache.n_changes = 0;
}

/* Free blocks that are registered, in the order in which they go. */
static void expect_same_queue(const Scene *self) {
  const PrefixCache *cache = &self->cache;
  int64_t before = -1;
  for (BlockIx ix = cache->oldest; ix != BLOCK_NONE; ix = cache->runs.items[ix].next) {
    const CacheRun *run = &cache->runs.items[ix];
    for (int32_t i = run->n; i-- > 0;) {
      int next = -1;
      for (int k = 0; k < BLOCKS; k++) {
        const NaiveBlock *block = &self->naive.blocks[k];
        if (block->references == 0 && block->key != 0 && block->freed > before &&
            (next < 0 || block->freed < self->naive.blocks[next].freed))
          next = k;
      }
      cr_assert_geq(next, 0);
      before = self->naive.blocks[next].freed;
      cr_assert_eq(self->naive.blocks[next].key,
                   content_key_of(run->id, (run->first + i + 1) * BLOCK));
    }
  }
}

static void expect_same(Scene *self, bool *cached) {
  const Naive *naive = &self->naive;
  int64_t n_references = 0, n_keys = 0;
  for (int i = 0; i < BLOCKS; i++)
    n_keys += naive->blocks[i].key != 0 && naive_find(naive, naive->blocks[i].key) == i;
  for (int r = 0; r < REQUESTS; r++) {
    n_references += naive->n_held[r];
    cr_assert_eq(self->held[r].n, naive->n_held[r]);
  }
  prefix_cache_audit(&self->cache, n_references);
  expect_same_queue(self);
  follow(self, cached);
  for (size_t k = 0; k < self->n_keys; k++) {
    const bool found = naive_find(naive, self->keys[k]) >= 0;
    cr_assert_eq(prefix_cache_has(&self->cache, self->names[k].id, self->names[k].first), found);
    cr_assert_eq(cached[k], found);
  }
  cr_assert_eq(self->cache.n_keys, n_keys);
  cr_assert_eq(self->cache.n_free, naive_free(naive));
  cr_assert_eq(self->cache.n_evictions, naive->n_evictions);
}

Test(prefix_cache, agrees_with_arrays_under_random_operations) {
  static void (*const operations[])(Scene *, int) = {take, take, fill_blocks, fill_blocks, release};
  int64_t n_evictions = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    Scene *scene = ARENA_NEW(&arena, Scene);
    bool cached[COUNT(scene->keys)] = {false};
    rng_init(&scene->rng, seed, "prefix_cache");
    prefix_cache_init(&scene->cache, BLOCKS, &arena);
    scene->cache.tells_changes = true;
    for (int i = 0; i < 2000; i++) {
      const int r = (int)rng_below(&scene->rng, REQUESTS);
      if (scene->naive.n_held[r] == 0) {
        begin(scene, r);
        match_and_hit(scene, r);
      }
      operations[rng_below(&scene->rng, COUNT(operations))](scene, r);
      expect_same(scene, cached);
    }
    n_evictions += scene->naive.n_evictions;
  }
  cr_expect_gt(n_evictions, 3000);
}

/* What one request leaves is one run, however it came to be; so is what another takes up whole. One
 * that needs a part cuts it, and it is one again when all are gone. */
Test(prefix_cache, neighbours_are_one_run) {
  PrefixCache cache;
  prefix_cache_init(&cache, 900, &arena);
  const Content content = endless(1);
  HeldBlocks first = {0}, second = {0};
  prefix_cache_take(&cache, &first, 300);
  for (int64_t tokens = 0; tokens <= 300 * BLOCK; tokens++)
    prefix_cache_register(&cache, &first, &content, BLOCK, tokens);
  cr_expect(first.n_runs == 1 && cache.runs.n_used == 1);
  prefix_cache_release(&cache, &first);
  prefix_cache_hit(&cache, &first, &content, BLOCK, 300);
  prefix_cache_take(&cache, &first, 100);
  prefix_cache_register(&cache, &first, &content, BLOCK, 400 * BLOCK);
  cr_expect(first.n_runs == 1 && cache.runs.n_used == 1);
  prefix_cache_hit(&cache, &second, &content, BLOCK, 200);
  cr_expect_eq(cache.runs.n_used, 2u);
  prefix_cache_release(&cache, &first);
  cr_expect(cache.n_free == 700 && cache.n_keys == 400);
  prefix_cache_release(&cache, &second);
  prefix_cache_audit(&cache, 0);
  cr_expect(cache.runs.items[cache.oldest].n == 400 && cache.oldest == cache.newest);
}

/* --- the order in which blocks are taken, and found */

static int64_t found(const PrefixCache *cache, const Content *content) {
  int64_t unheld;
  return prefix_cache_match(cache, content, BLOCK, 8, &unheld);
}

/* A request with `n` new blocks, all full. */
static HeldBlocks fill(PrefixCache *cache, const Content *content, int64_t n) {
  HeldBlocks held = {0};
  prefix_cache_take(cache, &held, n);
  prefix_cache_register(cache, &held, content, BLOCK, n * BLOCK);
  return held;
}

Test(prefix_cache, tails_of_what_was_freed_least_recently_go_first) {
  PrefixCache cache;
  prefix_cache_init(&cache, 6, &arena);
  const Content a = endless(1), b = endless(2);
  HeldBlocks of_a = fill(&cache, &a, 3), of_b = fill(&cache, &b, 3), taker = {0};
  prefix_cache_release(&cache, &of_a);
  prefix_cache_release(&cache, &of_b);
  prefix_cache_hit(&cache, &of_a, &a, BLOCK, 2);
  prefix_cache_release(&cache, &of_a); // its last block was not used again
  static const int64_t want[][2] = {{2, 3}, {2, 2}, {2, 1}, {2, 0}, {1, 0}, {0, 0}};
  for (size_t i = 0; i < COUNT(want); i++) {
    prefix_cache_take(&cache, &taker, 1);
    cr_expect_eq(found(&cache, &a), want[i][0], "of a after %zu", i + 1);
    cr_expect_eq(found(&cache, &b), want[i][1], "of b after %zu", i + 1);
  }
  cr_expect_eq(cache.n_evictions, 6);
}

Test(prefix_cache, what_somebody_holds_stays) {
  PrefixCache cache;
  prefix_cache_init(&cache, 4, &arena);
  const Content a = endless(1);
  HeldBlocks first = fill(&cache, &a, 3), second = {0}, taker = {0};
  prefix_cache_hit(&cache, &second, &a, BLOCK, 2);
  prefix_cache_release(&cache, &first);
  cr_expect_eq(cache.n_free, 2);
  prefix_cache_take(&cache, &taker, 2);
  cr_expect_eq(found(&cache, &a), 2);
  prefix_cache_release(&cache, &second);
  prefix_cache_audit(&cache, 2);
}

Test(prefix_cache, blocks_without_a_key_go_first) {
  PrefixCache cache;
  prefix_cache_init(&cache, 4, &arena);
  const Content a = endless(1);
  HeldBlocks of_a = fill(&cache, &a, 2), unfilled = {0};
  prefix_cache_take(&cache, &unfilled, 2);
  prefix_cache_release(&cache, &of_a);
  prefix_cache_release(&cache, &unfilled);
  prefix_cache_take(&cache, &unfilled, 2);
  cr_expect(found(&cache, &a) == 2 && cache.n_evictions == 0);
  prefix_cache_take(&cache, &unfilled, 1);
  cr_expect(found(&cache, &a) == 1 && cache.n_evictions == 1);
}

/* The run that is found for the first block of this. */
static BlockIx found_block(PrefixCache *cache, const Content *content) {
  HeldBlocks held = {0};
  prefix_cache_hit(cache, &held, content, BLOCK, 1);
  const BlockIx ix = held.runs[0].run;
  prefix_cache_release(cache, &held);
  return ix;
}

Test(prefix_cache, of_blocks_with_one_key_the_first_is_found_and_then_the_next) {
  PrefixCache cache;
  prefix_cache_init(&cache, 3, &arena);
  cache.tells_changes = true;
  const Content a = endless(1);
  HeldBlocks copies[3], taker = {0};
  BlockIx order[3];
  for (size_t i = 0; i < 3; i++) {
    copies[i] = fill(&cache, &a, 1);
    order[i] = copies[i].runs[0].run;
  }
  cr_expect_eq(found_block(&cache, &a), order[0]);
  for (size_t i = 0; i < 3; i++)
    prefix_cache_release(&cache, &copies[i]);
  prefix_cache_take(&cache, &taker, 1);
  cr_expect_eq(found_block(&cache, &a), order[1]); // which is then the last to go
  prefix_cache_take(&cache, &taker, 1);
  cr_expect_eq(found_block(&cache, &a), order[1]);
  cr_expect(cache.n_keys == 1 && cache.n_changes == 1 && cache.changes[0].cached);
  prefix_cache_take(&cache, &taker, 1);
  cr_expect(found(&cache, &a) == 0 && cache.n_keys == 0 && cache.n_evictions == 3);
  cr_expect(cache.n_changes == 2 && !cache.changes[1].cached);
}
