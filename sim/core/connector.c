/* See connector.h. */
#include "sim/core/connector.h"
#include "sim/books/parts.h"
#include "sim/core/copying.h"
#include "sim/core/hicache.h"
#include "sim/core/lifecycle.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/offloading.h"
#include <assert.h>

static int64_t block_size_of(const Instance *instance) {
  return instance->pool->block_size;
}

void connector_start(Simulation *self, Instance *instance) {
  const ConnectorOptions *options = &instance->scheduler->limits.connector;
  if (options->kind == CONNECTOR_HICACHE) hicache_start(self, instance);
  if (options->kind == CONNECTOR_NONE || options->kind == CONNECTOR_HICACHE) return;
  Connector *connector = instance->scheduler->connector = ARENA_NEW(self->arena, Connector);
  connector->options = *options;
  instance->scheduler->by_items = self->keeps_content = true;
  offloading_start(self, instance);
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

/* A job of NIXL's of so many blocks. */
static ConnectorJob *begin_job(Simulation *self, Instance *instance, LinkDirection direction,
                               RequestIx ix, int64_t blocks) {
  Connector *connector = instance->scheduler->connector;
  const PoolSpec *pool = instance->pool;
  const double seconds =
      (double)(blocks * pool->block_size * pool->kv_bytes_per_token) / (double)pool->nic_bandwidth;
  const Tick end = connector_pass(self, &connector->nic, direction, self->now,
                                  connector->options.overhead, seconds);
  return connector_job_begin(self, connector, direction, ix, end);
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

int64_t connector_more(const Simulation *self, const Instance *instance, RequestIx ix,
                       int64_t hits) {
  const Connector *connector = instance->scheduler->connector;
  const Request *request = &self->requests.slots[ix];
  if (request->loading != LOADING_NONE) return 0;
  if (connector->options.kind == CONNECTOR_OFFLOADING)
    return offloading_more(self, instance, ix, hits);
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

/* One that has its first token is preempted. */
static void wait_for(Simulation *self, RequestIx ix, Cause cause) {
  if (self->keeps_parts && self->requests.slots[ix].first_token_at < 0) parts_wait(self, ix, cause);
}

void connector_load(Simulation *self, Instance *instance, RequestIx ix, int64_t hits,
                    int64_t tokens) {
  Connector *connector = instance->scheduler->connector;
  const int64_t size = block_size_of(instance), first = hits / size;
  const int64_t end = (hits + tokens + size - 1) / size;
  const bool offloads = connector->options.kind == CONNECTOR_OFFLOADING;
  if (offloads) offloading_takes(self, instance, ix, hits, tokens);
  life_loads(self, instance, ix, hits, hits + tokens);
  wait_for(self, ix, CAUSE_kv_load);
  self->requests.slots[ix].pulled = true;
  if (offloads) {
    offloading_saves(self, instance);
    offloading_loads(self, instance, ix, hits, tokens);
  } else {
    begin_job(self, instance, LINK_TO_GPU, ix, end - first);
  }
  self->memory[ix].n_stored = (int32_t)end;
  connector->n_loads++;
}

void connector_saves(Simulation *self, Instance *instance) {
  if (instance->scheduler->connector) offloading_saves(self, instance);
}

void connector_use(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->loading = LOADING_USED;
  wait_for(self, ix, CAUSE_prefill_wait);
  sim_register_blocks(self, instance, ix, request->prefilled_tokens);
}

/* --- storing */

void connector_decided(Simulation *self, Instance *instance, Step *step) {
  const Connector *connector = instance->scheduler->connector;
  if (connector->options.kind != CONNECTOR_OFFLOADING) return;
  offloading_saves(self, instance);
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->kind <= STEP_DECODE)
      offloading_stores(self, instance, step, item->request,
                        item->kind == STEP_CHUNK ? item->done : INT64_MAX);
  }
}

/* --- ends */

static void end_job(Simulation *self, Instance *instance, ConnectorJob *job) {
  if (instance->scheduler->connector->options.kind == CONNECTOR_OFFLOADING)
    offloading_ends(self, instance, job);
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
  offloading_steps(self, instance, step);
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
    waits |= job->kept.n > 0 || connector->shares;
  }
  if (!waits || connector->n_jobs == 0) return;
  connector->sleeps = self->config->connectors_sleep;
  agenda_set(&self->agenda, EVENT_CONNECTOR, instance->ix, next > self->now ? next : self->now);
}

void sim_handle_connector(Simulation *self, uint32_t target) {
  Instance *instance = &self->instances[target];
  Connector *connector = instance->scheduler->connector;
  if (connector) connector->sleeps = false;
  if (instance->activity != ACTIVITY_IDLE || !instance_works(instance)) return;
  if (connector) settle(self, instance);
  sim_mark(self, instance, MARK_BEGIN);
}

void connector_forget(Simulation *self, Instance *instance) {
  Connector *connector = instance->scheduler->connector;
  for (size_t i = 0; i < connector->n_jobs; i++)
    give_back(self, instance, &connector->jobs[i].kept);
  connector_ended(self, instance, UINT32_MAX);
  if (connector->options.kind == CONNECTOR_OFFLOADING) offloading_forget(self, instance);
  connector->n_jobs = 0;
  connector->sleeps = false;
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
