/* See hicache.h. */
#include "sim/core/hicache.h"
#include "sim/core/connector_jobs.h"
#include "sim/core/copying.h"
#include "sim/core/hicache_storage.h"
#include "sim/core/memory.h"
#include <assert.h>

enum { FORESEEN_MOST = 1000000 }; // steps of one batch

static Tick greater(Tick a, Tick b) {
  return a > b ? a : b;
}

/* Hits with which a node is written; 0: it is when it is evicted. */
static uint32_t write_hits(const KvStoreOptions *host) {
  static const uint32_t hits[] = {
      [KV_STORE_WRITTEN] = 1, [KV_STORE_EVICTED] = 0, [KV_STORE_HIT] = 2};
  return hits[host->takes];
}

void hicache_start(Simulation *self, Instance *instance) {
  const PoolSpec *pool = instance->pool;
  if (!instance->radix) return;
  HiCache *hicache = instance->scheduler->hicache = ARENA_NEW(self->arena, HiCache);
  hicache->options = instance->scheduler->limits.connector;
  KvStoreOptions *tier = &hicache->options.tiers[0];
  if (tier->capacity == 0)
    tier->capacity =
        (int64_t)(hicache->options.ratio * (double)pool->kv_blocks) * pool->kv_block_bytes;
  KvStore *host = hicache->host = ARENA_NEW(self->arena, KvStore);
  kv_store_init(host, tier, NULL, pool->block_size, pool->kv_block_bytes, self->arena);
  host->of_tree = true;
  ARENA_RESERVE(self->arena, self->kv_stores, self->kv_stores_capacity, self->n_kv_stores + 1);
  self->kv_stores[self->n_kv_stores++] = host;
  radix_host_init(&hicache->copies, tier->capacity / pool->kv_block_bytes, write_hits(tier));
  radix_join_host(instance->radix, &hicache->copies);
  hicache_start_storage(self, instance);
  agenda_reserve(&self->agenda, EVENT_CONNECTOR, self->n_instances);
}

/* --- locks */

static void add_job(Simulation *self, HiCache *hicache, RadixIx node, int32_t from, Tick end) {
  ARENA_RESERVE(self->arena, hicache->jobs, hicache->jobs_capacity, hicache->n_jobs + 1);
  hicache->jobs[hicache->n_jobs++] = (HiCacheJob){end, node, from};
}

/* What those have locked that end until then is not any more; what they wrote goes to storage. */
static void end_jobs(Simulation *self, Instance *instance, Tick until, bool stores) {
  HiCache *hicache = instance->scheduler->hicache;
  const int64_t room = radix_room(instance->radix);
  size_t n = 0;
  for (size_t i = 0; i < hicache->n_jobs; i++) {
    const HiCacheJob job = hicache->jobs[i];
    if (job.end > until) {
      hicache->jobs[n++] = job;
      continue;
    }
    radix_unlock(instance->radix, job.node);
    if (stores && job.from >= 0) hicache_store(self, instance, job.node, job.from, self->now);
  }
  if (n == hicache->n_jobs) return;
  hicache->n_jobs = n;
  sim_take_blocks(self, instance, room - radix_room(instance->radix));
}

void hicache_hears(Simulation *self, Instance *instance) {
  if (instance->scheduler->hicache->n_jobs > 0) end_jobs(self, instance, self->now, true);
}

/* --- copies */

/* Queues the copy of so many pages: when it ends, and from when on it moves. */
static Tick copy(Simulation *self, Instance *instance, LinkDirection direction, int64_t pages,
                 Tick *ret_from) {
  KvStore *host = instance->scheduler->hicache->host;
  const KvStoreLink *link = direction == LINK_TO_GPU ? &host->options.read : &host->options.write;
  const int64_t bytes = pages * host->block_bytes;
  *ret_from = greater(self->now, instance->copies->ends[direction]);
  Tick end = sim_copy(self, instance, direction, bytes, self->now);
  if (link->bandwidth > 0)
    end = greater(end, connector_pass(self, &host->link, direction, self->now, 0,
                                      kv_store_seconds(host, direction, bytes)));
  host->moved[direction] += bytes;
  (direction == LINK_TO_GPU ? instance->totals.tier_read_bytes
                            : instance->totals.tier_written_bytes)[KV_STORE_CPU] += bytes;
  return end + link->latency;
}

void hicache_writes(Simulation *self, Instance *instance) {
  HiCache *hicache = instance->scheduler->hicache;
  RadixHost *copies = &hicache->copies;
  Tick from;
  for (size_t i = 0; i < copies->n_unwritten; i++) {
    const RadixWrite write = copies->unwritten[i];
    add_job(self, hicache, write.node, write.from,
            copy(self, instance, LINK_TO_CPU, write.pages, &from));
  }
  copies->n_unwritten = 0;
}

int64_t hicache_load(Simulation *self, Instance *instance, RequestIx ix) {
  HiCache *hicache = instance->scheduler->hicache;
  Radix *radix = instance->radix;
  RadixIx *matched = &self->memory[ix].matched;
  const RadixIx above = radix_on_gpus(radix, *matched);
  const int64_t tokens = radix->tree.nodes[*matched].to - radix->tree.nodes[above].to;
  const int64_t pages = tokens / radix->tree.page;
  const int64_t evicted = radix->n_evicted;
  const bool loads =
      tokens >= hicache->options.load_back_threshold && radix_load(radix, *matched, pages);
  instance->totals.evictions += radix->n_evicted - evicted;
  if (!loads) {
    *matched = above;
    return radix->tree.nodes[above].to;
  }
  add_job(self, hicache, *matched, -1, TICK_MAX);
  hicache->n_loading += pages;
  hicache->n_loads++;
  instance->totals.kv_loads++;
  const int32_t stored = self->memory[ix].n_stored;
  const int64_t fetched = stored < tokens ? stored : tokens;
  self->memory[ix].n_stored = 0;
  instance->totals.tier_hit_tokens[KV_STORE_CPU] += tokens - fetched;
  if (fetched > 0) instance->totals.tier_hit_tokens[hicache->storage->options.kind] += fetched;
  return radix->tree.nodes[*matched].to;
}

/* All of a decision are one copy. */
static void begin_loads(Simulation *self, Instance *instance) {
  HiCache *hicache = instance->scheduler->hicache;
  if (hicache->n_loading == 0) return;
  const Tick end = copy(self, instance, LINK_TO_GPU, hicache->n_loading, &hicache->load_from);
  for (size_t i = 0; i < hicache->n_jobs; i++)
    if (hicache->jobs[i].end == TICK_MAX) hicache->jobs[i].end = end;
  instance->totals.kv_load_ticks += hicache->n_loads * (end - self->now);
  hicache->load_until = end;
  hicache->n_loading = hicache->n_loads = 0;
}

static int64_t waiting_pages(const RadixHost *copies) {
  int64_t pages = 0;
  for (size_t i = 0; i < copies->n_backs; i++)
    pages += copies->backs[i].pages;
  return pages;
}

/* Nodes that were written because they were evicted: their pages are free when that has ended. */
static void begin_write_backs(Simulation *self, Instance *instance) {
  HiCache *hicache = instance->scheduler->hicache;
  RadixHost *copies = &hicache->copies;
  const int64_t pages = waiting_pages(copies);
  Tick from;
  if (pages == 0) return;
  hicache->free_at = copy(self, instance, LINK_TO_CPU, pages, &from);
  for (size_t i = 0; i < copies->n_backs; i++) {
    const RadixWrite write = copies->backs[i];
    const RadixNode *node = &instance->radix->tree.nodes[write.node];
    if (node->label && node->on_host && node->to == write.to) // it may have gone again
      hicache_store(self, instance, write.node, node->from, hicache->free_at);
  }
  copies->n_backs = 0;
}

void hicache_decided(Simulation *self, Instance *instance, Step *step) {
  HiCache *hicache = instance->scheduler->hicache;
  begin_write_backs(self, instance);
  begin_loads(self, instance);
  step->load_from = step->load_until = step->free_at = 0;
  if (!step_is_empty(step)) {
    step->free_at = hicache->free_at;
    hicache->free_at = 0;
  }
  if (step->shape.prefill_tokens > 0) {
    step->load_from = hicache->load_from;
    step->load_until = hicache->load_until;
    hicache->load_from = hicache->load_until = 0;
  }
}

/* --- what waits */

/* L layers, each of which takes an Lth of the load and of the step's time, in order: each is
 * computed when it is loaded and the one before it is computed. The last to be computed has waited
 * for the load of the first, or of the last, or for none. */
Tick hicache_wait(const Simulation *self, const Instance *instance, const Step *step) {
  const Tick begin = greater(self->now, step->free_at);
  if (step->load_until <= begin) return begin - self->now;
  const bool executed = self->config->executor != NULL;
  const Tick ticks = executed ? 0 : perfmodel_iteration(instance->perfmodel, &step->shape, NULL);
  const int64_t layers =
      instance->pool->num_hidden_layers > 0 ? instance->pool->num_hidden_layers : 1;
  const Tick first = step->load_from + (step->load_until - step->load_from) / layers;
  const Tick end = greater(greater(begin, first) + ticks, step->load_until + ticks / layers);
  return end - ticks - self->now;
}

bool hicache_writes_back(const Instance *instance) {
  const HiCache *hicache = instance->scheduler ? instance->scheduler->hicache : NULL;
  return hicache && hicache->copies.write_hits == 0;
}

int64_t hicache_watch(const Instance *instance, int64_t most) {
  const HiCache *hicache = instance->scheduler->hicache;
  const Batch *batch = &instance->batch;
  if (hicache->n_jobs > 0 || hicache->copies.n_backs > 0) return 1;
  if (!hicache_writes_back(instance)) return most;
  if (most > FORESEEN_MOST) most = FORESEEN_MOST;
  const int64_t spare = instance->radix->n_free - (int64_t)batch->n_seqs;
  return spare < 0 ? 1 : 1 + batch_fitting(batch, spare, most - 1);
}

void hicache_idles(Simulation *self, const Instance *instance) {
  const HiCache *hicache = instance->scheduler->hicache;
  Tick next = hicache_next_fetched(self, instance);
  for (size_t i = 0; i < hicache->n_jobs; i++)
    if (hicache->jobs[i].end < next) next = hicache->jobs[i].end;
  if (next == TICK_MAX || !instance_works(instance)) return;
  if (instance->prefill_queue.count + instance->running.count + instance->decode_queue.count == 0)
    return;
  agenda_set(&self->agenda, EVENT_CONNECTOR, instance->ix, greater(next, self->now));
}

void hicache_forget(Simulation *self, Instance *instance) {
  HiCache *hicache = instance->scheduler->hicache;
  end_jobs(self, instance, TICK_MAX, false);
  hicache_forget_fetch(instance, REQUEST_NONE);
  assert(hicache->n_loading == 0 && hicache->copies.n_unwritten == 0);
  hicache->n_dropped += waiting_pages(&hicache->copies);
  hicache->load_from = hicache->load_until = hicache->free_at = 0;
  for (size_t i = 0; i < instance->scheduler->n_places; i++) {
    Step *step = &instance->scheduler->steps[i];
    step->load_from = step->load_until = step->free_at = 0;
  }
  agenda_clear(&self->agenda, EVENT_CONNECTOR, instance->ix);
}

int64_t hicache_kept(const Instance *instance) {
  const HiCache *hicache = instance->scheduler->hicache;
  const RadixTree *tree = &instance->radix->tree;
  int64_t pages = 0;
  for (size_t i = 0; i < hicache->n_jobs; i++)
    pages += tree->nodes[hicache->jobs[i].node].to / tree->page;
  return pages;
}

void hicache_audit(const Instance *instance) {
  const HiCache *hicache = instance->scheduler->hicache;
  const RadixHost *copies = &hicache->copies;
  const int64_t size = hicache->host->block_bytes;
  const int64_t waits = waiting_pages(copies) + hicache->n_dropped;
  assert(copies->n_unwritten == 0 && copies->n_reserved == hicache_reserved(hicache));
  assert(hicache->host->moved[LINK_TO_CPU] == (copies->n_written - waits) * size);
  assert(hicache->host->moved[LINK_TO_GPU] == (copies->n_loaded - hicache->n_loading) * size);
}
