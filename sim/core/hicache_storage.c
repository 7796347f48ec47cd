/* See hicache_storage.h. */
#include "sim/core/hicache_storage.h"
#include "sim/core/connector_jobs.h"
#include "sim/core/offloading.h"
#include "sim/core/tier_runs.h"
#include <assert.h>

enum { BATCH_PAGES = 128 }; // that come at once, as SGLang reads them

static Tick greater(Tick a, Tick b) {
  return a > b ? a : b;
}

void hicache_start_storage(Simulation *self, Instance *instance) {
  HiCache *hicache = instance->scheduler->hicache;
  if (hicache->options.n_tiers > 1)
    hicache->storage = offloading_tier(self, instance, NULL, &hicache->options.tiers[1]);
}

/* --- the link */

/* So many pages pass it, which can begin at `from`: when the last of them is across, and when they
 * begin to move. */
static Tick pass(Simulation *self, Instance *instance, LinkDirection direction, int64_t pages,
                 Tick from, Tick *ret_moves) {
  HiCache *hicache = instance->scheduler->hicache;
  KvStore *store = hicache->storage;
  const KvStoreLink *link = direction == LINK_TO_GPU ? &store->options.read : &store->options.write;
  const int64_t bytes = pages * store->block_bytes;
  Tick end = *ret_moves = from;
  if (link->bandwidth > 0) {
    *ret_moves = greater(*ret_moves, store->link.ends[direction]);
    end = connector_pass(self, &store->link, direction, from, 0,
                         kv_store_seconds(store, direction, bytes));
  }
  if (store->options.kind == KV_STORE_REMOTE) {
    *ret_moves = greater(*ret_moves, hicache->nic.ends[direction]);
    end = greater(end, connector_pass(self, &hicache->nic, direction, from, 0,
                                      tier_nic_seconds(instance, bytes)));
  }
  store->moved[direction] += bytes;
  *ret_moves += link->latency;
  return greater(end + link->latency, *ret_moves);
}

static HostCache *blocks_of_storage(const Simulation *self, const HiCache *hicache) {
  HostCache *blocks = &hicache->storage->blocks;
  blocks->now = self->now;
  return blocks;
}

/* --- writing */

void hicache_store(Simulation *self, Instance *instance, RadixIx ix, int64_t from, Tick ready) {
  HiCache *hicache = instance->scheduler->hicache;
  const RadixTree *tree = &instance->radix->tree;
  const RadixNode *node = &tree->nodes[ix];
  if (!hicache->storage || !node->label || from >= node->to) return;
  HostCache *blocks = blocks_of_storage(self, hicache);
  const Content content = radix_content(node);
  const int64_t n = (node->to - from) / tree->page;
  ARENA_RESERVE(self->arena, hicache->keys, hicache->keys_capacity, (size_t)n);
  int64_t n_put = 0;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t key = content_key(&content, from + (i + 1) * tree->page);
    if (host_cache_put(blocks, key)) hicache->keys[n_put++] = key;
  }
  if (n_put == 0) return;
  Tick moves;
  const Tick end = pass(self, instance, LINK_TO_CPU, n_put, ready, &moves);
  for (int64_t i = 0; i < n_put; i++)
    host_cache_set_ready(blocks, hicache->keys[i], end);
  instance->totals.tier_written_bytes[hicache->storage->options.kind] +=
      n_put * hicache->storage->block_bytes;
}

/* --- reading */

/* Pages that storage has of a content behind its first `from` tokens, one after the other. */
static int64_t count_pages(const Simulation *self, const Instance *instance, const Content *content,
                           int64_t from, int64_t most) {
  const HiCache *hicache = instance->scheduler->hicache;
  const HostCache *blocks = blocks_of_storage(self, hicache);
  int64_t n = 0;
  for (; n < most; n++) {
    const uint64_t key = content_key(content, from + (n + 1) * instance->radix->tree.page);
    if (!host_cache_has(blocks, key) || host_cache_ready(blocks, key) > self->now) break;
  }
  return n;
}

void hicache_fetch(Simulation *self, Instance *instance, RequestIx ix) {
  HiCache *hicache = instance->scheduler->hicache;
  Radix *radix = instance->radix;
  const int64_t page = radix->tree.page, threshold = hicache->options.prefetch_threshold;
  const Request *request = &self->requests.slots[ix];
  RequestMemory *memory = &self->memory[ix];
  hicache_forget_fetch(instance, ix);
  memory->n_stored = 0;
  if (!hicache->storage) return;
  const int64_t tokens = request_prefill_tokens(request);
  const int64_t from = radix_match(radix, &memory->content, tokens, &memory->matched);
  const int64_t most = (tokens - from) / page;
  const bool backed = memory->matched == RADIX_ROOT || radix->tree.nodes[memory->matched].on_host;
  if (!backed || most == 0 || most * page < threshold) return;
  const int64_t pages = count_pages(self, instance, &memory->content, from, most);
  if (pages == 0 || pages * page < threshold || !radix_host_reserve(&hicache->copies, pages))
    return;
  HostCache *blocks = blocks_of_storage(self, hicache);
  for (int64_t i = 0; i < pages; i++) {
    const uint64_t key = content_key(&memory->content, from + (i + 1) * page);
    host_cache_load(blocks, key, 1);
    host_cache_load(blocks, key, -1);
  }
  HiCacheFetch fetch = {ix, request->id, from, pages, self->now, 0, 0};
  fetch.end = pass(self, instance, LINK_TO_GPU, pages, self->now, &fetch.moves);
  instance->totals.tier_read_bytes[hicache->storage->options.kind] +=
      pages * hicache->storage->block_bytes;
  ARENA_RESERVE(self->arena, hicache->fetches, hicache->fetches_capacity, hicache->n_fetches + 1);
  hicache->fetches[hicache->n_fetches++] = fetch;
}

static HiCacheFetch *find(const HiCache *hicache, RequestIx ix) {
  for (size_t i = 0; i < hicache->n_fetches; i++)
    if (hicache->fetches[i].request == ix) return &hicache->fetches[i];
  return NULL;
}

static void drop(HiCache *hicache, HiCacheFetch *fetch) {
  hicache->copies.n_reserved -= fetch->pages;
  *fetch = hicache->fetches[--hicache->n_fetches];
}

void hicache_forget_fetch(Instance *instance, RequestIx ix) {
  HiCache *hicache = instance->scheduler->hicache;
  HiCacheFetch *fetch = find(hicache, ix);
  if (fetch) drop(hicache, fetch);
  while (ix == REQUEST_NONE && hicache->n_fetches > 0)
    drop(hicache, &hicache->fetches[0]);
}

/* From when on it is not waited for. */
static Tick waits_until(const Instance *instance, const HiCacheFetch *fetch) {
  const ConnectorOptions *options = &instance->scheduler->hicache->options;
  if (options->prefetch_policy == PREFETCH_BEST_EFFORT) return fetch->begun;
  if (options->prefetch_policy == PREFETCH_WAIT_COMPLETE) return fetch->end;
  const double tokens = (double)(fetch->pages * instance->radix->tree.page);
  const Tick most = options->prefetch_timeout_base +
                    (Tick)((double)options->prefetch_timeout_per_ki_token * (tokens / 1024));
  return fetch->begun + most < fetch->end ? fetch->begun + most : fetch->end;
}

/* Pages that have come: whole batches. */
static int64_t come(const Simulation *self, const HiCacheFetch *fetch) {
  if (self->now >= fetch->end) return fetch->pages;
  if (self->now <= fetch->moves) return 0;
  const double share = (double)(self->now - fetch->moves) / (double)(fetch->end - fetch->moves);
  return (int64_t)(share * (double)fetch->pages) / BATCH_PAGES * BATCH_PAGES;
}

bool hicache_has_fetched(Simulation *self, Instance *instance, RequestIx ix) {
  HiCache *hicache = instance->scheduler->hicache;
  HiCacheFetch *found = find(hicache, ix);
  if (!found) return true;
  const HiCacheFetch fetch = *found;
  assert(fetch.id == self->requests.slots[ix].id);
  if (self->now < waits_until(instance, &fetch)) return false;
  const int64_t page = instance->radix->tree.page, pages = come(self, &fetch);
  drop(hicache, found);
  if (pages == 0) return true;
  self->memory[ix].n_stored =
      (int32_t)(page * radix_fetched(instance->radix, &self->memory[ix].content, fetch.from,
                                     fetch.from + pages * page));
  return true;
}

Tick hicache_next_fetched(const Simulation *self, const Instance *instance) {
  const HiCache *hicache = instance->scheduler->hicache;
  Tick next = TICK_MAX;
  for (size_t i = 0; i < hicache->n_fetches; i++) {
    const Tick until = waits_until(instance, &hicache->fetches[i]);
    if (self->now < until && until < next) next = until; // else it waits for something else
  }
  return next;
}

int64_t hicache_reserved(const HiCache *hicache) {
  int64_t pages = 0;
  for (size_t i = 0; i < hicache->n_fetches; i++)
    pages += hicache->fetches[i].pages;
  return pages;
}
