/* Tiers of KV under prefix caches: CPU memory, SSDs, a store elsewhere (RULES.md, "KV in tiers").
 *
 * A tier has blocks of one size, that of a KV block or a multiple of it, and a link of its own to
 * CPU memory, or to the network where the tier is elsewhere. Each direction of the link carries one
 * transfer after the other, as the link to CPU memory does (host_link.h). Instances that share a
 * tier share its blocks and its link. */
#ifndef SIM_CORE_KV_STORE_H
#define SIM_CORE_KV_STORE_H
#include "sim/core/host_cache.h"
#include "sim/core/host_link.h"

typedef enum KvStoreKind {
  KV_STORE_CPU,
  KV_STORE_SSD,
  KV_STORE_REMOTE, // over the network link of an instance
  KV_STORE_KINDS,
} KvStoreKind;

/* Which blocks come to it. */
typedef enum KvStoreTakes {
  KV_STORE_WRITTEN, // of prompts, when they are computed (write-through)
  KV_STORE_EVICTED, // that the tier above evicts, of the first tier: the prefix cache
  KV_STORE_HIT,     // of a radix tree's nodes, when they are computed or hit once more
} KvStoreTakes;

typedef enum KvStoreSharing {
  KV_STORE_OWN,
  KV_STORE_OF_MACHINE,
  KV_STORE_OF_CLUSTER
} KvStoreSharing;

/* One direction of the link of a tier; zeroed: it takes no time. */
typedef struct KvStoreLink {
  int64_t bandwidth; // bytes per second; 0: no limit
  Tick latency;
} KvStoreLink;

typedef struct KvStoreOptions {
  int kind;           // KvStoreKind
  int takes;          // KvStoreTakes
  int shared;         // KvStoreSharing
  int policy;         // HostPolicy
  int64_t capacity;   // bytes
  int64_t block_size; // tokens; 0: as the tier above, the first as the GPUs
  KvStoreLink read, write;
  Tick ttl; // of HOST_TTL
} KvStoreOptions;

typedef struct KvStore {
  KvStoreOptions options;
  uint32_t model, pool, machine; // whose instances have it, as far as it is theirs
  HostCache blocks;
  int64_t unit;        // KV blocks of the GPUs in one of its own
  int64_t block_bytes; // of one of its own
  CopyQueue link;
  bool of_tree;                   // a radix tree has its pages (radix_host.h): `blocks` is empty
  int64_t moved[LINK_DIRECTIONS]; // bytes on it so far: read, written
  int64_t n_dropped;              // blocks whose store was given up before it began
} KvStore;

bool kv_store_options_equal(const KvStoreOptions *a, const KvStoreOptions *b);
/* Tokens and bytes of a block on the GPUs. `above`: the tier above; NULL: the GPUs. */
void kv_store_init(KvStore *self, const KvStoreOptions *options, const KvStore *above,
                   int64_t block_size, int64_t block_bytes, Arena *arena);
/* Seconds that `bytes` take on one direction of its link, without the latency. */
double kv_store_seconds(const KvStore *self, LinkDirection direction, int64_t bytes);
/* Whether a block that is loaded leaves it: of blocks that come back when they are evicted again
 * nobody else needs one. */
static inline bool kv_store_gives(const KvStore *self) {
  return self->options.takes == KV_STORE_EVICTED && self->options.shared == KV_STORE_OWN;
}
/* Blocks against bytes on the link, where the stores of `n_waiting` blocks are yet to begin, and as
 * host_cache_audit. Asserts. O(blocks). */
void kv_store_audit(const KvStore *self, int64_t n_loads, int64_t n_unwritten, int64_t n_waiting);
#endif
