/* See offloading.h. */
#include "sim/core/offloading.h"
#include "sim/core/copying.h"
#include "sim/core/tier_runs.h"
#include <assert.h>
#include <string.h>

static int64_t block_size_of(const Instance *instance) {
  return instance->pool->block_size;
}

static Tick greater(Tick a, Tick b) {
  return a > b ? a : b;
}

/* --- beginning */

/* The one that it shares; NULL: nobody has it yet. */
static KvStore *shared_tier(const Simulation *self, const KvStore *wanted) {
  for (size_t i = 0; i < self->n_kv_stores; i++) {
    KvStore *store = self->kv_stores[i];
    const bool same = kv_store_options_equal(&store->options, &wanted->options) &&
                      store->model == wanted->model && store->block_bytes == wanted->block_bytes &&
                      store->unit == wanted->unit;
    if (same && (wanted->options.shared == KV_STORE_OF_CLUSTER ||
                 (wanted->options.shared == KV_STORE_OF_MACHINE && store->pool == wanted->pool &&
                  store->machine == wanted->machine)))
      return store;
  }
  return NULL;
}

KvStore *offloading_tier(Simulation *self, const Instance *instance, const KvStore *above,
                         const KvStoreOptions *options) {
  const PoolSpec *pool = instance->pool;
  const uint32_t number = (uint32_t)(pool - self->config->pools);
  InstanceIx first = instance->ix;
  while (first > 0 && self->instances[first - 1].pool == pool)
    first--;
  KvStore *store = ARENA_NEW(self->arena, KvStore);
  kv_store_init(store, options, above, pool->block_size, pool->kv_block_bytes, self->arena);
  store->model = pool->model;
  store->pool = number;
  store->machine =
      pool->per_machine > 1 ? (instance->ix - first) / pool->per_machine : instance->ix - first;
  KvStore *shared = shared_tier(self, store);
  if (shared) return shared;
  ARENA_RESERVE(self->arena, self->kv_stores, self->kv_stores_capacity, self->n_kv_stores + 1);
  return self->kv_stores[self->n_kv_stores++] = store;
}

void offloading_start(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  const ConnectorOptions *options = &connector->options;
  for (int32_t t = 0; t < options->n_tiers; t++) {
    KvStore *above = t > 0 ? connector->tiers[t - 1] : NULL;
    connector->tiers[t] = offloading_tier(self, instance, above, &options->tiers[t]);
    connector->shares |= options->tiers[t].shared != KV_STORE_OWN;
    const bool evicted = options->tiers[t].takes == KV_STORE_EVICTED;
    if (evicted && above) above->blocks.keeps_evicted = true;
    if (evicted && !above) instance->cache->keeps_evicted = true;
  }
}

/* --- finding */

int64_t offloading_more(const Simulation *self, const Instance *instance, RequestIx ix,
                        int64_t hits) {
  const Connector *connector = instance->scheduler->connector;
  const int64_t size = block_size_of(instance), from = hits / size;
  // What is found is kept in the connector, of which nothing else hangs on it.
  if (tier_runs_find((Simulation *)self, instance, ix, from, INT64_MAX)) return -1;
  if (connector->options.recomputes && connector->n_found > 0)
    tier_runs_keep_fastest(self, instance, ix, hits);
  return tier_runs_end(connector, from) * size - hits;
}

/* --- transfers */

/* When so many blocks of a tier have passed its link, and the network link if they need it, but for
 * the link to the GPUs. */
static Tick pass_tier(Simulation *self, const Instance *instance, int32_t tier,
                      LinkDirection direction, int64_t blocks, Tick from) {
  Connector *connector = instance->scheduler->connector;
  KvStore *store = connector->tiers[tier];
  const int64_t bytes = blocks * store->block_bytes;
  const KvStoreLink *link = direction == LINK_TO_GPU ? &store->options.read : &store->options.write;
  Tick end = from;
  if (link->bandwidth > 0)
    end = connector_pass(self, &store->link, direction, from, 0,
                         kv_store_seconds(store, direction, bytes));
  if (store->options.kind == KV_STORE_REMOTE) {
    const Tick nic = connector_pass(self, &connector->nic, direction, from, 0,
                                    tier_nic_seconds(instance, bytes));
    end = greater(end, nic);
  }
  store->moved[direction] += bytes;
  return end + link->latency;
}

static void book_written(Instance *instance, int32_t tier, int64_t blocks) {
  const KvStore *store = instance->scheduler->connector->tiers[tier];
  instance->totals.tier_written_bytes[store->options.kind] += blocks * store->block_bytes;
}

static void book_read(Instance *instance, int32_t tier, int64_t blocks) {
  const KvStore *store = instance->scheduler->connector->tiers[tier];
  instance->totals.tier_read_bytes[store->options.kind] += blocks * store->block_bytes;
}

/* Evicted blocks that a tier has got, their keys in `connector->keys`, move there from `from` on,
 * and are across by `end` on the way to it. */
static void move_evicted(Simulation *self, Instance *instance, int32_t tier, int64_t n, Tick from,
                         Tick end) {
  const Connector *connector = instance->scheduler->connector;
  if (n == 0) return;
  const Tick ready = greater(end, pass_tier(self, instance, tier, LINK_TO_CPU, n, from));
  book_written(instance, tier, n);
  for (int64_t i = 0; i < n; i++)
    host_cache_set_ready(tier_blocks(self, connector, tier), connector->keys[i], ready);
}

/* What one tier has evicted goes to the next, if that takes it, and so on. Nothing is read of what
 * the next has already, or has no room for. */
static void pass_on(Simulation *self, Instance *instance, int32_t tier) {
  Connector *connector = instance->scheduler->connector;
  for (; tier + 1 < connector->options.n_tiers; tier++) {
    KvStore *store = connector->tiers[tier];
    HostCache *from = &store->blocks, *to = tier_blocks(self, connector, tier + 1);
    int64_t n = 0;
    Tick ready = self->now;
    ARENA_RESERVE(self->arena, connector->keys, connector->keys_capacity, from->n_evicted);
    for (size_t i = 0; i < from->n_evicted; i++) {
      if (!host_cache_put(to, from->evicted[i].key)) continue;
      connector->keys[n++] = from->evicted[i].key;
      ready = greater(ready, from->evicted[i].ready_at);
    }
    from->n_evicted = 0;
    if (n > 0) {
      from->n_loaded += n;
      book_read(instance, tier, n);
      const Tick read = pass_tier(self, instance, tier, LINK_TO_GPU, n, ready);
      move_evicted(self, instance, tier + 1, n, ready, read);
    }
  }
}

void offloading_saves(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  PrefixCache *cache = instance->cache;
  if (!cache || cache->n_evicted == 0) return;
  HostCache *to = tier_blocks(self, connector, 0);
  int64_t n = 0;
  ARENA_RESERVE(self->arena, connector->keys, connector->keys_capacity, cache->n_evicted);
  for (size_t i = 0; i < cache->n_evicted; i++)
    if (host_cache_put(to, cache->evicted[i])) connector->keys[n++] = cache->evicted[i];
  cache->n_evicted = 0;
  if (n > 0) {
    const int64_t bytes = n * instance->pool->kv_block_bytes;
    const Tick end = sim_copy(self, instance, LINK_TO_CPU, bytes, self->now);
    move_evicted(self, instance, 0, n, self->now, end);
  }
  pass_on(self, instance, 0);
}

/* --- loading */

/* Of `n` blocks of a request the keys of the whole ones of a tier, in `connector->keys`. */
static int64_t collect_keys(Simulation *self, const Instance *instance, RequestIx ix, int64_t n,
                            int64_t unit) {
  Connector *connector = instance->scheduler->connector;
  const int64_t whole = n / unit;
  ARENA_RESERVE(self->arena, connector->keys, connector->keys_capacity, (size_t)(2 * whole));
  for (int64_t i = 0; i < whole; i++)
    connector->keys[i] = tier_key(self, instance, ix, i * unit, unit);
  return whole;
}

/* The blocks of a run are read from their tier for a job; from when on they can be. */
static Tick read_run(Simulation *self, const Instance *instance, ConnectorJob *job, RequestIx ix,
                     const TierRun *run) {
  const Connector *connector = instance->scheduler->connector;
  const KvStore *store = connector->tiers[run->tier];
  HostCache *blocks = tier_blocks(self, connector, run->tier);
  Tick ready = self->now;
  for (int64_t i = run->from; i < run->to; i = (i / store->unit + 1) * store->unit) {
    const uint64_t key = tier_key(self, instance, ix, i, store->unit);
    ready = greater(ready, host_cache_ready(blocks, key));
    if (kv_store_gives(store)) {
      host_cache_give(blocks, key);
    } else {
      host_cache_load(blocks, key, 1);
      connector_job_add(self, job, key, run->tier);
    }
  }
  return ready;
}

void offloading_takes(Simulation *self, Instance *instance, RequestIx ix, int64_t hits,
                      int64_t tokens) {
  Connector *connector = instance->scheduler->connector;
  const int64_t first = hits / block_size_of(instance);
  const int64_t end = (hits + tokens) / block_size_of(instance);
  const bool loading = tier_runs_find(self, instance, ix, first, end);
  assert(!loading && tier_runs_end(connector, first) == end);
  (void)loading;
  ConnectorJob *job = connector_job_begin(self, connector, LINK_TO_GPU, ix, self->now);
  for (size_t i = 0; i < connector->n_found; i++)
    job->end = greater(job->end, read_run(self, instance, job, ix, &connector->found[i]));
  for (int64_t i = first; i < end && instance->cache; i++) {
    const uint64_t key = tier_key(self, instance, ix, i, 1);
    ++*key_map_put(&connector->loading, key, self->arena);
    connector_job_add(self, job, key, -1);
  }
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    const int64_t n = collect_keys(self, instance, ix, first, connector->tiers[t]->unit);
    host_cache_touch(tier_blocks(self, connector, t), connector->keys, n, true);
  }
}

/* What is loaded comes through CPU memory: tiers that are written through, and lie before one that
 * it was found in, have it, too. By then it is in CPU memory. */
static void promote(Simulation *self, Instance *instance, RequestIx ix, int64_t first, int64_t end,
                    Tick loaded) {
  Connector *connector = instance->scheduler->connector;
  int32_t deepest = 0;
  for (size_t i = 0; i < connector->n_found; i++)
    if (connector->found[i].tier > deepest) deepest = connector->found[i].tier;
  for (int32_t t = 0; t < deepest; t++) {
    KvStore *store = connector->tiers[t];
    if (store->options.takes != KV_STORE_WRITTEN) continue;
    int64_t n_missing;
    const int64_t n = collect_keys(self, instance, ix, end, store->unit);
    uint64_t *missing = connector->keys + n;
    if (!host_cache_store(tier_blocks(self, connector, t), connector->keys, first / store->unit, n,
                          missing, &n_missing) ||
        n_missing == 0)
      continue;
    const Tick written = pass_tier(self, instance, t, LINK_TO_CPU, n_missing, self->now);
    ConnectorJob *job =
        connector_job_begin(self, connector, LINK_TO_CPU, REQUEST_NONE, greater(loaded, written));
    for (int64_t i = 0; i < n_missing; i++)
      connector_job_add(self, job, missing[i], t);
    book_written(instance, t, n_missing);
    pass_on(self, instance, t);
  }
}

/* A run of a prompt whose last token is computed again, if all is there. */
static void book_run(Instance *instance, const TierRun *run, int64_t prompt) {
  const KvStore *store = instance->scheduler->connector->tiers[run->tier];
  const int64_t size = block_size_of(instance);
  const int64_t end = run->to * size < prompt ? run->to * size : prompt - 1;
  instance->totals.tier_hit_tokens[store->options.kind] += end - run->from * size;
}

void offloading_loads(Simulation *self, Instance *instance, RequestIx ix, int64_t hits,
                      int64_t tokens) {
  Connector *connector = instance->scheduler->connector;
  const int64_t size = block_size_of(instance), first = hits / size, end = first + tokens / size;
  const Tick ready = connector->jobs[connector->n_jobs - 1].end;
  const int64_t prompt = request_prefill_tokens(&self->requests.slots[ix]);
  int64_t blocks[KV_STORE_KINDS] = {0};
  for (size_t i = 0; i < connector->n_found; i++) {
    const TierRun *run = &connector->found[i];
    blocks[run->tier] += tier_run_blocks(connector->tiers[run->tier], run);
    book_run(instance, run, prompt);
  }
  Tick ends =
      sim_copy(self, instance, LINK_TO_GPU, (end - first) * instance->pool->kv_block_bytes, ready);
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    if (blocks[t] == 0) continue;
    ends = greater(ends, pass_tier(self, instance, t, LINK_TO_GPU, blocks[t], ready));
    book_read(instance, t, blocks[t]);
  }
  connector->jobs[connector->n_jobs - 1].end = ends;
  instance->totals.kv_loads++;
  promote(self, instance, ix, first, end, ends);
}

/* --- storing */

/* Of the `n` blocks of a request, one of a tier's own is stored: those that CPU memory has not are
 * copied from the GPUs. */
static void mark_copied(const Simulation *self, const Instance *instance, RequestIx ix,
                        int32_t tier, int64_t i) {
  const Connector *connector = instance->scheduler->connector;
  const KvStore *cpu = connector->tiers[0];
  const int64_t unit = connector->tiers[tier]->unit;
  const bool beside = tier > 0 && cpu->options.kind == KV_STORE_CPU;
  for (int64_t b = i * unit; b < (i + 1) * unit; b++)
    connector->copied[b] |=
        !beside || !host_cache_has(&cpu->blocks, tier_key(self, instance, ix, b, cpu->unit));
}

/* Of the first `n` blocks of its prompt, those that a tier has not are stored there as the step
 * ends. False: there is no room for them. */
static bool store_in(Simulation *self, Instance *instance, Step *step, RequestIx ix, int32_t tier,
                     int64_t n) {
  Connector *connector = instance->scheduler->connector;
  const KvStore *store = connector->tiers[tier];
  const int64_t from = self->memory[ix].n_stored / store->unit;
  const int64_t whole = collect_keys(self, instance, ix, n, store->unit);
  const uint64_t *missing = connector->keys + whole;
  int64_t n_missing;
  if (whole <= from) return true;
  if (!host_cache_store(tier_blocks(self, connector, tier), connector->keys, from, whole,
                        connector->keys + whole, &n_missing))
    return false;
  connector->n_stores += n_missing > 0;
  ARENA_RESERVE(self->arena, step->stored, step->stored_capacity,
                step->n_stored + (size_t)n_missing);
  for (int64_t i = from, k = 0; k < n_missing; i++) {
    if (connector->keys[i] != missing[k]) continue;
    step->stored[step->n_stored++] = (TierBlock){missing[k++], tier};
    mark_copied(self, instance, ix, tier, i);
  }
  return true;
}

void offloading_stores(Simulation *self, Instance *instance, Step *step, RequestIx ix,
                       int64_t computed) {
  Connector *connector = instance->scheduler->connector;
  const int64_t prompt = self->requests.slots[ix].prompt_tokens;
  const int64_t n = (computed < prompt ? computed : prompt) / block_size_of(instance);
  RequestMemory *memory = &self->memory[ix];
  if (n <= memory->n_stored) return;
  ARENA_RESERVE(self->arena, connector->copied, connector->copied_capacity, (size_t)n);
  memset(connector->copied, 0, (size_t)n * sizeof *connector->copied);
  bool all = true;
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    if (connector->tiers[t]->options.takes != KV_STORE_WRITTEN) continue;
    all &= store_in(self, instance, step, ix, t, n);
    pass_on(self, instance, t);
  }
  if (all) memory->n_stored = (int32_t)n;
  for (int64_t i = 0; i < n; i++)
    step->n_copied += connector->copied[i];
}

void offloading_steps(Simulation *self, Instance *instance, Step *step) {
  Connector *connector = instance->scheduler->connector;
  if (step->n_stored == 0) return;
  Tick copied = self->now;
  if (step->n_copied > 0)
    copied = sim_copy(self, instance, LINK_TO_CPU, step->n_copied * instance->pool->kv_block_bytes,
                      self->now);
  for (int32_t t = 0; t < connector->options.n_tiers; t++) {
    int64_t n = 0;
    for (size_t i = 0; i < step->n_stored; i++)
      n += step->stored[i].tier == t;
    if (n == 0) continue;
    const Tick end = greater(copied, pass_tier(self, instance, t, LINK_TO_CPU, n, self->now));
    ConnectorJob *job = connector_job_begin(self, connector, LINK_TO_CPU, REQUEST_NONE, end);
    for (size_t i = 0; i < step->n_stored; i++)
      if (step->stored[i].tier == t) connector_job_add(self, job, step->stored[i].key, t);
    book_written(instance, t, n);
  }
  step->n_stored = 0;
  step->n_copied = 0;
}

/* --- ending */

void offloading_ends(Simulation *self, Instance *instance, const ConnectorJob *job) {
  Connector *connector = instance->scheduler->connector;
  const bool load = job->direction == LINK_TO_GPU;
  for (size_t i = 0; i < job->n_blocks; i++) {
    const TierBlock *block = &job->blocks[i];
    if (block->tier < 0) {
      uint32_t *n = key_map_find(&connector->loading, block->key);
      if (--*n == 0) key_map_remove(&connector->loading, block->key);
    } else if (load) {
      host_cache_load(tier_blocks(self, connector, block->tier), block->key, -1);
    } else {
      host_cache_written(tier_blocks(self, connector, block->tier), block->key);
    }
  }
  if (load) instance->totals.kv_load_ticks += self->now - job->begun;
}

void offloading_forget(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  Scheduler *scheduler = instance->scheduler;
  for (size_t i = 0; i < connector->n_jobs; i++) {
    const ConnectorJob *job = &connector->jobs[i];
    if (job->direction == LINK_TO_GPU) offloading_ends(self, instance, job);
    for (size_t k = 0; k < job->n_blocks && job->direction == LINK_TO_CPU; k++)
      host_cache_remove(tier_blocks(self, connector, job->blocks[k].tier), job->blocks[k].key);
  }
  for (size_t i = 0; i < scheduler->n_places; i++) {
    Step *step = &scheduler->steps[i];
    for (size_t k = 0; k < step->n_stored; k++) {
      KvStore *store = connector->tiers[step->stored[k].tier];
      host_cache_remove(&store->blocks, step->stored[k].key);
      store->n_dropped++;
    }
    step->n_stored = 0;
    step->n_copied = 0;
  }
  KvStore *first = connector->tiers[0];
  if (first->options.kind == KV_STORE_CPU && first->options.shared == KV_STORE_OWN)
    host_cache_clear(&first->blocks);
  if (instance->cache) instance->cache->n_evicted = 0;
}

/* --- checks */

/* Blocks of a tier that an instance loads, and writes, and whose stores are yet to begin. */
static void count_blocks(const Instance *instance, const KvStore *store, int64_t *n_loads,
                         int64_t *n_unwritten, int64_t *n_waiting) {
  const Scheduler *scheduler = instance->scheduler;
  const Connector *connector = scheduler ? scheduler->connector : NULL;
  for (int32_t t = 0; connector && t < connector->options.n_tiers; t++) {
    if (connector->tiers[t] != store) continue;
    for (size_t i = 0; i < connector->n_jobs; i++)
      for (size_t k = 0; k < connector->jobs[i].n_blocks; k++)
        if (connector->jobs[i].blocks[k].tier == t)
          ++*(connector->jobs[i].direction == LINK_TO_GPU ? n_loads : n_unwritten);
    for (size_t i = 0; i < scheduler->n_places; i++)
      for (size_t k = 0; k < scheduler->steps[i].n_stored; k++)
        *n_waiting += scheduler->steps[i].stored[k].tier == t;
  }
}

void offloading_audit(const Simulation *self) {
  Total read = 0, written = 0;
  for (size_t i = 0; i < self->n_kv_stores; i++) {
    const KvStore *store = self->kv_stores[i];
    int64_t n_loads = 0, n_unwritten = 0, n_waiting = 0;
    for (InstanceIx m = 0; m < self->n_instances; m++)
      count_blocks(&self->instances[m], store, &n_loads, &n_unwritten, &n_waiting);
    kv_store_audit(store, n_loads, n_unwritten + n_waiting, n_waiting);
    read += store->moved[LINK_TO_GPU];
    written += store->moved[LINK_TO_CPU];
  }
  for (InstanceIx m = 0; m < self->n_instances && self->n_kv_stores > 0; m++)
    for (int kind = 0; kind < KV_STORE_KINDS; kind++) {
      read -= self->instances[m].totals.tier_read_bytes[kind];
      written -= self->instances[m].totals.tier_written_bytes[kind];
    }
  assert(read == 0 && written == 0);
}
