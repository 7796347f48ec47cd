/* Blocks of KV memory: what is free and what is promised (RULES.md, Blocks).
 *
 * Instance.free_blocks is exact between decode runs. During one it knows of the blocks that the run
 * has taken up to DecodeRun.booked; sim_free_blocks knows of all, and sim_catch_up books
 * them. Whoever takes or gives blocks during a run has its length fitted to what is left, so that a
 * run never outgrows the memory. */
#include "sim/core/memory.h"
#include "sim/core/decode_run.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/tier.h"
#include <assert.h>

/* Iterations of the batch that have begun and are not booked yet. */
static int64_t unbooked_iterations(const Simulation *self, const Instance *instance) {
  const int64_t booked = instance->run.booked - instance->lag;
  if (instance->activity == ACTIVITY_DECODE) return sim_begun_iterations(self, instance) - booked;
  if (instance->loop->decides_ahead) return 0;
  return instance->activity == ACTIVITY_PREFILL && instance_decodes(instance) ? 1 - booked : 0;
}

int64_t sim_free_blocks(const Simulation *self, const Instance *instance) {
  if (instance->batcher->reserves_output) return instance->free_blocks;
  if (instance->loop->growth) return instance->free_blocks - instance->loop->growth(self, instance);
  return instance->free_blocks -
         batch_growth(&instance->batch, unbooked_iterations(self, instance));
}

static void take(Simulation *self, Instance *instance, int64_t n) {
  instance->free_blocks -= n;
  assert(0 <= instance->free_blocks && instance->free_blocks <= instance->kv_blocks);
  column_add(self->columns.kv_blocks, instance->ix, n);
}

/* Each iteration finds as many pages free as the batch has sequences, used or not: those of the
 * radix tree that it evicts for that are gone. Iterations before the first that has to evict are
 * booked at once. */
static void book_radix(Simulation *self, Instance *instance, int64_t n) {
  Radix *radix = instance->radix;
  Batch *batch = &instance->batch;
  const int64_t n_seqs = (int64_t)batch->n_seqs;
  while (n > 0) {
    const int64_t evicted = radix->n_evicted;
    radix_make_room(radix, n_seqs);
    instance->totals.evictions += radix->n_evicted - evicted;
    const int64_t spare = radix->n_free - n_seqs;
    const int64_t most = spare < 0 ? 1 : batch_fitting(batch, spare, n - 1) + 1;
    const int64_t growth = batch_growth(batch, most);
    radix_take(radix, growth);
    take(self, instance, growth);
    batch_advance(batch, most);
    n -= most;
  }
}

void sim_book_iterations(Simulation *self, Instance *instance, int64_t n) {
  const int64_t more = n - instance->run.booked;
  if (more == 0) return;
  instance->run.booked = n;
  if (instance->radix) {
    book_radix(self, instance, more);
    return;
  }
  if (instance->cache || instance->kv_groups) {
    for (int64_t i = 0; i < more; i++) {
      BatchGrowth growth = sim_begin_growth(self, instance);
      sim_grow_until(self, instance, &growth, UINT32_MAX);
      batch_advance(&instance->batch, 1);
    }
    return;
  }
  if (!instance->batcher->reserves_output)
    take(self, instance, batch_growth(&instance->batch, more));
  batch_advance(&instance->batch, more);
}

/* Whether the last iteration that is booked is surely still running: without fractions of ticks,
 * those up to it do not take less. */
static bool is_booked(const Simulation *self, const Instance *instance) {
  const DecodeRun *run = &instance->run;
  const int64_t n = run->booked - instance->lag - run->done; // of the present part
  return instance->activity == ACTIVITY_DECODE && n > 0 &&
         self->now - run->part_began_at <
             (run->ends ? sim_part_sum(run, n)
                        : run->series.first * n + run->series.step * (n * (n - 1) / 2));
}

void sim_catch_up(Simulation *self, Instance *instance) {
  if (instance->loop->catch_up) instance->loop->catch_up(self, instance);
  if (is_booked(self, instance)) return;
  const int64_t more = unbooked_iterations(self, instance);
  if (more > 0) sim_book_iterations(self, instance, instance->run.booked + more);
}

void sim_catch_up_cache(Simulation *self, Instance *instance) {
  if (instance->cache || instance->radix || instance->kv_groups) sim_catch_up(self, instance);
}

bool sim_has_blocks(const Simulation *self, const Instance *instance, int64_t n) {
  /* Enough even at the end of the longest run, usually: then nobody need know how far it is. */
  const Batch *batch = &instance->batch;
  const int64_t most =
      (batch_whole_blocks(batch, instance->run.limit) + 1) * (int64_t)batch->n_seqs;
  const bool surely = n <= instance->free_blocks - most && !instance->loop->growth;
  return surely || n <= sim_free_blocks(self, instance);
}

bool sim_has_room(const Simulation *self, const Instance *instance, int64_t n) {
  if (instance->batcher->reserves_output) return sim_has_blocks(self, instance, n);
  if (instance->loop->decides_ahead)
    return sim_has_blocks(self, instance, n + instance->running.count);
  const bool hangs_on_growth = instance->batch.block_size > BATCH_MARGIN_TOKENS;
  const int64_t n_begun = hangs_on_growth ? unbooked_iterations(self, instance) : 0;
  const int64_t margin = batch_margin(&instance->batch, n_begun, 0);
  return sim_has_blocks(self, instance, n + margin);
}

void sim_take_blocks(Simulation *self, Instance *instance, int64_t n) {
  take(self, instance, n);
  if (n < 0 && instance->wanted_blocks < instance->kv_blocks) sim_withhold_blocks(self, instance);
  if (instance->activity == ACTIVITY_DECODE) sim_mark(self, instance, MARK_REFIT);
}

/* --- what a request holds */

void sim_take_cached(Instance *instance, HeldBlocks *held, int64_t n) {
  if (instance->radix) {
    const int64_t evicted = instance->radix->n_evicted;
    radix_take(instance->radix, n);
    instance->totals.evictions += instance->radix->n_evicted - evicted;
    return;
  }
  const int64_t before = instance->cache->n_evictions;
  prefix_cache_take(instance->cache, held, n);
  instance->totals.evictions += instance->cache->n_evictions - before;
}

static void take_from_cache(Simulation *self, Instance *instance, RequestIx ix, int64_t n) {
  if (instance->cache || instance->radix) sim_take_cached(instance, &self->memory[ix].held, n);
}

/* After a change to what a request holds in groups, before which so many blocks were free. */
static void book_groups(Simulation *self, Instance *instance, RequestIx ix, int64_t free_before,
                        int64_t evictions_before) {
  const PrefixCache *pool = instance->kv_groups->pool;
  self->requests.slots[ix].kv_blocks = self->memory[ix].in_groups.n_blocks;
  instance->totals.evictions += pool->n_evictions - evictions_before;
  if (pool->n_free != free_before) sim_take_blocks(self, instance, free_before - pool->n_free);
}

int64_t sim_needed_blocks(const Simulation *self, const Instance *instance, RequestIx ix,
                          const KvReach *reach) {
  if (instance->kv_groups)
    return kv_groups_need(instance->kv_groups, &self->memory[ix].in_groups, reach, false);
  const int64_t more = blocks_of(instance, reach->slots) - self->requests.slots[ix].kv_blocks;
  return more > 0 ? more : 0;
}

void sim_hold_reach(Simulation *self, Instance *instance, RequestIx ix, const KvReach *reach) {
  if (!instance->kv_groups) {
    sim_hold_blocks(self, instance, ix, sim_needed_blocks(self, instance, ix, reach));
    return;
  }
  const PrefixCache *pool = instance->kv_groups->pool;
  const int64_t n_free = pool->n_free, n_evictions = pool->n_evictions;
  kv_groups_take(instance->kv_groups, &self->memory[ix].in_groups, reach);
  self->memory[ix].in_groups.newest = reach->done - reach->computed;
  book_groups(self, instance, ix, n_free, n_evictions);
}

void sim_slide_blocks(Simulation *self, Instance *instance, RequestIx ix, int64_t computed) {
  const PrefixCache *pool = instance->kv_groups->pool;
  const int64_t n_free = pool->n_free;
  kv_groups_slide(instance->kv_groups, &self->memory[ix].in_groups, computed);
  book_groups(self, instance, ix, n_free, pool->n_evictions);
}

void sim_hold_blocks(Simulation *self, Instance *instance, RequestIx ix, int64_t n) {
  if (n == 0) return;
  take_from_cache(self, instance, ix, n);
  self->requests.slots[ix].kv_blocks += (int32_t)n;
  sim_take_blocks(self, instance, n);
}

void sim_hold_block_of_run(Simulation *self, Instance *instance, RequestIx ix) {
  take_from_cache(self, instance, ix, 1);
  self->requests.slots[ix].kv_blocks++;
  take(self, instance, 1);
}

void sim_take_blocks_of_run(Simulation *self, Instance *instance, int64_t n) {
  take(self, instance, n);
}

void sim_release_blocks(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  int64_t n = request->kv_blocks;
  if (instance->kv_groups) {
    const PrefixCache *pool = instance->kv_groups->pool;
    const int64_t n_free = pool->n_free;
    kv_groups_release(instance->kv_groups, &self->memory[ix].in_groups);
    book_groups(self, instance, ix, n_free, pool->n_evictions);
    return;
  }
  if (instance->cache) {
    const int64_t free_before = instance->cache->n_free;
    assert(self->memory[ix].held.n == n);
    prefix_cache_release(instance->cache, &self->memory[ix].held);
    n = instance->cache->n_free - free_before;
  } else if (instance->radix) {
    const int64_t room = radix_room(instance->radix);
    radix_release(instance->radix, &self->memory[ix].radix, n);
    n = radix_room(instance->radix) - room;
  }
  request->kv_blocks = 0;
  sim_take_blocks(self, instance, -n);
}

/* Up to where it was matched. */
static void hit_radix(Simulation *self, Instance *instance, RequestIx ix, int64_t n) {
  const int64_t room = radix_room(instance->radix);
  radix_hit(instance->radix, &self->memory[ix].radix, self->memory[ix].matched, n);
  self->requests.slots[ix].kv_blocks = (int32_t)n;
  sim_take_blocks(self, instance, room - radix_room(instance->radix));
}

void sim_hit_blocks(Simulation *self, Instance *instance, RequestIx ix, int64_t tokens) {
  if (instance->kv_groups) {
    const PrefixCache *pool = instance->kv_groups->pool;
    const int64_t n_free = pool->n_free;
    kv_groups_hit(instance->kv_groups, &self->memory[ix].in_groups, tokens);
    book_groups(self, instance, ix, n_free, pool->n_evictions);
    return;
  }
  const int64_t n = batch_whole_blocks(&instance->batch, tokens);
  if (n == 0) return;
  if (instance->radix) {
    hit_radix(self, instance, ix, n);
    return;
  }
  const int64_t free_before = instance->cache->n_free;
  prefix_cache_hit(instance->cache, &self->memory[ix].held, &self->memory[ix].content,
                   instance->pool->block_size, n);
  self->requests.slots[ix].kv_blocks = (int32_t)n;
  sim_take_blocks(self, instance, free_before - instance->cache->n_free);
}

void sim_register_blocks(Simulation *self, Instance *instance, RequestIx ix, int64_t tokens) {
  RequestMemory *memory = &self->memory[ix];
  const Request *request = &self->requests.slots[ix];
  if (instance->kv_groups)
    kv_groups_register(instance->kv_groups, &memory->in_groups, &memory->content,
                       request->prompt_tokens, request_tokens(request), tokens);
  if (!instance->cache || instance->kv_groups) return;
  const int64_t lookahead = instance->cache->lookahead;
  if (lookahead > 0) {
    const int64_t named = request_tokens(request) - lookahead;
    tokens = tokens - (lookahead - 1) < named ? tokens - (lookahead - 1) : named;
  }
  prefix_cache_register(instance->cache, &memory->held, &memory->content,
                        instance->pool->block_size, tokens);
}

void sim_insert_radix(Simulation *self, Instance *instance, RequestIx ix, int64_t tokens,
                      bool chunk) {
  RequestMemory *memory = &self->memory[ix];
  const int64_t room = radix_room(instance->radix);
  (chunk ? radix_insert_chunk : radix_insert)(instance->radix, &memory->radix, &memory->content,
                                              tokens, self->requests.slots[ix].prompt_tokens);
  sim_take_blocks(self, instance, room - radix_room(instance->radix));
}

/* --- what the batch takes where layers are in groups */

/* Whether its next iteration may change blocks of one of the batch. */
static bool is_visited(const Simulation *self, const Instance *instance, RequestIx ix) {
  return self->memory[ix].in_groups.visit == instance->batch.iterations;
}

static KvReach reach_in_batch(const Simulation *self, const Instance *instance, RequestIx ix) {
  const int64_t context = batch_context(&instance->batch, &self->requests.slots[ix]);
  return (KvReach){.computed = context - 1, .done = context, .slots = context};
}

/* Whether the step before the one that is decided has not ended. */
static bool is_in_flight(const Instance *instance) {
  return instance->lag > 0 && instance->scheduler->current;
}

static int64_t sure_in_batch(const Simulation *self, const Instance *instance, RequestIx ix) {
  const int64_t newest = is_in_flight(instance) ? self->memory[ix].in_groups.newest : 0;
  return reach_in_batch(self, instance, ix).computed - newest;
}

void sim_slide_in_batch(Simulation *self, Instance *instance, RequestIx ix) {
  if (is_visited(self, instance, ix))
    sim_slide_blocks(self, instance, ix, sure_in_batch(self, instance, ix));
}

/* As one that is scheduled alone. Ranks may decide a step before or after the one before it has
 * ended. */
static void visit(Simulation *self, Instance *instance, RequestIx ix) {
  Batch *batch = &instance->batch;
  KvGroups *groups = instance->kv_groups;
  RequestMemory *memory = &self->memory[ix];
  GroupHolds *holds = &memory->in_groups;
  const KvReach reach = reach_in_batch(self, instance, ix);
  const int64_t sure = sure_in_batch(self, instance, ix);
  const int64_t known = reach.done - is_in_flight(instance);
  const bool ranks = instance->scheduler->rank != NULL;
  assert(ranks || is_in_flight(instance) == (instance->lag > 0));
  sim_slide_blocks(self, instance, ix, sure);
  sim_hold_reach(self, instance, ix, &reach);
  kv_groups_register(groups, holds, &memory->content, self->requests.slots[ix].prompt_tokens, known,
                     known);
  const int64_t quiet =
      kv_groups_quiet(groups, holds, reach.done, sure, known, ranks ? 0 : instance->lag);
  batch_visit_no_more(batch, self->requests.slots, ix, holds->visit);
  holds->visit += 1 + (quiet < BATCH_VISITS - 1 ? quiet : BATCH_VISITS - 2);
  batch_visit_at(batch, self->requests.slots, ix, holds->visit);
}

/* --- what the batch takes */

int64_t sim_needed_in_batch(const Simulation *self, const Instance *instance, RequestIx ix) {
  const KvReach reach = reach_in_batch(self, instance, ix);
  if (!instance->kv_groups)
    return blocks_of(instance, reach.done) - blocks_of(instance, reach.computed);
  return is_visited(self, instance, ix) ? sim_needed_blocks(self, instance, ix, &reach) : 0;
}

int64_t sim_batch_needs(const Simulation *self, const Instance *instance) {
  const Batch *batch = &instance->batch;
  if (!instance->kv_groups) return batch->n_seqs > 0 ? batch_next_growth(batch) : 0;
  int64_t n = 0;
  for (RequestIx ix = batch_first_visited(batch); ix != REQUEST_NONE;
       ix = self->requests.slots[ix].next_taker)
    n += sim_needed_in_batch(self, instance, ix);
  return n;
}

/* Where tokens are known an iteration late, a block is registered with the first token of the
 * next. */
BatchGrowth sim_begin_growth(Simulation *self, Instance *instance) {
  const Batch *batch = &instance->batch;
  if (batch->n_seqs == 0) return (BatchGrowth){REQUEST_NONE};
  if (instance->kv_groups) return (BatchGrowth){batch_first_visited(batch)};
  take(self, instance, batch_next_growth(batch));
  if (!instance->cache) return (BatchGrowth){REQUEST_NONE};
  const Request *slots = self->requests.slots;
  const RequestIx first = batch_takers(batch, 0)->first;
  for (RequestIx ix = first; ix != REQUEST_NONE; ix = slots[ix].next_taker)
    take_from_cache(self, instance, ix, 1);
  return (BatchGrowth){instance->lag > 0 ? first : batch_takers(batch, 1)->first};
}

void sim_grow_until(Simulation *self, Instance *instance, BatchGrowth *growth, uint32_t admission) {
  const Request *slots = self->requests.slots;
  while (growth->next != REQUEST_NONE && slots[growth->next].admission < admission) {
    const RequestIx ix = growth->next;
    growth->next = slots[ix].next_taker;
    const int64_t full = self->memory[ix].held.n - instance->lag;
    if (instance->kv_groups)
      visit(self, instance, ix);
    else
      sim_register_blocks(self, instance, ix, full * instance->pool->block_size);
  }
}

void sim_grow_one(Simulation *self, Instance *instance, RequestIx ix) {
  if (instance->kv_groups) {
    if (is_visited(self, instance, ix)) visit(self, instance, ix);
    return;
  }
  if (sim_needed_in_batch(self, instance, ix) > 0) {
    take(self, instance, 1);
    take_from_cache(self, instance, ix, 1);
  }
  const int64_t context = batch_context(&instance->batch, &self->requests.slots[ix]);
  sim_register_blocks(self, instance, ix, context - instance->lag);
}

void sim_promise_blocks(Simulation *self, Instance *instance, int64_t n) {
  instance->promised_blocks += n;
  assert(instance->promised_blocks >= 0);
  column_add(self->columns.kv_blocks, instance->ix, n);
}
