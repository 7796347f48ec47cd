/* KV connectors where a scheduler decides step by step. Pinned: what is evicted from CPU memory,
 * how long a request waits for its KV, what of a prompt is computed then, and what is refused. Not
 * pinned here: the decisions themselves, in differential_vllm. */
#include "sim/core/host_cache.h"
#include "tests/unit/scene_testing.h"

TestSuite(connector, .init = setup_scene, .fini = teardown);

static void choose(const char *connector) {
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               arena_printf(&arena, "{kv_connector: %s}", connector));
}

static void store(HostCache *cache, const uint64_t *keys, int64_t n, int64_t want) {
  uint64_t missing[8];
  int64_t n_stored;
  cr_assert(host_cache_store(cache, keys, 0, n, missing, &n_stored));
  cr_expect_eq(n_stored, want);
  for (int64_t i = 0; i < n_stored; i++)
    host_cache_written(cache, missing[i]);
  host_cache_audit(cache, 0, 0);
}

/* Four blocks of CPU memory. What is stored last goes last; a store of more blocks of the same
 * beginning makes that more recent; what is loaded stays. */
Test(connector, the_least_recently_used_blocks_of_cpu_memory_go) {
  HostCache cache;
  host_cache_init(&cache, 4, HOST_LRU, 0, &arena);
  const uint64_t a[] = {11, 12, 13}, b[] = {21}, c[] = {31, 32}, d[] = {41, 42, 43, 44};
  store(&cache, a, 2, 2);
  store(&cache, b, 1, 1);
  store(&cache, a, 3, 1); // 12 and 11 are more recent than 21 now, 13 than those
  store(&cache, c, 2, 2); // 21 and 12 go
  cr_expect(host_cache_has(&cache, 11) && host_cache_has(&cache, 13));
  cr_expect(!host_cache_has(&cache, 21) && !host_cache_has(&cache, 12));
  host_cache_load(&cache, 13, 1);
  uint64_t missing[4];
  int64_t n_stored;
  cr_expect(!host_cache_store(&cache, d, 0, 4, missing, &n_stored)); // 13 is in use
  cr_expect_eq(cache.n_held, 4);
  host_cache_load(&cache, 13, -1);
  store(&cache, d, 4, 4);
  cr_expect(!host_cache_has(&cache, 13));
  cr_expect_eq(cache.n_evictions, 6);
}

/* Forty tokens of KV come over a network link, twice as fast for the second scene; then one token
 * of the prompt is computed again. */
Test(connector, a_prompt_from_elsewhere_waits_for_its_kv) {
  const TraceRow rows[] = {row(0, 40, 1)};
  Tick first[2];
  for (int fast = 0; fast < 2; fast++) {
    scene.pools[0].kv_bytes_per_token = 1000000;
    scene.pools[0].kv_block_bytes = 1000000 * scene.pools[0].block_size;
    scene.pools[0].nic_bandwidth = 1000000000 * (1 + fast);
    choose("{name: nixl, kv_role: kv_consumer, overhead: 3 ms}");
    run(rows, 1);
    cr_expect_eq(scene.result.totals.prefill_tokens, 1);
    first[fast] = scene.result.metrics.ttft.max;
  }
  const int64_t block = scene.pools[0].block_size, blocks = (40 + block - 1) / block;
  cr_expect_eq(first[0] - first[1], blocks * block * MS / 2);
}

/* A producer computes all of it, and makes the first token. */
Test(connector, a_producer_sends_what_it_has_computed) {
  const TraceRow rows[] = {row(0, 40, 1)};
  choose("{name: nixl, kv_role: kv_producer}");
  run(rows, 1);
  cr_expect_eq(scene.result.totals.prefill_tokens, 40);
}
