/* See connector.h. Names and roles as in vLLM's `kv_transfer_config`. */
#include "sim/batcher/connector.h"
#include "sim/batcher/batcher.h"

static const char *const names[] = {[CONNECTOR_OFFLOADING - 1] = "offloading",
                                    [CONNECTOR_NIXL - 1] = "nixl",
                                    [CONNECTOR_HICACHE - 1] = "hicache",
                                    NULL};
static const char *const roles[] = {[CONNECTOR_BOTH] = "kv_both",
                                    [CONNECTOR_PRODUCER] = "kv_producer",
                                    [CONNECTOR_CONSUMER] = "kv_consumer",
                                    NULL};

static const char *const kinds[] = {
    [KV_STORE_CPU] = "cpu", [KV_STORE_SSD] = "ssd", [KV_STORE_REMOTE] = "remote", NULL};
static const char *const takes[] = {[KV_STORE_WRITTEN] = "write_through",
                                    [KV_STORE_EVICTED] = "on_eviction",
                                    [KV_STORE_HIT] = "write_through_selective",
                                    NULL};
static const char *const sharings[] = {[KV_STORE_OWN] = "instance",
                                       [KV_STORE_OF_MACHINE] = "machine",
                                       [KV_STORE_OF_CLUSTER] = "cluster",
                                       NULL};
static const char *const policies[] = {
    [HOST_LRU] = "lru", [HOST_LFU] = "lfu", [HOST_TTL] = "ttl", NULL};

static const char *const prefetches[] = {[PREFETCH_BEST_EFFORT] = "best_effort",
                                         [PREFETCH_WAIT_COMPLETE] = "wait_complete",
                                         [PREFETCH_TIMEOUT] = "timeout",
                                         NULL};

enum { RECOMPUTE_NEVER, RECOMPUTE_IF_FASTER };
static const char *const recomputes[] = {
    [RECOMPUTE_NEVER] = "never", [RECOMPUTE_IF_FASTER] = "if_faster", NULL};

typedef struct Written {
  int name, kv_role, recompute, prefetch_policy;
  int64_t cpu_bytes_to_use, load_back_threshold, prefetch_threshold;
  Tick prefetch_timeout_base, prefetch_timeout_per_ki_token;
  double hicache_ratio;
  const Node *tiers;
  Tick overhead;
} Written;

#define TIER(key, field, kind, ...) OPTION_AT(KvStoreOptions, key, field, kind, __VA_ARGS__)

const OptionSpec connector_tier_options[] = {
    TIER("name", kind, OPTION_CHOICE, .required = true, .choices = kinds,
         .help = "What the tier is: CPU memory, an SSD, or a store that is reached over the "
                 "instance's network link. A list has each at most once, in this order."),
    TIER("capacity", capacity, OPTION_BYTES, .required = true, .min = 1, .max = 1e18,
         .help = "Memory of the tier for KV."),
    TIER("read_bandwidth", read.bandwidth, OPTION_BANDWIDTH, .fallback = "0 B/s", .max = 1e15,
         .help = "Bandwidth at which the tier is read, by all who share it together. 0 means that "
                 "only other links limit it."),
    TIER("write_bandwidth", write.bandwidth, OPTION_BANDWIDTH, .fallback = "0 B/s", .max = 1e15,
         .help = "Bandwidth at which the tier is written, by all who share it together. 0 means "
                 "that only other links limit it."),
    TIER("read_latency", read.latency, OPTION_TICKS, .fallback = "0 s", .max = 100,
         .help = "Time that the tier adds to each load."),
    TIER("write_latency", write.latency, OPTION_TICKS, .fallback = "0 s", .max = 100,
         .help = "Time that the tier adds to each store."),
    TIER("block_size", block_size, OPTION_INT, .fallback = "0", .max = 1e6,
         .help = "Tokens of a block of the tier, a multiple of those of a KV block; it is found, "
                 "loaded and stored as a whole. 0 means those of the tier above, or of the GPUs."),
    TIER("policy", policy, OPTION_CHOICE, .fallback = "lru", .choices = policies,
         .help = "Which block is evicted first: the one used least recently (lru), or least often "
                 "(lfu); or lru where blocks are dropped that were not used for ttl."),
    TIER("ttl", ttl, OPTION_TICKS, .max = 9e6, .absent = "required of policy ttl",
         .help = "Time after its last use at which policy ttl drops a block."),
    TIER("store", takes, OPTION_CHOICE, .fallback = "write_through", .choices = takes,
         .help =
             "Which blocks come to the tier: those of prompts when they are computed, or those "
             "that the tier above evicts, the first tier those of the GPUs; of hicache all that "
             "is computed, that once it is hit (write_through_selective), or what is evicted "
             "(SGLang's write_back)."),
    TIER("shared", shared, OPTION_CHOICE, .fallback = "instance", .choices = sharings,
         .help = "Who has the tier together: one instance, those of a pool on one machine, or all "
                 "of the model whose pools have the same row and size of a KV block."),
    {0},
};

static const OptionSpec options[] = {
    OPTION_OF(Written, name, OPTION_CHOICE, .required = true, .choices = names,
              .help = "offloading stores the KV of prompts in CPU memory and loads it from there; "
                      "nixl moves KV from and to instances that are not part of the simulation; "
                      "hicache keeps nodes of SGLang's radix tree in CPU memory (batcher sglang)."),
    OPTION_OF(Written, kv_role, OPTION_CHOICE, .fallback = "kv_both", .choices = roles,
              .help = "What nixl does: kv_consumer and kv_both load the KV of every prompt, "
                      "kv_producer sends it after the first token."),
    OPTION_OF(Written, cpu_bytes_to_use, OPTION_BYTES, .max = 1e15,
              .absent = "required of offloading without tiers",
              .help =
                  "CPU memory of an instance for the KV that offloading or hicache stores; short "
                  "for one tier {name: cpu, capacity}."),
    OPTION_OF(Written, hicache_ratio, OPTION_REAL, .max = 1000,
              .absent = "2, where neither cpu_bytes_to_use nor tiers is given",
              .help = "CPU memory that hicache has for KV, as a multiple of the KV memory of the "
                      "instance's GPUs (SGLang --hicache-ratio)."),
    OPTION_OF(Written, load_back_threshold, OPTION_INT, .fallback = "10", .max = 1e9,
              .help =
                  "Tokens in CPU memory from which on hicache loads them for a prompt; fewer are "
                  "computed."),
    OPTION_OF(Written, prefetch_policy, OPTION_CHOICE, .fallback = "best_effort",
              .choices = prefetches,
              .help = "How long a prompt of hicache waits for KV that comes from a tier under CPU "
                      "memory: not beyond its turn, until all is there, or at most a time "
                      "(SGLang --hicache-storage-prefetch-policy)."),
    OPTION_OF(Written, prefetch_threshold, OPTION_INT, .fallback = "256", .max = 1e9,
              .help = "Tokens of a prompt in a tier under CPU memory from which on hicache gets "
                      "them."),
    OPTION_OF(Written, prefetch_timeout_base, OPTION_TICKS, .fallback = "1 s", .max = 1e6,
              .help = "Time that policy timeout waits for any prompt."),
    OPTION_OF(Written, prefetch_timeout_per_ki_token, OPTION_TICKS, .fallback = "0.25 s",
              .max = 1e6, .help = "Time that it waits in addition for each 1024 tokens that come."),
    OPTION_OF(Written, tiers, OPTION_NODE, .absent = "as cpu_bytes_to_use says",
              .help = "Tiers of offloading or hicache, from the GPUs on: a list of {name: cpu, ssd "
                      "or remote, "
                      "capacity, read_bandwidth, write_bandwidth, read_latency, write_latency, "
                      "block_size, policy, ttl, store, shared}."),
    OPTION_OF(Written, recompute, OPTION_CHOICE, .fallback = "never", .choices = recomputes,
              .help = "Whether offloading computes KV that it could load, where that is done "
                      "sooner by the times of steps and what waits on the links."),
    OPTION_OF(Written, overhead, OPTION_TICKS, .fallback = "0 s", .max = 10,
              .help = "Time that nixl adds to each transfer, beside that of its bytes on the "
                      "machine's network link."),
    {0},
};

/* What rows say together. */
static int check_tier(ConnectorKind kind, const KvStoreOptions *tier, const KvStoreOptions *above,
                      const Node *row, Diag *diag) {
  if (above && tier->kind <= above->kind)
    return diag_error(diag, row->at,
                      "'tiers' has each of cpu, ssd and remote at most once, in "
                      "this order");
  if ((tier->policy == HOST_TTL) != (tier->ttl > 0))
    return diag_error(diag, row->at, "'ttl' is needed with policy: ttl, and only with that");
  if (tier->takes == KV_STORE_EVICTED && tier->block_size > 0)
    return diag_error(diag, row->at,
                      "'block_size' of a tier with store: on_eviction is that of the tier above");
  if (tier->takes == KV_STORE_HIT && kind != CONNECTOR_HICACHE)
    return diag_error(diag, row->at, "'store: write_through_selective' needs name: hicache");
  if (tier->kind == KV_STORE_CPU && tier->shared == KV_STORE_OF_CLUSTER)
    return diag_error(diag, row->at,
                      "a tier 'cpu' cannot be shared by the cluster: CPU memory "
                      "of other machines is a tier 'remote'");
  return 0;
}

static int bind_tiers(ConnectorOptions *self, const Node *list, Diag *diag) {
  int status = 0;
  if (list->kind != NODE_LIST || list->n_children == 0)
    return diag_error(diag, list->at, "'tiers' must be a list of tiers");
  if (list->n_children > KV_STORE_KINDS)
    return diag_error(diag, list->at, "'tiers' has each of cpu, ssd and remote at most once");
  for (const Node *row = list->first; row; row = row->next) {
    KvStoreOptions *tier = &self->tiers[self->n_tiers];
    const KvStoreOptions *above = self->n_tiers > 0 ? tier - 1 : NULL;
    if (option_bind(connector_tier_options, row, NULL, row->at, tier, diag) ||
        check_tier(self->kind, tier, above, row, diag))
      status = -1;
    self->n_tiers++;
  }
  return status;
}

/* The tiers of one that offloads. */
static int bind_offloading(ConnectorOptions *self, const Written *written, const Node *map,
                           Diag *diag) {
  if (written->kv_role != CONNECTOR_BOTH)
    return diag_error(diag, map->at, "'kv_role' of offloading must be kv_both");
  if ((written->cpu_bytes_to_use > 0) == (written->tiers != NULL))
    return diag_error(diag, map->at,
                      "'cpu_bytes_to_use' or 'tiers' is needed with name: offloading");
  self->recomputes = written->recompute == RECOMPUTE_IF_FASTER;
  if (written->tiers) return bind_tiers(self, written->tiers, diag);
  self->tiers[self->n_tiers++] = (KvStoreOptions){.capacity = written->cpu_bytes_to_use};
  return 0;
}

/* A tree has its pages in CPU memory of its own. */
static int check_hicache_tiers(const ConnectorOptions *self, const Node *map, Diag *diag) {
  const KvStoreOptions *host = &self->tiers[0];
  const KvStoreOptions *storage = &self->tiers[1];
  if (host->kind != KV_STORE_CPU || self->n_tiers > 2)
    return diag_error(diag, map->at, "'tiers' of hicache has cpu, then ssd or remote or nothing");
  if (self->n_tiers == 2 && (storage->takes != KV_STORE_WRITTEN || storage->block_size > 0))
    return diag_error(
        diag, map->at,
        "the tier under cpu of hicache gets what comes to cpu (store: write_through), "
        "in pages of the GPUs (block_size)");
  if (host->shared != KV_STORE_OWN || host->policy != HOST_LRU || host->block_size > 0)
    return diag_error(diag, map->at,
                      "tier cpu of hicache is of one instance (shared), evicts the least recently "
                      "used (policy: lru) and has the pages of the GPUs (block_size)");
  return 0;
}

static int bind_hicache(ConnectorOptions *self, const Written *written, const Node *map,
                        Diag *diag) {
  static const double usual_ratio = 2;
  const bool sized = written->cpu_bytes_to_use > 0 || written->tiers != NULL;
  if (written->kv_role != CONNECTOR_BOTH || written->recompute != RECOMPUTE_NEVER)
    return diag_error(diag, map->at, "hicache has neither 'kv_role' nor 'recompute'");
  if ((written->cpu_bytes_to_use > 0) + (written->tiers != NULL) + (written->hicache_ratio > 0) > 1)
    return diag_error(diag, map->at,
                      "hicache has one of 'cpu_bytes_to_use', 'hicache_ratio' and 'tiers'");
  self->load_back_threshold = written->load_back_threshold;
  self->prefetch_policy = written->prefetch_policy;
  self->prefetch_threshold = written->prefetch_threshold;
  self->prefetch_timeout_base = written->prefetch_timeout_base;
  self->prefetch_timeout_per_ki_token = written->prefetch_timeout_per_ki_token;
  self->ratio = written->hicache_ratio > 0 ? written->hicache_ratio : sized ? 0 : usual_ratio;
  if (written->tiers)
    return bind_tiers(self, written->tiers, diag) || check_hicache_tiers(self, map, diag) ? -1 : 0;
  self->tiers[self->n_tiers++] = (KvStoreOptions){.capacity = written->cpu_bytes_to_use};
  return 0;
}

int connector_bind(ConnectorOptions *self, const Node *map, Place owner, Diag *diag) {
  Written written = {0};
  *self = (ConnectorOptions){.kind = CONNECTOR_NONE};
  if (!map) return 0;
  if (option_bind(options, map, NULL, owner, &written, diag)) return -1;
  self->kind = (ConnectorKind)(written.name + 1);
  self->role = (ConnectorRole)written.kv_role;
  self->overhead = written.overhead;
  if (self->kind == CONNECTOR_HICACHE) return bind_hicache(self, &written, map, diag);
  if (written.hicache_ratio > 0)
    return diag_error(diag, map->at, "'hicache_ratio' needs name: hicache");
  if (self->kind == CONNECTOR_OFFLOADING) return bind_offloading(self, &written, map, diag);
  if (written.tiers) return diag_error(diag, map->at, "'tiers' needs name: offloading");
  return 0;
}

const char *connector_refuse(const ConnectorOptions *self, const PoolSpec *pool, bool caches) {
  if (pool->pipeline_stages > 1) return "'kv_connector' cannot be used with pipelines";
  if (pool->layout) return "'kv_connector' cannot be used with layers in groups";
  if (pool->attention_ranks > 1) return "'kv_connector' cannot be used with attention ranks";
  if (pool->role != ROLE_MIXED) return "'kv_connector' needs a pool with role: mixed";
  if (self->kind == CONNECTOR_NIXL) return NULL;
  if (self->kind == CONNECTOR_HICACHE && !caches)
    return "'kv_connector: {name: hicache}' needs 'enable_prefix_caching: true'";
  const HostLinkOptions *link = &pool->host_link.options;
  if (link->to_gpu <= 0 || link->to_cpu <= 0)
    return "'kv_connector' needs a machine with a link to CPU memory";
  for (int32_t t = 0; t < self->n_tiers; t++) {
    const KvStoreOptions *tier = &self->tiers[t];
    const int64_t tokens = tier->block_size > 0 ? tier->block_size : pool->block_size;
    if (tokens % pool->block_size != 0)
      return "'block_size' of a tier must be a multiple of that of KV blocks";
    if (self->ratio == 0 && tier->capacity < tokens / pool->block_size * pool->kv_block_bytes)
      return self->n_tiers == 1 ? "the tier of 'kv_connector' has no room for one KV block"
                                : "a tier of 'kv_connector' has no room for one of its blocks";
    if (tier->kind == KV_STORE_REMOTE && pool->nic_bandwidth <= 0)
      return "a tier 'remote' needs a machine with a network link";
  }
  if (self->tiers[0].takes == KV_STORE_EVICTED && !caches)
    return "a first tier with store: on_eviction needs 'enable_prefix_caching: true'";
  return NULL;
}
