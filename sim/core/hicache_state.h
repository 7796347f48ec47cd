/* What an instance has of tiers under its radix tree (hicache.h, hicache_storage.h). */
#ifndef SIM_CORE_HICACHE_STATE_H
#define SIM_CORE_HICACHE_STATE_H
#include "sim/core/kv_store.h"
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

/* A node that is written to CPU memory or loaded from there. */
typedef struct HiCacheJob {
  Tick end; // TICK_MAX: it begins with the present decision
  RadixIx node;
  int32_t from; // of a write, the tokens up to the node's end that it writes; of a load, -1
} HiCacheJob;

/* Pages of a request that waits, which come from storage to CPU memory. */
typedef struct HiCacheFetch {
  RequestIx request;
  uint64_t id;  // of the request
  int64_t from; // tokens before them
  int64_t pages;
  Tick begun, moves, end; // it moves from `moves` to `end`
} HiCacheFetch;

struct HiCache {
  ConnectorOptions options;
  KvStore *host; // its link; what it has is the tree's
  RadixHost copies;
  HiCacheJob *jobs;
  size_t n_jobs, jobs_capacity;
  int64_t n_loading, n_loads; // pages, of so many prompts, whose load is to begin
  Tick load_from, load_until; // of the newest loads, for which no step has waited yet
  Tick free_at;               // the same of writes of evicted nodes
  int64_t n_dropped;          // pages whose write did not begin when memory was lost
  KvStore *storage;           // under CPU memory; NULL: none
  CopyQueue nic;              // network link of the instance, for storage elsewhere
  HiCacheFetch *fetches;
  size_t n_fetches, fetches_capacity;
  uint64_t *keys; // reused
  size_t keys_capacity;
};
#endif
