/* KV blocks that an offloading connector keeps in CPU memory, found by their content and evicted
 * least recently used first, as vLLM's OffloadingConnector has them.
 *
 * A block is in it from the decision on that stores it, and can be loaded once it is written. While
 * it is written or loaded it is not evicted; then it is the most recently used. A store or load of
 * a request makes those of its other blocks that are there more recent, the first of them most of
 * all. */
#ifndef SIM_CORE_HOST_CACHE_H
#define SIM_CORE_HOST_CACHE_H
#include "base/key_map.h"
#include <stdbool.h>

typedef struct HostBlock {
  uint64_t key;
  uint32_t older, newer; // of those that may be evicted; HOST_NONE: none
  int32_t n_loads;       // under way
  bool written, kept;    // kept: not to be evicted by the present store
} HostBlock;

#define HOST_NONE UINT32_MAX

typedef struct HostCache {
  Arena *arena;
  KeyMap places; // in `blocks`, by key
  HostBlock *blocks;
  size_t capacity;
  uint32_t n_used, unused; // places below n_used, of which those from `unused` on have no block
  uint32_t oldest, newest;
  int64_t n_blocks, n_held, n_evictions; // that there is room for, that are there
} HostCache;

void host_cache_init(HostCache *self, int64_t n_blocks, Arena *arena);
/* Whether the block is there and written; whether a load of it is under way. */
bool host_cache_has(const HostCache *self, uint64_t key);
bool host_cache_loads(const HostCache *self, uint64_t key);
/* Makes room for those of `n` keys of a request that are not there, from `from` on, and puts them
 * there, not written yet; `*ret_stored` of them, first in `keys`' order in `ret_keys`. False where
 * not enough can be evicted: then nothing changes. */
bool host_cache_store(HostCache *self, const uint64_t *keys, int64_t from, int64_t n,
                      uint64_t *ret_keys, int64_t *ret_stored);
/* Those of `n` keys of a request that may be evicted are more recent. */
void host_cache_touch(HostCache *self, const uint64_t *keys, int64_t n);
/* A block that is there is written; a load of it begins (1) or ends (-1). */
void host_cache_written(HostCache *self, uint64_t key);
void host_cache_load(HostCache *self, uint64_t key, int change);
/* The books against each other, and against so many loads and blocks that are being written.
 * Asserts. O(blocks). */
void host_cache_audit(const HostCache *self, int64_t n_loads, int64_t n_unwritten);
#endif
