/* Files of saved caches of any bytes, for two pools of which one keeps caches. One that is refused
 * has an entry and one that is not has none; a machine begins with as much as it has blocks for. */
#include "sim/books/saved_caches.h"
#include "sim/policies.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MACHINES = 3, BLOCKS = 3 };

static void begin_warm(const SavedCache *saved, Arena *arena) {
  PrefixCache cache;
  prefix_cache_init(&cache, BLOCKS, arena);
  prefix_cache_load(&cache, saved, 16);
  prefix_cache_audit(&cache, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Arena arena;
  Diag diag;
  arena_init(&arena);
  diag_init(&diag);
  const Policy *vllm = policy_find(POLICY_BATCHER, "vllm");
  const Policy *continuous = policy_find(POLICY_BATCHER, "continuous");
  const PolicyChoice batcher = {vllm,
                                policy_bind(vllm, NULL, place_of_file("fuzz"), &arena, &diag)};
  const PoolSpec pools[] = {
      {.name = "chat", .count = 2, .kv_blocks = BLOCKS, .block_size = 16, .batcher = batcher},
      {.name = "plain",
       .count = 1,
       .kv_blocks = BLOCKS,
       .block_size = 16,
       .batcher = {.policy = continuous}}};
  const SimConfig config = {.pools = pools, .n_pools = 2};
  LineReader reader;
  SavedCaches saved;
  line_reader_open_text(&reader, "fuzz", (const char *)data, size, &arena);
  const int status =
      saved_caches_load(&saved, &reader, place_of_file("config"), &config, &arena, &diag);
  assert((status < 0) == (diag.n_entries > 0));
  for (int m = 0; m < MACHINES; m++)
    if (status == 0) begin_warm(&saved.instances[m], &arena);
  assert(saved.instances[MACHINES - 1].n == 0);
  diag_done(&diag);
  arena_done(&arena);
  return 0;
}
