/* See connector.h. */
#include "sim/core/connector.h"
#include "sim/core/copying.h"
#include "sim/core/lifecycle.h"
#include "sim/core/limits.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include <assert.h>

static int64_t block_size_of(const Instance *instance) {
  return instance->pool->block_size;
}

void connector_start(Simulation *self, Instance *instance) {
  const ConnectorOptions *options = &instance->scheduler->limits.connector;
  if (options->kind == CONNECTOR_NONE) return;
  Connector *connector = instance->scheduler->connector = ARENA_NEW(self->arena, Connector);
  connector->options = *options;
  instance->scheduler->by_items = self->keeps_content = true;
  if (options->kind == CONNECTOR_OFFLOADING)
    host_cache_init(&connector->host, options->cpu_bytes / instance->pool->kv_block_bytes,
                    self->arena);
  if (instance->cache) instance->cache->names_all = true;
  agenda_reserve(&self->agenda, EVENT_CONNECTOR, self->n_instances);
}

bool connector_defers(const Instance *instance) {
  const Connector *connector = instance->scheduler->connector;
  return connector && instance->lag > 0 && connector->options.role != CONNECTOR_PRODUCER;
}

static bool step_has(const Step *step, RequestIx ix) {
  for (size_t i = 0; step && i < step->n_items; i++)
    if (step->items[i].request == ix && step->items[i].kind < STEP_LEAVES) return true;
  return false;
}

bool connector_computes(const Instance *instance, RequestIx ix) {
  return step_has(instance->scheduler->current, ix);
}

/* --- jobs */

static Tick end_of_copy(Simulation *self, Instance *instance, LinkDirection direction,
                        int64_t blocks) {
  Connector *connector = instance->scheduler->connector;
  const PoolSpec *pool = instance->pool;
  if (connector->options.kind == CONNECTOR_OFFLOADING)
    return sim_copy(self, instance, direction, blocks * pool->kv_block_bytes, self->now);
  const double seconds =
      (double)(blocks * pool->block_size * pool->kv_bytes_per_token) / (double)pool->nic_bandwidth;
  Tick *ends = connector->nic.ends;
  const Tick from = ends[direction] > self->now ? ends[direction] : self->now;
  if (sim_passes_the_end(self, (double)(from - self->now) + seconds * TICKS_PER_SECOND))
    return self->now;
  return ends[direction] = from + connector->options.overhead + tick_from_seconds(seconds);
}

/* A job of so many blocks, the newest; slots of those that have ended keep their memory. */
static ConnectorJob *begin_job(Simulation *self, Instance *instance, LinkDirection direction,
                               RequestIx ix, int64_t blocks) {
  Connector *connector = instance->scheduler->connector;
  const Tick end = end_of_copy(self, instance, direction, blocks);
  const size_t before = connector->jobs_capacity;
  ARENA_RESERVE(self->arena, connector->jobs, connector->jobs_capacity, connector->n_jobs + 1);
  for (size_t i = before; i < connector->jobs_capacity; i++)
    connector->jobs[i] = (ConnectorJob){0};
  ConnectorJob *job = &connector->jobs[connector->n_jobs++];
  job->end = end;
  job->direction = direction;
  job->request = ix;
  job->n_keys = 0;
  return job;
}

static void add_keys(Simulation *self, ConnectorJob *job, const uint64_t *keys, size_t n) {
  ARENA_RESERVE(self->arena, job->keys, job->keys_capacity, job->n_keys + n);
  for (size_t i = 0; i < n; i++)
    job->keys[job->n_keys++] = keys[i];
}

/* --- blocks that are kept */

static void swap_held(HeldBlocks *a, HeldBlocks *b) {
  const HeldBlocks held = *a;
  *a = *b;
  *b = held;
}

/* What a request holds is kept. */
static void keep(Simulation *self, Instance *instance, RequestIx ix, KeptBlocks *kept) {
  Request *request = &self->requests.slots[ix];
  assert(kept->n == 0 && kept->held.n == 0);
  kept->n = request->kv_blocks;
  request->kv_blocks = 0;
  if (instance->cache) swap_held(&kept->held, &self->memory[ix].held);
}

static void give_back(Simulation *self, Instance *instance, KeptBlocks *kept) {
  int64_t n = kept->n;
  if (n == 0) return;
  if (instance->cache) {
    const int64_t free_before = instance->cache->n_free;
    prefix_cache_release(instance->cache, &kept->held);
    n = instance->cache->n_free - free_before;
  }
  kept->n = 0;
  sim_take_blocks(self, instance, -n);
  sim_mark(self, instance, MARK_ROOM);
}

static void keep_for_step(Simulation *self, Instance *instance, RequestIx ix, uint32_t step) {
  Connector *connector = instance->scheduler->connector;
  const size_t before = connector->kept_capacity;
  ARENA_RESERVE(self->arena, connector->kept, connector->kept_capacity, connector->n_kept + 1);
  for (size_t i = before; i < connector->kept_capacity; i++)
    connector->kept[i] = (KeptBlocks){0};
  KeptBlocks *kept = &connector->kept[connector->n_kept++];
  keep(self, instance, ix, kept);
  kept->step = step;
}

void connector_ended(Simulation *self, Instance *instance, uint32_t step) {
  Connector *connector = instance->scheduler->connector;
  size_t n = 0;
  for (size_t i = 0; i < connector->n_kept; i++) {
    KeptBlocks kept = connector->kept[i];
    if (kept.step <= step) {
      give_back(self, instance, &connector->kept[i]);
      continue;
    }
    connector->kept[i] = connector->kept[n];
    connector->kept[n++] = kept;
  }
  connector->n_kept = n;
}

void connector_leaves(Simulation *self, Instance *instance, RequestIx ix, bool finishes) {
  Request *request = &self->requests.slots[ix];
  Scheduler *scheduler = instance->scheduler;
  Connector *connector = scheduler->connector;
  const bool loads = request->loading == LOADING_RUNS;
  request->loading = LOADING_NONE;
  if (!instance_works(instance)) return;
  for (size_t i = 0; i < connector->n_jobs && loads; i++) {
    if (connector->jobs[i].request != ix) continue;
    connector->jobs[i].request = REQUEST_NONE;
    keep(self, instance, ix, &connector->jobs[i].kept);
  }
  if (finishes && connector->options.role == CONNECTOR_PRODUCER && !request->local_kv &&
      request->kv_blocks > 0) {
    ConnectorJob *job = begin_job(self, instance, LINK_TO_CPU, REQUEST_NONE, request->kv_blocks);
    keep(self, instance, ix, &job->kept);
    connector->n_stores++;
  }
  if (connector_defers(instance) && scheduler->has_next && step_has(scheduler->next, ix))
    keep_for_step(self, instance, ix, scheduler->next->number);
}

/* --- loading */

static uint64_t key_of(const Simulation *self, const Instance *instance, RequestIx ix, int64_t i) {
  return content_key(&self->memory[ix].content, (i + 1) * block_size_of(instance));
}

/* Its blocks behind those that CPU memory has. A last one that is not full is never there. */
static int64_t offloaded(const Simulation *self, const Instance *instance, RequestIx ix,
                         int64_t hits) {
  const Connector *connector = instance->scheduler->connector;
  const int64_t size = block_size_of(instance);
  const int64_t full = request_prefill_tokens(&self->requests.slots[ix]) / size;
  bool loads = false;
  int64_t n = hits / size;
  for (; n < full; n++) {
    const uint64_t key = key_of(self, instance, ix, n);
    if (!host_cache_has(&connector->host, key)) break;
    loads |= instance->cache && host_cache_loads(&connector->host, key);
  }
  return loads ? -1 : n * size - hits;
}

int64_t connector_more(const Simulation *self, const Instance *instance, RequestIx ix,
                       int64_t hits) {
  const Connector *connector = instance->scheduler->connector;
  const Request *request = &self->requests.slots[ix];
  if (request->loading != LOADING_NONE) return 0;
  if (connector->options.kind == CONNECTOR_OFFLOADING) return offloaded(self, instance, ix, hits);
  const bool pulls = connector->options.role != CONNECTOR_PRODUCER && !request->local_kv;
  return pulls && !request->pulled && request->prompt_tokens > hits ? request->prompt_tokens - hits
                                                                    : 0;
}

static int64_t missing_blocks(const Instance *instance, const Request *request) {
  const int64_t n = blocks_of(instance, request_prefill_tokens(request)) - request->kv_blocks;
  return n > 0 ? n : 0;
}

int64_t connector_reserve(const Simulation *self, const Instance *instance) {
  const Request *slots = self->requests.slots;
  int64_t n = 0;
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (slots[ix].state == REQUEST_COMPUTES) n += missing_blocks(instance, &slots[ix]);
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE && slots[ix].loading;
       ix = slots[ix].next)
    n += missing_blocks(instance, &slots[ix]);
  return n;
}

/* Of the keys of a request's first blocks, those of the ones that are loaded are the job's. */
static void keep_loaded(HostCache *host, ConnectorJob *job, size_t first) {
  host_cache_touch(host, job->keys, (int64_t)first);
  job->n_keys -= first;
  for (size_t i = 0; i < job->n_keys; i++)
    job->keys[i] = job->keys[first + i];
}

void connector_load(Simulation *self, Instance *instance, RequestIx ix, int64_t hits,
                    int64_t tokens) {
  Connector *connector = instance->scheduler->connector;
  const int64_t size = block_size_of(instance), first = hits / size;
  const int64_t end = (hits + tokens + size - 1) / size;
  const bool offloads = connector->options.kind == CONNECTOR_OFFLOADING;
  life_loads(self, instance, ix, hits, hits + tokens);
  Request *request = &self->requests.slots[ix];
  request->pulled = true;
  ConnectorJob *job = begin_job(self, instance, LINK_TO_GPU, ix, end - first);
  for (int64_t i = 0; i < end && offloads; i++) {
    const uint64_t key = key_of(self, instance, ix, i);
    add_keys(self, job, &key, 1);
    if (i >= first) host_cache_load(&connector->host, key, 1);
  }
  if (offloads) keep_loaded(&connector->host, job, (size_t)first);
  self->memory[ix].n_stored = (int32_t)end;
  connector->n_loads++;
}

void connector_use(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->loading = LOADING_USED;
  sim_register_blocks(self, instance, ix, request->prefilled_tokens);
}

/* --- storing */

/* The full blocks of its prompt that are computed once the step has run; those that CPU memory has
 * no room for are tried again with its next step. */
static void store_some(Simulation *self, Instance *instance, Step *step, RequestIx ix,
                       int64_t computed) {
  Connector *connector = instance->scheduler->connector;
  const Request *request = &self->requests.slots[ix];
  const int64_t prompt = request->prompt_tokens;
  const int64_t n = (computed < prompt ? computed : prompt) / block_size_of(instance);
  RequestMemory *memory = &self->memory[ix];
  if (n <= memory->n_stored) return;
  ARENA_RESERVE(self->arena, connector->keys, connector->keys_capacity, (size_t)(2 * n));
  for (int64_t i = 0; i < n; i++)
    connector->keys[i] = key_of(self, instance, ix, i);
  uint64_t *missing = connector->keys + n;
  int64_t n_missing;
  if (!host_cache_store(&connector->host, connector->keys, memory->n_stored, n, missing,
                        &n_missing))
    return;
  memory->n_stored = (int32_t)n;
  connector->n_stores += n_missing > 0;
  ARENA_RESERVE(self->arena, step->stored, step->stored_capacity,
                step->n_stored + (size_t)n_missing);
  for (int64_t i = 0; i < n_missing; i++)
    step->stored[step->n_stored++] = missing[i];
}

void connector_decided(Simulation *self, Instance *instance, Step *step) {
  const Connector *connector = instance->scheduler->connector;
  if (connector->options.kind != CONNECTOR_OFFLOADING) return;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->kind <= STEP_DECODE)
      store_some(self, instance, step, item->request,
                 item->kind == STEP_CHUNK ? item->done : INT64_MAX);
  }
}

/* --- ends */

static void end_job(Simulation *self, Instance *instance, ConnectorJob *job) {
  Connector *connector = instance->scheduler->connector;
  const bool load = job->direction == LINK_TO_GPU;
  for (size_t i = 0; i < job->n_keys; i++) {
    if (load)
      host_cache_load(&connector->host, job->keys[i], -1);
    else
      host_cache_written(&connector->host, job->keys[i]);
  }
  if (job->request != REQUEST_NONE) self->requests.slots[job->request].loading = LOADING_DONE;
  give_back(self, instance, &job->kept);
}

/* Those that have ended, by their ends. */
static void settle(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  for (;;) {
    size_t first = connector->n_jobs;
    for (size_t i = 0; i < connector->n_jobs; i++)
      if (connector->jobs[i].end <= self->now &&
          (first == connector->n_jobs || connector->jobs[i].end < connector->jobs[first].end))
        first = i;
    if (first == connector->n_jobs) return;
    ConnectorJob ended = connector->jobs[first];
    end_job(self, instance, &ended);
    for (size_t i = first + 1; i < connector->n_jobs; i++)
      connector->jobs[i - 1] = connector->jobs[i];
    connector->jobs[--connector->n_jobs] = ended;
  }
}

void connector_hears(Simulation *self, Instance *instance, Step *step) {
  if (step->n_stored > 0) {
    ConnectorJob *job =
        begin_job(self, instance, LINK_TO_CPU, REQUEST_NONE, (int64_t)step->n_stored);
    add_keys(self, job, step->stored, step->n_stored);
    step->n_stored = 0;
  }
  settle(self, instance);
}

void connector_idles(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  Tick next = TICK_MAX;
  bool waits = instance->prefill_queue.count > 0;
  connector->n_stores = 0; // a decision of nothing
  for (size_t i = 0; i < connector->n_jobs; i++) {
    const ConnectorJob *job = &connector->jobs[i];
    if (job->end < next) next = job->end;
    waits |= job->kept.n > 0;
  }
  if (!waits || connector->n_jobs == 0) return;
  connector->sleeps = self->config->connectors_sleep;
  agenda_set(&self->agenda, EVENT_CONNECTOR, instance->ix, next > self->now ? next : self->now);
}

void sim_handle_connector(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  Connector *connector = instance->scheduler->connector;
  connector->sleeps = false;
  if (instance->activity != ACTIVITY_IDLE || !instance_works(instance)) return;
  settle(self, instance);
  sim_mark(self, instance, MARK_BEGIN);
}

void connector_forget(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  for (size_t i = 0; i < connector->n_jobs; i++)
    give_back(self, instance, &connector->jobs[i].kept);
  connector_ended(self, instance, UINT32_MAX);
  connector->n_jobs = 0;
  connector->sleeps = false;
  for (size_t i = 0; i < instance->scheduler->n_places; i++)
    instance->scheduler->steps[i].n_stored = 0;
  host_cache_init(&connector->host, connector->host.n_blocks, self->arena);
  agenda_clear(&self->agenda, EVENT_CONNECTOR, instance->ix);
}

/* --- checks */

int64_t connector_kept(const Connector *self) {
  int64_t n = 0;
  for (size_t i = 0; i < self->n_jobs; i++)
    n += self->jobs[i].kept.n;
  for (size_t i = 0; i < self->n_kept; i++)
    n += self->kept[i].n;
  return n;
}

void connector_audit(const Connector *self, const Scheduler *scheduler) {
  int64_t n_loads = 0, n_unwritten = 0;
  for (size_t i = 0; i < self->n_jobs; i++)
    *(self->jobs[i].direction == LINK_TO_GPU ? &n_loads : &n_unwritten) +=
        (int64_t)self->jobs[i].n_keys;
  for (size_t i = 0; i < scheduler->n_places; i++)
    n_unwritten += (int64_t)scheduler->steps[i].n_stored;
  if (self->options.kind == CONNECTOR_OFFLOADING)
    host_cache_audit(&self->host, n_loads, n_unwritten);
}
