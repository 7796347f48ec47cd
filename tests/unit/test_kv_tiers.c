/* Tiers of KV under a prefix cache. Pinned: which block goes first by each policy, worked out by
 * hand; that tiers on links of no width to speak of find what one memory of their sum finds, to
 * the block; how long a load takes; who shares a tier; when KV is computed instead; what is
 * refused. Bytes on links are audited in every run. */
#include "base/rng.h"
#include "sim/core/host_cache.h"
#include "tests/unit/scene_testing.h"

TestSuite(kv_tiers, .init = setup_scene, .fini = teardown);

/* A link to CPU memory that takes next to no time. */
static void choose(const char *options) {
  scene.pools[0].host_link.options =
      (HostLinkOptions){.to_gpu = 1000000000000000, .to_cpu = 1000000000000000, .efficiency = 1};
  scene_choose(&scene, POLICY_BATCHER, "vllm", arena_printf(&arena, "{%s}", options));
}

static void choose_tiers(const char *tiers) {
  choose(arena_printf(&arena, "kv_connector: {name: offloading, tiers: [%s]}", tiers));
}

/* --- what goes first */

static void expect_there(HostCache *cache, const char *want) {
  char there[8];
  int n = 0;
  for (uint64_t key = 1; key < 8; key++)
    if (host_cache_has(cache, key)) there[n++] = (char)('0' + key);
  there[n] = '\0';
  cr_expect_str_eq(there, want);
  host_cache_audit(cache, 0, 0);
}

static void use(HostCache *cache, uint64_t key) {
  host_cache_load(cache, key, 1);
  host_cache_load(cache, key, -1);
}

/* Three blocks; 1, 2 and 3 come, 1 is used twice, 3 once; then 4, 5 and 6 come. */
static void go_through(HostPolicy policy, const char *with_4, const char *with_5,
                       const char *with_6) {
  HostCache cache;
  host_cache_init(&cache, 3, policy, 0, &arena);
  for (uint64_t key = 1; key <= 3; key++)
    cr_expect(host_cache_put(&cache, key));
  use(&cache, 1);
  use(&cache, 1);
  use(&cache, 3);
  cr_expect(host_cache_put(&cache, 4));
  expect_there(&cache, with_4);
  use(&cache, 4);
  cr_expect(host_cache_put(&cache, 5));
  expect_there(&cache, with_5);
  cr_expect(host_cache_put(&cache, 6));
  expect_there(&cache, with_6);
  cr_expect(!host_cache_put(&cache, 6));
  cr_expect_eq(cache.n_evictions, 3);
}

/* Least recently used, 2, 1 and 3 go. By how often (1: 3, 2: 1, 3: 2, 4: 2 with its use), 2 goes;
 * then 3, used before 4; then 5, which was used once only. */
Test(kv_tiers, by_policy_others_go) {
  go_through(HOST_LRU, "134", "345", "456");
  go_through(HOST_LFU, "134", "145", "146");
}

/* Blocks of 10 ticks. 2 is used at 6 and lasts until 16; 3, which comes at 12, is the newest. */
Test(kv_tiers, by_time_blocks_go_that_nobody_uses) {
  HostCache cache;
  host_cache_init(&cache, 2, HOST_TTL, 10, &arena);
  cr_expect(host_cache_put(&cache, 1));
  cr_expect(host_cache_put(&cache, 2));
  cache.now = 6;
  use(&cache, 2);
  cache.now = 9;
  expect_there(&cache, "12");
  cache.now = 10;
  expect_there(&cache, "2");
  cache.now = 12;
  cr_expect(host_cache_put(&cache, 3));
  cr_expect_eq(cache.n_evictions, 0);
  cr_expect_eq(cache.n_expired, 1);
  cr_expect(host_cache_put(&cache, 4)); // full: the least recent goes before its time
  expect_there(&cache, "34");
  cache.now = 22;
  expect_there(&cache, "");
}

/* --- one memory of the sum */

/* Prompts of a few conversations, each a longer or shorter beginning of it, `gap` ticks apart, with
 * a last block that is not full. */
static void draw_rows(TraceRow *rows, uint64_t seed, Tick gap) {
  static TraceSegment conversations[SCENE_REQUESTS];
  Rng rng;
  rng_init(&rng, seed, "kv_tiers");
  for (int i = 0; i < SCENE_REQUESTS; i++) {
    const uint64_t conversation = rng_below(&rng, 7);
    const int32_t blocks = (int32_t)rng_below(&rng, 12);
    const int32_t rest = 1 + (int32_t)rng_below(&rng, 15);
    conversations[i] = (TraceSegment){1 + conversation, INT32_MAX};
    rows[i] = row(gap * i, 16 * blocks + rest, 1);
    rows[i].segments = &conversations[i];
    rows[i].n_segments = 1;
  }
}

static void keep_found(int32_t *ret_found) {
  for (int i = 0; i < SCENE_REQUESTS; i++)
    ret_found[i] = scene.records[i].cached_tokens;
}

/* One request at a time. What the GPUs evict goes to a tier, or to two. */
Test(kv_tiers, a_cache_with_tiers_finds_what_one_of_their_sum_does) {
  enum { GPU = 24, SEEDS = 12 };
  TraceRow rows[SCENE_REQUESTS];
  int32_t alone[SCENE_REQUESTS], with[SCENE_REQUESTS];
  int64_t loaded = 0, evicted = 0;
  scene.pools[0].kv_block_bytes = 16;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    const int64_t cpu = 3 + 2 * (int64_t)seed, ssd = 12 - (int64_t)seed;
    draw_rows(rows, seed, TICKS_PER_SECOND);
    scene.pools[0].kv_blocks = GPU + cpu + ssd;
    choose("enable_prefix_caching: true");
    run(rows, SCENE_REQUESTS);
    keep_found(alone);
    scene.pools[0].kv_blocks = GPU;
    for (int two = 0; two < 2; two++) {
      const long long first = two ? cpu : cpu + ssd;
      const char *tiers = arena_printf(
          &arena, "{name: cpu, capacity: %lld B, store: on_eviction}%s", 16 * first,
          two ? arena_printf(&arena, ", {name: ssd, capacity: %lld B, store: on_eviction}",
                             16 * (long long)ssd)
              : "");
      choose_tiers(tiers);
      run(rows, SCENE_REQUESTS);
      keep_found(with);
      for (int i = 0; i < SCENE_REQUESTS; i++)
        cr_assert_eq(with[i], alone[i], "seed %d, %d tiers, request %d: %d tokens, not %d",
                     (int)seed, 1 + two, i, with[i], alone[i]);
      loaded += scene.result.totals.tier_hit_tokens[KV_STORE_SSD];
      evicted += scene.result.totals.evictions;
    }
  }
  cr_expect_gt(loaded, 1000);
  cr_expect_gt(evicted, 1000);
}

/* Many at once: two tiers give the run that one of their sum gives. */
Test(kv_tiers, a_run_with_two_tiers_is_that_of_one) {
  TraceRow rows[SCENE_REQUESTS];
  int64_t loaded = 0;
  scene.pools[0].kv_block_bytes = 16;
  scene.pools[0].kv_blocks = 60;
  for (uint64_t seed = 0; seed < 6; seed++) {
    draw_rows(rows, seed, 20 * MS);
    choose_tiers("{name: cpu, capacity: 480 B, store: on_eviction}");
    run(rows, SCENE_REQUESTS);
    const uint64_t one = scene.result.digest;
    choose_tiers("{name: cpu, capacity: 96 B, store: on_eviction},"
                 "{name: ssd, capacity: 384 B, store: on_eviction}");
    run(rows, SCENE_REQUESTS);
    cr_expect_eq(scene.result.digest, one, "seed %d", (int)seed);
    loaded += scene.result.totals.tier_hit_tokens[KV_STORE_SSD];
  }
  cr_expect_gt(loaded, 100);
}

/* --- times */

static const TraceSegment everybody = {1, INT32_MAX};

/* Two prompts of the same 40 tokens, of which two blocks of 16 MB each are full, and between them
 * a short one, with whose step a scheduler of one instance hears that they are written. */
static void run_twice(Tick second) {
  const bool heard = scene.pools[0].count == 1;
  TraceRow rows[] = {row(0, 40, 1), row(second, 40, 1), row(second, 40, 1)};
  if (heard) rows[1] = row(second - 40 * MS, 5, 1);
  for (int i = 0; i < 3; i++) {
    if (heard && i == 1) continue;
    rows[i].segments = &everybody;
    rows[i].n_segments = 1;
  }
  scene.pools[0].kv_block_bytes = 16000000;
  run(rows, heard ? 3 : 2);
  if (heard) scene.records[1] = scene.records[2];
}

static Tick first_token(int i) {
  return scene.records[i].first_token_at - scene.records[i].arrived_at;
}

/* The first prompt takes 50 ms, and its blocks 1000 / 2 ms to be written, and 5 ms. The second is
 * there when they are: it waits 32 ms for their 32 MB, and 7 ms of latency, and computes 8 tokens
 * in 18 ms. One that comes while they are written computes all. */
Test(kv_tiers, a_load_takes_its_bytes_and_its_latency) {
  choose("enable_prefix_caching: false, kv_connector: {name: offloading, tiers: [{name: ssd, "
         "capacity: 1 GB, read_bandwidth: 1 GB/s, read_latency: 7 ms, write_bandwidth: 64 MB/s, "
         "write_latency: 5 ms}]}");
  run_twice(600 * MS);
  expect_at(first_token(0), 50000, "first");
  expect_at(first_token(1), 57000, "second");
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_eq(scene.records[1].cached_tokens, 32);
  cr_expect_eq(totals->tier_hit_tokens[KV_STORE_SSD], 32);
  cr_expect(totals->tier_read_bytes[KV_STORE_SSD] == 32000000);
  cr_expect(totals->tier_written_bytes[KV_STORE_SSD] == 32000000);
  cr_expect(totals->kv_load_ticks == 39 * MS);
  cr_expect_eq(totals->kv_loads, 1);
  run_twice(500 * MS);
  cr_expect_eq(scene.records[1].cached_tokens, 0);
}

/* Blocks of 32 tokens are found whole; of 64, none is full. */
Test(kv_tiers, blocks_of_a_tier_may_be_longer) {
  for (int size = 32; size <= 64; size += 32) {
    choose(arena_printf(&arena,
                        "enable_prefix_caching: false, kv_connector: {name: offloading, "
                        "tiers: [{name: ssd, capacity: 1 GB, block_size: %d}]}",
                        size));
    run_twice(600 * MS);
    cr_expect_eq(scene.records[1].cached_tokens, size == 32 ? 32 : 0);
  }
}

/* Thirty-two tokens take 32 ms to compute beside others: at 100 MB/s they are not loaded. */
Test(kv_tiers, what_is_computed_sooner_is_not_loaded) {
  for (int slow = 0; slow < 2; slow++) {
    choose(arena_printf(&arena,
                        "enable_prefix_caching: false, kv_connector: {name: offloading, "
                        "recompute: if_faster, tiers: [{name: ssd, capacity: 1 GB, "
                        "read_bandwidth: %s}]}",
                        slow ? "900 MB/s" : "1100 MB/s"));
    run_twice(600 * MS);
    cr_expect_eq(scene.records[1].cached_tokens, slow ? 0 : 32);
  }
}

/* Two instances in turn: the second finds what the first has computed in the store that they
 * share. What it loads from there goes through its CPU memory and stays there, too. */
Test(kv_tiers, instances_share_a_store) {
  static const char *const tiers = "{name: cpu, capacity: 1 GB}, {name: remote, capacity: 1 GB, "
                                   "read_bandwidth: 1 GB/s, shared: %s}";
  scene.pools[0].count = 2;
  scene.pools[0].nic_bandwidth = 500000000;
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  choose_tiers(arena_printf(&arena, tiers, "cluster"));
  run_twice(600 * MS);
  cr_expect_eq(scene.records[1].cached_tokens, 32);
  expect_at(first_token(1), 82000, "over the network link"); // 32 MB in 64 ms, 18 ms
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect(totals->tier_written_bytes[KV_STORE_CPU] == 64000000);
  cr_expect(totals->tier_written_bytes[KV_STORE_REMOTE] == 32000000);
  cr_expect_eq(totals->tier_hit_tokens[KV_STORE_CPU], 0);
  choose_tiers(arena_printf(&arena, tiers, "instance"));
  run_twice(600 * MS);
  cr_expect_eq(scene.records[1].cached_tokens, 0);
}

/* Instances of one machine have its SSD together. */
Test(kv_tiers, instances_of_a_machine_share_its_ssd) {
  scene.pools[0].count = 2;
  scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
  choose_tiers("{name: ssd, capacity: 1 GB, shared: machine}");
  for (uint32_t together = 1; together <= 2; together++) {
    scene.pools[0].per_machine = together;
    run_twice(600 * MS);
    cr_expect_eq(scene.records[1].cached_tokens, together == 2 ? 32 : 0);
  }
}
