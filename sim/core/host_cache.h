/* KV blocks that a connector keeps in memory other than that of the GPUs, found by their content.
 *
 * A block is in it from the decision on that stores it, and can be loaded once it is written. While
 * it is written or loaded it is not evicted; then it is the most recently used. A store or load of
 * a request makes those of its other blocks that are there more recent, the first of them most of
 * all. So it is in vLLM's OffloadingConnector. One that another memory has evicted is there at once
 * (host_cache_put), and can be loaded from `ready_at` on.
 *
 * What goes first: the least recently used (LRU); the least often used, and of those the least
 * recently (LFU), where being stored is a use, as each load is or being part of the beginning of
 * one, and uses are counted to HOST_USES_MOST; the least recently used, but whatever was not used
 * for `ttl` is gone (TTL). All are one list in order of eviction, cut at numbers of uses, so that
 * each use costs O(1). */
#ifndef SIM_CORE_HOST_CACHE_H
#define SIM_CORE_HOST_CACHE_H
#include "base/key_map.h"
#include "base/units.h"
#include <stdbool.h>

typedef enum HostPolicy { HOST_LRU, HOST_LFU, HOST_TTL } HostPolicy;

typedef struct HostBlock {
  uint64_t key;
  Tick used_at, ready_at;
  uint32_t older, newer; // of those that may be evicted, in order; HOST_NONE: none
  int32_t n_loads;       // under way
  uint8_t uses;          // of LFU; else 0
  bool written, kept;    // kept: not to be evicted by the present store
} HostBlock;

/* One that had to go for others. */
typedef struct HostEvicted {
  uint64_t key;
  Tick ready_at;
} HostEvicted;

#define HOST_NONE UINT32_MAX
enum { HOST_USES_MOST = 63 };

typedef struct HostCache {
  Arena *arena;
  HostPolicy policy;
  Tick ttl, now; // the caller brings `now` up to date
  KeyMap places; // in `blocks`, by key
  HostBlock *blocks;
  size_t capacity;
  uint32_t n_used, unused;           // places below n_used, of which those from `unused` on have
                                     // no block
  uint32_t oldest;                   // of those that may be evicted
  uint32_t last[HOST_USES_MOST + 1]; // of those with so many uses
  uint64_t in_use;                   // bits of the numbers of uses that some have
  int64_t n_blocks, n_held;          // that there is room for, that are there
  int64_t n_put, n_evictions, n_expired, n_removed, n_loaded;
  HostEvicted *evicted; // since they were last taken, where somebody wants them
  size_t n_evicted, evicted_capacity;
  bool keeps_evicted;
} HostCache;

/* `ttl` > 0 of HOST_TTL. */
void host_cache_init(HostCache *self, int64_t n_blocks, HostPolicy policy, Tick ttl, Arena *arena);
/* Whether the block is there and written. */
bool host_cache_has(const HostCache *self, uint64_t key);
/* When one that is there can be loaded. */
Tick host_cache_ready(const HostCache *self, uint64_t key);
/* Makes room for those of `n` keys of a request that are not there, from `from` on, and puts them
 * there, not written yet; `*ret_stored` of them, first in `keys`' order in `ret_keys`. False where
 * not enough can be evicted: then nothing changes. */
bool host_cache_store(HostCache *self, const uint64_t *keys, int64_t from, int64_t n,
                      uint64_t *ret_keys, int64_t *ret_stored);
/* One that another memory has evicted is there, to be loaded once somebody says from when on
 * (host_cache_set_ready). False: it was there, and is more recent, or there is no room. */
bool host_cache_put(HostCache *self, uint64_t key);
/* One that may have gone since then. */
void host_cache_set_ready(HostCache *self, uint64_t key, Tick ready_at);
/* Those of `n` keys of a request that may be evicted are more recent, or `used` once more. */
void host_cache_touch(HostCache *self, const uint64_t *keys, int64_t n, bool used);
/* A block that is there is written; a load of it begins (1) or ends (-1). */
void host_cache_written(HostCache *self, uint64_t key);
void host_cache_load(HostCache *self, uint64_t key, int change);
/* One goes that is there and not loaded: it is given up, or read for the last time. All go, of
 * which no load and no store is under way. */
void host_cache_remove(HostCache *self, uint64_t key);
void host_cache_give(HostCache *self, uint64_t key);
void host_cache_clear(HostCache *self);
/* The books against each other, and against so many loads and blocks that are being written.
 * Asserts. O(blocks). */
void host_cache_audit(const HostCache *self, int64_t n_loads, int64_t n_unwritten);
#endif
