/* See lifecycle.h. */
#include "sim/core/lifecycle.h"
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/swapping.h"
#include "sim/core/transition.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

RequestQueue *life_queue(Instance *instance, RequestState state) {
  return queue_of(instance, &request_states[state]);
}

/* --- what transitions have in common */

void life_observe(Simulation *self, const Instance *instance, RequestIx ix, Observation what) {
  sim_tell_router(self, ix, what, instance->ix);
  if (!instance->batcher->finish || what == OBSERVED_TRANSFERRED) return;
  const InstanceView view = sim_view(self, instance);
  instance->batcher->finish(instance->batcher_options, instance->batcher_state, &view, ix,
                            what == OBSERVED_PREFILLED ? PHASE_PREFILL : PHASE_DECODE);
}

static void take_store(Group *group, Request *request, int64_t blocks) {
  request->store_blocks += (int32_t)blocks;
  group->free_blocks -= blocks;
  const int64_t held = group->spec->store_blocks - group->free_blocks;
  assert(group->free_blocks >= 0 && held >= 0);
  if (held > group->totals.most_stored_blocks) group->totals.most_stored_blocks = held;
}

void life_store_booked(Group *group, Request *request, int64_t tokens) {
  assert(request->store_blocks == 0);
  take_store(group, request, group_blocks(group, tokens));
}

void life_leave_store(Simulation *self, const Instance *instance, Request *request) {
  if (!instance->group || request->store_blocks == 0) return;
  take_store(instance->group, request, -request->store_blocks);
  sim_mark_idle(self, instance->group);
}

/* --- arriving and leaving the cluster */

void life_count_decode(Simulation *self, const Request *request, Instance *instance, int n) {
  instance->n_decodes += n;
  column_add(self->columns.pending_tokens, instance->ix, n);
  if (view_heavy(&sim_deployment(self, request)->view, request))
    column_add(self->columns.n_heavy, instance->ix, n);
  if (instance->availability == INSTANCE_DRAINS) sim_mark(self, instance, MARK_DRAIN);
}

/* Before whom it waits on an instance: after its likes. Most are last, or first of all. */
static RequestIx place_of(const Simulation *self, const Instance *instance,
                          const Request *request) {
  const Batcher *batcher = instance->batcher;
  const Request *slots = self->requests.slots;
  if (!batcher->goes_before) return REQUEST_NONE;
  RequestIx low = instance->prefill_queue.first, high = instance->prefill_queue.last;
  RequestIx next = REQUEST_NONE;
  while (low != REQUEST_NONE && slots[low].loading) // ahead of all
    low = slots[low].next;
  if (low == REQUEST_NONE) return REQUEST_NONE;
  for (; high != REQUEST_NONE; next = high, high = slots[high].previous, low = slots[low].next) {
    if (batcher->goes_before(instance->batcher_options, request, &slots[low])) return low;
    if (!batcher->goes_before(instance->batcher_options, request, &slots[high])) return next;
  }
  return next;
}

void life_placed(Simulation *self, RequestIx ix, InstanceIx prefill, InstanceIx decode) {
  Request *request = &self->requests.slots[ix];
  Instance *instance = &self->instances[prefill];
  request->prefill_instance = prefill;
  request->known = false;
  column_add(self->columns.n_assigned, prefill, 1);
  sim_promise_blocks(self, instance, instance_prompt_blocks(instance, request));
  change_before(self, instance, ix, REQUEST_WAITS_PREFILL, place_of(self, instance, request));
  if (decode != INSTANCE_NONE) life_dispatched(self, request, decode);
}

void life_dispatched(Simulation *self, Request *request, InstanceIx decode) {
  Instance *instance = &self->instances[decode];
  request->decode_instance = decode;
  life_count_decode(self, request, instance, 1);
  if (decode == request->prefill_instance) return;
  column_add(self->columns.n_assigned, decode, 1);
  sim_promise_blocks(self, instance, instance_prompt_blocks(instance, request));
}

void life_redirected(Simulation *self, Request *request, InstanceIx decode) {
  Instance *before = &self->instances[request->decode_instance];
  assert(before->ix != request->prefill_instance && decode != request->prefill_instance);
  life_count_decode(self, request, before, -1);
  column_add(self->columns.n_assigned, before->ix, -1);
  sim_promise_blocks(self, before, -instance_prompt_blocks(before, request));
  life_dispatched(self, request, decode);
}

/* Records are compared byte by byte, what lies between fields too. */
static void make_record(const Simulation *self, RequestIx ix, Rejection rejected,
                        RequestRecord *record) {
  const Request *request = &self->requests.slots[ix];
  memset(record, 0, sizeof *record);
#define REQUEST_FIELD(type, field, column, kind, meaning) record->field = request->field;
#include "sim/books/metrics.def"
  if (request->resumed_tokens > 0 || request->remakes_first) {
    record->prompt_tokens -= request->resumed_tokens;
    record->output_tokens = (int32_t)request_delivered(request, request->output_tokens);
    if (record->generated_tokens > 0 || request->resumed_tokens > 0)
      record->generated_tokens = (int32_t)request_delivered(request, request->generated_tokens);
    record->prefill_began_at = self->delivered[ix].prefill_began_at;
    record->first_token_at = self->delivered[ix].first_token_at;
  }
  record->rejected = rejected;
  record->cancelled = (Cancellation)request->gives_up;
  if (rejected || record->cancelled) record->last_token_at = -1;
}

static void tell_source(Simulation *self, const Request *request, bool served, bool good) {
  TraceSource *source = self->config->trace;
  if (!source->ended) return;
  const TraceEnd end = {.request = request->id,
                        .at = self->now,
                        .served = served,
                        .good = good,
                        .ticket = request->ticket};
  source->ended(source, &end);
  self->source_told = true;
}

void life_release(Simulation *self, RequestIx ix) {
  request_table_release(&self->requests, ix);
  tell_slot_freed(self, ix);
}

void life_retire(Simulation *self, RequestIx ix, Rejection rejected) {
  RequestRecord record;
  if (self->requests.slots[ix].cut) life_made_whole(self, ix);
  make_record(self, ix, rejected, &record);
  if (self->keeps_parts) {
    parts_enter(self, ix, REQUEST_NOWHERE);
    record.parts = &self->parts[ix].booked;
  }
  const bool served = !rejected && !record.cancelled;
  const Request *request = &self->requests.slots[ix];
  Metrics *metrics = sim_books(self, request);
  const PerfModel *reference = sim_model(self->config, request->model)->slo_reference;
  const GoodputLimits *limits = sim_request_limits(self, request);
  const bool good = served && metrics_complete(metrics, &record, limits, reference);
  if (metrics == &self->metrics) sim_book_component_end(self, &record, good);
  if (served && request->ends_session)
    metrics_complete_session(sim_session_books(self, request),
                             self->now - request->session_began_at, good && request->session_good);
  if (self->batches && served) batches_serve(self->batches, &record);
  if (self->batches && metrics == &self->metrics) batches_end(self->batches, metrics);
  tell_ended(self, ix, &record);
  tell_source(self, request, served, good);
  life_release(self, ix);
  const SimConfig *config = self->config;
  if (self->failed || self->stopped || !config->on_request || metrics != &self->metrics) return;
  const int status =
      config->on_request(config->on_request_context, &record, &self->metrics, self->diag);
  self->failed = status < 0;
  self->stopped = status > 0;
}

void life_finished(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Instance *decode = &self->instances[request->decode_instance];
  request->last_token_at = self->now;
  change(self, instance, ix, REQUEST_NOWHERE);
  sim_release_blocks(self, instance, ix);
  life_leave_store(self, instance, request);
  life_count_decode(self, request, decode, -1);
  column_add(self->columns.n_assigned, decode->ix, -1);
  if (instance != decode) // it never had to move
    sim_promise_blocks(self, decode, -instance_prompt_blocks(decode, request));
  life_observe(self, instance, ix, OBSERVED_FINISHED);
  sim_log(self, OUTCOME_LAST_TOKEN, request, decode->ix, 0, 0);
  life_retire(self, ix, REJECTED_NOT);
}

void life_rejected(Simulation *self, RequestIx ix, Rejection rejected) {
  const Request *request = &self->requests.slots[ix];
  sim_log(self, OUTCOME_REJECTION, request, INSTANCE_NONE, request->prompt_tokens,
          request->output_tokens);
  Metrics *metrics = sim_books(self, request);
  metrics->rejected++;
  metrics->rejected_for[rejected]++;
  life_retire(self, ix, rejected);
}

/* --- prefill */

/* The first prefill of a request begins: the blocks promised for it are now taken as it goes. */
static void begin_prefill(Simulation *self, Instance *instance, Request *request) {
  request->prefill_began_at = self->now;
  sim_promise_blocks(self, instance, -instance_prompt_blocks(instance, request));
  if (instance->group && life_store_blocks(instance->group, request) > 0)
    life_store_booked(instance->group, request, request->prompt_tokens);
  sim_log(self, OUTCOME_PREFILL_BEGIN, request, instance->ix, request_prefill_tokens(request), 0);
}

void life_chunk_decided(Simulation *self, Instance *instance, RequestIx ix, int32_t tokens) {
  self->requests.slots[ix].prefilled_tokens += tokens;
  column_add(self->columns.pending_tokens, instance->ix, -tokens);
}

void life_take_hits(Simulation *self, Instance *instance, RequestIx ix, int64_t hits) {
  Request *request = &self->requests.slots[ix];
  const int32_t tokens = (int32_t)hits;
  sim_hit_blocks(self, instance, ix, hits);
  life_chunk_decided(self, instance, ix, tokens);
  if (request->prefill_began_at >= 0) {
    instance->totals.refound_tokens += tokens;
    return;
  }
  instance->totals.queried_tokens += request_prefill_tokens(request);
  instance->totals.cached_tokens += tokens;
  request->cached_tokens = tokens;
}

/* As a chunk would be that is done: its place in the queue is kept. */
void life_hits_held(Simulation *self, Instance *instance, RequestIx ix) {
  const InstanceView view = sim_view(self, instance);
  int64_t unheld;
  const int64_t hits = view_hit_blocks(&view, ix, &unheld) * instance->pool->block_size;
  if (self->requests.slots[ix].prefilled_tokens > 0) return;
  life_take_hits(self, instance, ix, hits);
  instance->n_started += hits > 0;
}

void life_chunk_began(Simulation *self, Instance *instance, RequestIx ix, int32_t tokens) {
  Request *request = &self->requests.slots[ix];
  const int32_t done = request->prefilled_tokens + tokens;
  assert(request->state == REQUEST_WAITS_PREFILL && tokens > 0 &&
         done <= request_prefill_tokens(request));
  if (request->prefill_began_at < 0) begin_prefill(self, instance, request);
  sim_hold_blocks(self, instance, ix,
                  instance_prefill_blocks(instance, request, done) - request->kv_blocks);
  sim_register_blocks(self, instance, ix, done);
  request->chunk_tokens = tokens;
  const bool last = done == request_prefill_tokens(request);
  instance->n_started -= last && request->prefilled_tokens > 0;
  change(self, instance, ix, last ? REQUEST_ENDS_PREFILL : REQUEST_PREFILLS);
}

bool life_chunk_ended(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (self->keeps_parts)
    parts_chunk_ended(self, instance, ix, request->chunk_tokens, request->prefilled_tokens,
                      request->state == REQUEST_ENDS_PREFILL);
  request->prefilled_tokens += request->chunk_tokens;
  column_add(self->columns.pending_tokens, instance->ix, -request->chunk_tokens);
  request->computing_ticks += self->now - instance->run.began_at;
  if (request->state == REQUEST_ENDS_PREFILL) return true;
  instance->n_started += request->prefilled_tokens == request->chunk_tokens;
  change(self, instance, ix, REQUEST_WAITS_PREFILL);
  return false;
}

void life_chunk_broken_off(Simulation *self, Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  instance->n_started += request->state == REQUEST_ENDS_PREFILL && request->prefilled_tokens > 0;
  change_before(self, instance, ix, REQUEST_WAITS_PREFILL, instance->prefill_queue.first);
}

static void book_gap(Simulation *self, const Request *request) {
  Metrics *metrics = sim_books(self, request);
  histogram_add(&metrics->tbt, self->now - request->last_token_at, 1);
  if (request_has_one_token(request))
    histogram_add(&metrics->second_token, self->now - request->last_token_at, 1);
}

void life_book_token(Simulation *self, const Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool first = request->first_token_at < 0, resumes = request_resumes(request);
  if (first) {
    request->first_token_at = self->now;
    sim_log(self, OUTCOME_FIRST_TOKEN, request, instance->ix, 0, 0);
    tell_first_token(self, instance, ix);
  }
  if (request_awaits_first(request) && !first) {
    self->delivered[ix].first_token_at = self->now;
    if (self->keeps_parts) parts_first_delivered(self, ix);
  } else if (!first || resumes) {
    book_gap(self, request);
  }
  request->last_token_at = self->now;
}

/* The engine that decodes it computes the last token of its prompt again, and makes the first of
 * its output, which is the one that its client gets. Not of one whose attempts leave something to
 * others. */
static void expect_first(Simulation *self, const Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const SimConfig *config = self->config;
  if (!request_moves_from(request, instance->ix) || request->generated_tokens > 0) return;
  if (config->hedge.after > 0 || config->checkpoint.bandwidth > 0 || config->retry.resume) return;
  const Instance *to = &self->instances[request->decode_instance];
  const int64_t tokens = (int64_t)request->prompt_tokens + request->output_tokens + 1;
  if (!to->scheduler || !to->scheduler->limits.makes_first || tokens > instance_room(to) ||
      tokens > to->scheduler->max_model_len)
    return;
  request->remakes_first = true;
  request->output_tokens++;
  request->max_tokens += request->max_tokens < INT32_MAX;
  sim_books(self, request)->remade_tokens++;
  ARENA_RESERVE(self->arena, self->delivered, self->delivered_capacity, self->requests.n_slots);
  self->delivered[ix] =
      (Delivered){.prefill_began_at = request->prefill_began_at, .first_token_at = -1};
}

void life_expect_no_first(Request *request) {
  if (!request->remakes_first) return;
  request->remakes_first = false;
  request->output_tokens--;
  request->max_tokens -= request->max_tokens < INT32_MAX;
  if (request->generated_tokens > 0) request->generated_tokens--;
}

void life_prefilled(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  expect_first(self, instance, ix);
  life_book_token(self, instance, ix);
  change(self, instance, ix, REQUEST_PREFILLED);
  request->generated_tokens++;
  if (request->decode_instance != instance->ix)
    column_add(self->columns.n_assigned, instance->ix, -1);
  life_observe(self, instance, ix, OBSERVED_PREFILLED);
}

/* No recompute, each of which has a token made by a prefill of its own. */
void life_chunks_dropped(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  assert(request->state == REQUEST_WAITS_PREFILL && request->prefilled_tokens > 0 &&
         request->transfer == TRANSFER_NONE);
  sim_release_blocks(self, instance, ix);
  request->preemptions++;
  instance->n_started--;
  sim_books(self, request)->preemptions++;
  sim_books(self, request)->restarted_prefills++;
  sim_books(self, request)->dropped_tokens += request->prefilled_tokens;
  column_add(self->columns.pending_tokens, instance->ix, request->prefilled_tokens);
  sim_log(self, OUTCOME_PREEMPTION, request, instance->ix, request->prefilled_tokens, 0);
  request->prefilled_tokens = 0;
  if (self->keeps_parts) parts_lost(self, ix);
}

/* --- from instance to instance, and to a group's store */

/* Blocks of its prompt that the cache there has; how many of them nobody holds. */
static int64_t room_hits(Simulation *self, Instance *to, RequestIx ix, int64_t *ret_unheld) {
  *ret_unheld = 0;
  if (!to->cache) return 0;
  sim_catch_up(self, to);
  const int64_t most = batch_whole_blocks(&to->batch, self->requests.slots[ix].prompt_tokens);
  return prefix_cache_match(to->cache, &self->memory[ix].content, to->pool->block_size, most,
                            ret_unheld);
}

/* Where layers are in groups: the tokens of its prompt that are there, and what is needed of it. */
static int64_t match_room(Simulation *self, Instance *to, RequestIx ix, KvReach *ret_reach) {
  const int64_t tokens = self->requests.slots[ix].prompt_tokens;
  sim_catch_up(self, to);
  *ret_reach = (KvReach){tokens, tokens, tokens};
  return kv_groups_match(to->kv_groups, &self->memory[ix].content, tokens, tokens);
}

int64_t life_room_needed(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  KvReach reach;
  int64_t unheld;
  if (to->kv_groups) {
    match_room(self, to, ix, &reach);
    return kv_groups_need(to->kv_groups, &self->memory[ix].arriving_in_groups, &reach, false);
  }
  const int64_t hits = room_hits(self, to, ix, &unheld);
  return instance_prompt_blocks(to, request) - hits + unheld;
}

/* Takes room in groups; the tokens that are there, and the free blocks that it took. */
static int64_t take_room_in_groups(Simulation *self, Instance *to, RequestIx ix,
                                   int64_t *ret_taken) {
  KvReach reach;
  const int64_t tokens = match_room(self, to, ix, &reach);
  GroupHolds *holds = &self->memory[ix].arriving_in_groups;
  const PrefixCache *pool = to->kv_groups->pool, before = *pool;
  kv_groups_hit(to->kv_groups, holds, reach.computed);
  kv_groups_take(to->kv_groups, holds, &reach);
  to->totals.evictions += pool->n_evictions - before.n_evictions;
  *ret_taken = before.n_free - pool->n_free;
  return tokens;
}

int64_t life_room_taken(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  const int64_t blocks = instance_prompt_blocks(to, request);
  int64_t unheld, taken = blocks, tokens = 0;
  if (to->kv_groups) {
    tokens = take_room_in_groups(self, to, ix, &taken);
  } else if (to->cache) {
    const int64_t hits = room_hits(self, to, ix, &unheld);
    RequestMemory *memory = &self->memory[ix];
    prefix_cache_hit(to->cache, &memory->arriving, &memory->content, to->pool->block_size, hits);
    sim_take_cached(to, &memory->arriving, blocks - hits);
    taken += unheld - hits;
    tokens = hits * to->pool->block_size;
  } else if (to->radix) {
    sim_catch_up(self, to);
    sim_take_cached(to, NULL, blocks);
  }
  sim_take_blocks(self, to, taken);
  sim_promise_blocks(self, to, -blocks);
  return tokens;
}

void life_room_given(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  const int64_t blocks = instance_prompt_blocks(to, request);
  const PrefixCache *pool = to->kv_groups ? to->kv_groups->pool : to->cache;
  int64_t less = blocks;
  sim_catch_up_cache(self, to);
  const int64_t free_before = pool ? pool->n_free : 0;
  if (to->kv_groups)
    kv_groups_release(to->kv_groups, &self->memory[ix].arriving_in_groups);
  else if (to->cache)
    prefix_cache_release(to->cache, &self->memory[ix].arriving);
  else if (to->radix)
    to->radix->n_free += less;
  if (pool) less = pool->n_free - free_before;
  sim_take_blocks(self, to, -less);
  sim_promise_blocks(self, to, blocks);
}

void life_left(Simulation *self, Instance *from, RequestIx ix) {
  change(self, from, ix, REQUEST_MOVES);
  if (self->keeps_parts && from->group) parts_wait(self, ix, CAUSE_store);
}

void life_released(Simulation *self, Instance *from, RequestIx ix) {
  sim_catch_up_cache(self, from);
  sim_release_blocks(self, from, ix);
  change(self, from, ix, REQUEST_NOWHERE);
  if (!from->group) life_observe(self, from, ix, OBSERVED_TRANSFERRED);
}

void life_arrived(Simulation *self, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  if (to->group)
    take_store(to->group, request, -request->store_blocks);
  else
    request->kv_blocks = (int32_t)instance_prompt_blocks(to, request);
  sim_catch_up_cache(self, to);
  if (to->kv_groups) {
    RequestMemory *memory = &self->memory[ix];
    const GroupHolds none = memory->in_groups;
    memory->in_groups = memory->arriving_in_groups;
    memory->arriving_in_groups = none;
    request->kv_blocks = memory->in_groups.n_blocks;
  } else if (to->cache) {
    RequestMemory *memory = &self->memory[ix];
    const HeldBlocks none = memory->held;
    memory->held = memory->arriving;
    memory->arriving = none;
  }
  sim_register_blocks(self, to, ix, request->prompt_tokens);
  change(self, to, ix, REQUEST_WAITS_DECODE);
}

void life_restores(Simulation *self, RequestIx ix, InstanceIx to) {
  Request *request = &self->requests.slots[ix];
  Instance *instance = &self->instances[to];
  request->prefill_instance = to;
  column_add(self->columns.n_assigned, to, 1);
  sim_promise_blocks(self, instance, instance_prompt_blocks(instance, request));
  change(self, instance, ix, REQUEST_RESTORES);
  life_dispatched(self, request, to);
}

void life_restored(Simulation *self, RequestIx ix, Tick began_at) {
  Request *request = &self->requests.slots[ix];
  Instance *instance = &self->instances[request->decode_instance];
  request->prefill_began_at = began_at;
  life_book_token(self, instance, ix);
  request->generated_tokens = 1;
  sim_books(self, request)->restored_tokens += request->prompt_tokens;
  sim_tell_router(self, ix, OBSERVED_PREFILLED, instance->ix);
  life_arrived(self, ix);
}

void life_drop_before(Simulation *self, Instance *instance, RequestIx ix, RequestIx next) {
  Request *request = &self->requests.slots[ix];
  assert(request->kv_blocks == 0);
  request->prefilled_tokens = 0;
  request->known = false;
  request->preemptions++;
  request->recomputes++;
  change_before(self, instance, ix, REQUEST_WAITS_PREFILL, next);
  sim_books(self, request)->preemptions++;
  sim_books(self, request)->recomputes++;
  sim_log(self, OUTCOME_RECOMPUTE, request, instance->ix, request->generated_tokens, 0);
}

/* The same, ahead of the others. */
static void drop(Simulation *self, Instance *instance, RequestIx ix) {
  life_drop_before(self, instance, ix, instance->prefill_queue.first);
}

void life_returned(Simulation *self, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  Instance *to = &self->instances[request->decode_instance];
  sim_promise_blocks(self, to, -instance_prompt_blocks(to, request));
  drop(self, to, ix);
}

void life_stored(Simulation *self, Instance *from, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  life_released(self, from, ix);
  if (request->decode_instance != INSTANCE_NONE) {
    life_count_decode(self, request, from, -1);
    column_add(self->columns.n_assigned, from->ix, -1);
    request->decode_instance = INSTANCE_NONE;
  }
  change(self, from, ix, REQUEST_STORED);
}

void life_fetched(Simulation *self, Instance *to, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  life_dispatched(self, request, to->ix);
  sim_promise_blocks(self, to, -instance_prompt_blocks(to, request));
  sim_hold_blocks(self, to, ix, instance_held_blocks(to, request_tokens(request)));
  change(self, to, ix, REQUEST_FETCHED);
}

/* --- decode */

void life_waits_decode(Simulation *self, Instance *instance, RequestIx ix) {
  change(self, instance, ix, REQUEST_WAITS_DECODE);
}

void life_admitted(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (request->state == REQUEST_SWAPPED)
    sim_hold_blocks(self, instance, ix, sim_swap(self, instance, request, LINK_TO_GPU));
  if (instance->batcher->reserves_output) {
    const InstanceView view = sim_view(self, instance);
    sim_hold_blocks(self, instance, ix, view_admit_blocks(&view, ix, true));
  }
  change(self, instance, ix, REQUEST_RUNS);
}

void life_blocked(Simulation *self, Instance *instance, RequestIx ix) {
  assert(self->requests.slots[ix].state == REQUEST_RUNS);
  change(self, instance, ix, REQUEST_BLOCKED);
  sim_books(self, &self->requests.slots[ix])->preemptions++;
  sim_log(self, OUTCOME_PREEMPTION, &self->requests.slots[ix], instance->ix, 0, 0);
}

/* The first of a queue in order of arrival that arrived after `request`. */
static RequestIx next_to_arrive(const RequestQueue *queue, const Request *slots,
                                const Request *request) {
  RequestIx ix = queue->first;
  while (ix != REQUEST_NONE && slots[ix].id < request->id)
    ix = slots[ix].next;
  return ix;
}

static void swap_out(Simulation *self, Instance *instance, RequestIx ix) {
  Request *slots = self->requests.slots, *request = &slots[ix];
  request->preemptions++;
  request->swaps++;
  sim_books(self, request)->preemptions++;
  change_before(self, instance, ix, REQUEST_SWAPPED,
                next_to_arrive(&instance->swapped, slots, request));
  sim_swap(self, instance, request, LINK_TO_CPU);
}

void life_gave_way(Simulation *self, Instance *instance, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (request->state == REQUEST_WAITS_PREFILL) {
    life_chunks_dropped(self, instance, ix);
    return;
  }
  assert(instance->activity == ACTIVITY_IDLE);
  change(self, instance, ix, REQUEST_NOWHERE);
  sim_release_blocks(self, instance, ix);
  if (sim_can_swap_out(instance, request))
    swap_out(self, instance, ix);
  else
    drop(self, instance, ix);
}
