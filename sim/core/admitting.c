/* Decisions: who of those that wait is admitted (RULES.md, "Step by step"). */
#include "sim/core/connector.h"
#include "sim/core/encoder.h"
#include "sim/core/flights.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"

/* The first in line: KV that has come from elsewhere needs no more than a block. */
static RequestIx first_waiting(const Instance *instance) {
  return instance->decode_queue.count > 0 ? instance->decode_queue.first
                                          : instance->prefill_queue.first;
}

static bool may_admit(const Instance *instance) {
  return instance->decode_queue.count + instance->prefill_queue.count > 0 &&
         instance->running.count < instance->scheduler->limits.max_num_seqs;
}

/* Blocks that it may hold at most, as far as anybody knows; never more than there are. */
static int64_t most_blocks(const Instance *instance, const Request *request) {
  const int64_t output = stays_here(instance, request) ? request->max_tokens : 1;
  const int64_t tokens = request->prompt_tokens + output - 1;
  const int64_t blocks = instance->kv_groups ? kv_groups_most(instance->kv_groups, tokens)
                                             : blocks_of(instance, tokens);
  return lesser(blocks, instance->kv_blocks);
}

/* Whether all that run may end beside it without that any gives way; what their caches share counts
 * for each. */
static bool may_end(const Simulation *self, const Instance *instance, const Request *request) {
  const Request *slots = self->requests.slots;
  if (!instance->scheduler->limits.no_evict || instance->running.count == 0) return true;
  int64_t blocks = most_blocks(instance, request);
  for (RequestIx ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    blocks += most_blocks(instance, &slots[ix]);
  return blocks <= instance->kv_blocks;
}

/* Tokens that the first chunk of a prompt has, of `room` that are left for it; -1: it waits,
 * because those that run are not to wait for it, or because the step has no room for all that a
 * step may have of it. */
static int64_t first_chunk(const Scheduler *scheduler, const Decision *decision, int64_t left,
                           int64_t room) {
  const int64_t wanted = lesser(left, decision->threshold);
  const bool cut = wanted > room;
  if ((decision->holds && left > 1) || room <= 0) return -1;
  if (cut && scheduler->limits.whole_prompts && wanted <= scheduler->limits.max_tokens) return -1;
  return lesser(wanted, room);
}

/* Blocks that stay free when somebody joins those that run. */
static int64_t watermark(const Instance *instance) {
  const double share = instance->scheduler->limits.watermark;
  return instance->running.count > 0 ? (int64_t)(share * (double)(instance->kv_blocks + 1)) : 0;
}

/* The first tokens of one behind `start` cached ones, of which `tokens` would be computed, where
 * drafts are made. With a single one left it has drafts that are rejected, so that the step has as
 * many tokens of each; unless a prompt that ran is in the step, or nothing of either. 0: it is
 * passed over. -1: it waits. */
static int64_t first_drafted(const Instance *instance, const Decision *decision, int64_t start,
                             int64_t left, int64_t tokens) {
  const Scheduler *scheduler = instance->scheduler;
  const Speculation *speculation = &scheduler->limits.speculation;
  const int64_t drafts = speculation->num_speculative_tokens;
  const int64_t input = decision->input - speculation->draft_slots;
  const bool pads = left == 1 && !decision->chunked && (decision->step->n_items > 0 || start > 0) &&
                    start + 1 + drafts <= scheduler_reaches(scheduler);
  if (input <= 0) return -1;
  if (pads && 1 + drafts > lesser(decision->budget, input)) return -1;
  return pads ? 1 + drafts : speculation_chunk(speculation, left, lesser(tokens, input));
}

typedef enum Fit { FIT_NOW, FIT_LATER, FIT_PASSED_OVER, FIT_NO_ROOM, FIT_LOADS } Fit;

/* Tokens of one that waits which the cache has. */
static int64_t find_hits(const Simulation *self, const Instance *instance, RequestIx ix,
                         int64_t *ret_unheld) {
  const Request *request = &self->requests.slots[ix];
  *ret_unheld = 0;
  if (request->loading) return request->prefilled_tokens;
  if (instance->kv_groups && request->state == REQUEST_WAITS_PREFILL)
    return kv_groups_match(instance->kv_groups, &self->memory[ix].content,
                           request_prefill_tokens(request), request_prefill_tokens(request) - 1);
  const InstanceView view = sim_view(self, instance);
  return view_hit_blocks(&view, ix, ret_unheld) * instance->pool->block_size;
}

/* Whether there are blocks for one that waits up to `reach`, and for all of its prompt if that is
 * asked for. */
static bool has_blocks(const Simulation *self, const Instance *instance, RequestIx ix,
                       const KvReach *reach, int64_t context, int64_t unheld) {
  const Request *request = &self->requests.slots[ix];
  const int64_t free_blocks = instance->free_blocks - watermark(instance);
  KvReach whole = *reach;
  whole.slots = context;
  if (instance->kv_groups) {
    const GroupHolds *holds = &self->memory[ix].in_groups;
    return kv_groups_need(instance->kv_groups, holds, reach, false) <= free_blocks &&
           (context == 0 ||
            kv_groups_need(instance->kv_groups, holds, &whole, true) <= free_blocks);
  }
  const int64_t slots = context > reach->slots ? context : reach->slots;
  const int64_t hits = batch_whole_blocks(&instance->batch, reach->computed);
  const bool waits = request->state == REQUEST_WAITS_PREFILL && !request->loading;
  const int64_t blocks = blocks_of(instance, slots) - (waits ? hits : request->kv_blocks);
  return (blocks > 0 ? blocks : 0) + unheld <= free_blocks;
}

/* Tokens of the first chunk behind `start` cached ones; 0: it is passed over. -1: it waits. */
static int64_t first_tokens(const Simulation *self, const Instance *instance,
                            const Decision *decision, RequestIx ix, int64_t start) {
  const Request *request = &self->requests.slots[ix];
  const Scheduler *scheduler = instance->scheduler;
  const KvGroups *groups = instance->kv_groups;
  const int64_t left = request_prefill_tokens(request) - start;
  const int64_t room = decision->by_rank ? ranks_room(&self->ranks, request) : INT64_MAX;
  int64_t tokens = first_chunk(scheduler, decision, left,
                               lesser(lesser(room, decision->prompt_tokens), decision->budget));
  if (groups && tokens > 0)
    tokens = kv_groups_chunk(groups, request->prompt_tokens, request_tokens(request), start, tokens,
                             groups->junction);
  if (groups && tokens == 0) return -1;
  if (tokens > 0 && scheduler->limits.speculation.num_speculative_tokens > 0)
    tokens = first_drafted(instance, decision, start, left, tokens);
  return tokens;
}

/* Whether KV of it can be loaded behind `hits` of the cache, `*ret_tokens`, and there are blocks
 * for that beside those that prompts under way still need. */
static Fit fit_of_load(const Simulation *self, const Instance *instance, RequestIx ix, int64_t hits,
                       int64_t unheld, int64_t *ret_tokens) {
  const Request *request = &self->requests.slots[ix];
  const int64_t tokens = connector_more(self, instance, ix, hits);
  if (tokens <= 0) return tokens < 0 ? FIT_PASSED_OVER : FIT_NOW;
  *ret_tokens = tokens;
  const int64_t held = batch_whole_blocks(&instance->batch, hits);
  const int64_t loaded = blocks_of(instance, hits + tokens) - held + unheld;
  const int64_t whole = instance->scheduler->limits.reserve_full_isl
                            ? blocks_of(instance, request_prefill_tokens(request)) - held + unheld
                            : 0;
  return loaded + connector_reserve(self, instance) <= instance->free_blocks &&
                 whole <= instance->free_blocks
             ? FIT_LOADS
             : FIT_NO_ROOM;
}

/* What the first in line would join with. */
typedef struct Joining {
  int64_t hits, unheld; // tokens that the cache has; of their blocks, those that nobody holds
  int64_t tokens;       // next ones of it
} Joining;

/* Whether there are tokens for the first in line, or KV of it is to be loaded. */
static Fit look_at(const Simulation *self, const Instance *instance, const Decision *decision,
                   RequestIx ix, Joining *ret) {
  const Request *request = &self->requests.slots[ix];
  const bool waits = request->state == REQUEST_WAITS_PREFILL;
  ret->hits = find_hits(self, instance, ix, &ret->unheld);
  ret->tokens = 1;
  if (instance->scheduler->connector && waits && !request->loading) {
    const Fit fit = fit_of_load(self, instance, ix, ret->hits, ret->unheld, &ret->tokens);
    if (fit != FIT_NOW) return fit;
  }
  if (waits) ret->tokens = first_tokens(self, instance, decision, ix, ret->hits);
  return ret->tokens > 0 ? FIT_NOW : ret->tokens < 0 ? FIT_LATER : FIT_PASSED_OVER;
}

/* Whether it may join with them. */
static Fit fit_of(const Simulation *self, const Instance *instance, RequestIx ix,
                  const Joining *joining) {
  const Request *request = &self->requests.slots[ix];
  const Scheduler *scheduler = instance->scheduler;
  const bool waits = request->state == REQUEST_WAITS_PREFILL;
  if (!may_end(self, instance, request)) return FIT_NO_ROOM;
  if (waits && instance->kv_groups &&
      kv_groups_match_is_fresh(instance->kv_groups, &self->memory[ix].content))
    return FIT_LATER;
  const int64_t start = waits ? joining->hits : request_kv_tokens(request);
  const int64_t end = start + joining->tokens;
  const KvReach reach = {start, end, scheduler_slots(scheduler, end)};
  const int64_t whole = waits && scheduler->limits.reserve_full_isl
                            ? lesser(request_prefill_tokens(request), scheduler->max_model_len)
                            : 0;
  return has_blocks(self, instance, ix, &reach, whole, joining->unheld) ? FIT_NOW : FIT_NO_ROOM;
}

/* The same where its encoder inputs count. What it refers to it leaves if it does not join; a later
 * decision may find other tokens of it in the cache, and look at other inputs. */
static Fit try_to_fit(Simulation *self, Instance *instance, Decision *decision, RequestIx ix,
                      Joining *ret) {
  const Fit fit = look_at(self, instance, decision, ix, ret);
  const Request *request = &self->requests.slots[ix];
  if (fit != FIT_NOW) return fit;
  if (!request->has_inputs || request->state != REQUEST_WAITS_PREFILL)
    return fit_of(self, instance, ix, ret);
  ret->tokens = encoding_fit(self, instance, decision, ix, ret->hits, ret->tokens);
  if (ret->tokens == 0) return FIT_PASSED_OVER;
  const Fit joins = fit_of(self, instance, ix, ret);
  if (joins != FIT_NOW) encoding_leave(self, instance, ix, INT64_MAX);
  decision->wants_encoder |= joins != FIT_NOW;
  return joins;
}

/* Admits one if there are blocks for it. */
static Fit admit(Simulation *self, Instance *instance, Decision *decision, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Joining joining;
  const Fit fit = try_to_fit(self, instance, decision, ix, &joining);
  const int64_t hits = joining.hits, tokens = joining.tokens;
  if (fit == FIT_NO_ROOM) life_found_no_room(self, instance, ix);
  if (fit == FIT_LOADS) connector_load(self, instance, ix, hits, tokens);
  if (fit != FIT_NOW) return fit;
  if (instance->scheduler->connector && !request->loading) self->memory[ix].n_stored = 0;
  const bool first = request->prefill_began_at < 0;
  life_scheduled(self, instance, ix, hits);
  request->admission = ++instance->n_admissions;
  decision->prefills |= request->state == REQUEST_COMPUTES &&
                        request_prefill_tokens(request) - request->prefilled_tokens > 1;
  decision_schedule(self, instance, decision, ix, tokens);
  connector_saves(self, instance);
  ScheduledItem *item = &decision->step->items[decision->step->n_items - 1];
  if (first) item->hit_tokens = (int32_t)hits;
  request->scheduled = SCHEDULED_ENDS; // until it is known how it goes on
  if (decision->by_rank && item->kind == STEP_CHUNK) ranks_take(&self->ranks, request, tokens);
  if (!item->last) scheduler_schedule_alone(self, instance, ix);
  return FIT_NOW;
}

/* Admits in line while it can; those whose rank has not enough tokens left are passed over. How
 * many others are, because their adapter has no room or their drafter not enough of the prompt. */
static int64_t admit_waiting(Simulation *self, Instance *instance, Decision *decision) {
  int64_t n_passed = 0;
  tell_decision_begins(self, instance);
  RequestIx ix = first_waiting(instance), next;
  for (; decision->budget > 0 && may_admit(instance) && ix != REQUEST_NONE; ix = next) {
    const Request *request = &self->requests.slots[ix];
    const bool decodes = request->state == REQUEST_WAITS_DECODE;
    next = request->next;
    if (next == REQUEST_NONE && decodes) next = instance->prefill_queue.first;
    if (instance->scheduler->pause == PAUSE_NEW && !decodes && !request->loading) break;
    if ((instance->scheduler->holds_prompts || decision->prompts <= 0) && !decodes) break;
    const bool in_flight = !decodes && flights_have(instance->scheduler, request);
    if (request->loading == LOADING_DONE) connector_use(self, instance, ix);
    const bool passed = in_flight || request->loading == LOADING_RUNS ||
                        ask_passes_over(self, instance, decision->step, request);
    n_passed += passed;
    if (passed) continue;
    const Fit fit = admit(self, instance, decision, ix);
    const bool goes_on = fit == FIT_PASSED_OVER || fit == FIT_LOADS;
    n_passed += goes_on;
    if (goes_on || (fit == FIT_LATER && decision->by_rank)) continue;
    if (fit != FIT_NOW) break;
    tell_admitted_to_step(self, instance, &self->requests.slots[ix]);
    instance->scheduler->n_waited = 0;
    if (decision->by_rank) instance->scheduler->let_in_at = ranks_clock(instance);
  }
  return n_passed;
}

/* Tokens of the prompts that tokens and sequences are left for. */
static int64_t joining_tokens(const Simulation *self, const Instance *instance,
                              const Decision *decision) {
  const Request *slots = self->requests.slots;
  int64_t seqs = instance->scheduler->limits.max_num_seqs - instance->running.count, tokens = 0;
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE && seqs > 0;
       ix = slots[ix].next, seqs--) {
    const int64_t more = request_prefill_tokens(&slots[ix]);
    if (tokens + more > decision->budget) return decision->budget;
    tokens += more;
  }
  return tokens;
}

/* Whether prompts that may join wait for more to join with them; never where nothing else runs. */
static bool batch_waits(const Simulation *self, const Instance *instance,
                        const Decision *decision) {
  const Scheduler *scheduler = instance->scheduler;
  const SchedulerLimits *limits = &scheduler->limits;
  const int64_t scheduled = decision->tokens - decision->budget;
  Joining joining;
  const RequestIx first = instance->prefill_queue.first;
  return scheduler->n_waited < limits->batch_wait_iters && scheduled > 0 &&
         instance->decode_queue.count == 0 && may_admit(instance) &&
         scheduled + joining_tokens(self, instance, decision) < limits->batch_wait_tokens &&
         look_at(self, instance, decision, first, &joining) == FIT_NOW &&
         fit_of(self, instance, first, &joining) == FIT_NOW;
}

void decision_admit(Simulation *self, Instance *instance, Decision *decision) {
  Scheduler *scheduler = instance->scheduler;
  const bool admits = decision->budget > 0;
  int64_t n_passed = 0;
  connector_saves(self, instance);
  const bool for_batch = admits && batch_waits(self, instance, decision);
  if (for_batch) scheduler->n_waited++;
  scheduler->waits =
      for_batch || (admits && decision->by_rank && ranks_wait(&self->ranks, instance));
  if (admits && !scheduler->waits) n_passed = admit_waiting(self, instance, decision);
  const int64_t n_waiting = instance->decode_queue.count + instance->prefill_queue.count;
  scheduler->waits |= decision->holds && n_waiting > 0;
  if (!decision->holds) scheduler->crowded = n_waiting > n_passed;
}

bool scheduler_wake(const InstanceView *view, Wake why, RequestIx request) {
  const Instance *instance = view->instance;
  if (instance->activity == ACTIVITY_IDLE) return true;
  if (instance->scheduler->limits.prefill_interval > 1) return true; // it is to know who waits
  if (instance->running.count >= instance->scheduler->limits.max_num_seqs) return false;
  const bool decode_waits = instance->decode_queue.count > 0;
  const bool sorts = proposal_sorts(instance->scheduler);     // it may be the first when they are
  if (instance->adapters && why != WAKE_RELEASE) return true; // those before it may be passed over
  if (why == WAKE_DECODE) return instance->decode_queue.first == request;
  if (why == WAKE_PREFILL)
    return !decode_waits && (sorts || instance->prefill_queue.first == request);
  return why == WAKE_RELEASE && (decode_waits || instance->prefill_queue.count > 0);
}

/* Where layers are in groups: what slides out of windows may make room for those who wait, and
 * samples are taken between events, when what groups hold is as of the last one. */
static int64_t watch_groups(const Simulation *self, const Instance *instance) {
  const bool sampled = self->config->observer && self->config->observer->on_sample;
  const int64_t n_waiting = instance->decode_queue.count + instance->prefill_queue.count;
  const bool waits = n_waiting + instance->inbound.count > 0;
  return waits || sampled || instance->moves_kv || instance->group ? 1 : INT64_MAX;
}

int64_t scheduler_watch(const Simulation *self, const Instance *instance) {
  if (instance->kv_groups) return watch_groups(self, instance);
  const bool sorted = proposal_sorts(instance->scheduler) && instance->prefill_queue.count > 1;
  if (sorted && may_admit(instance)) return 1; // another may be the first
  if (!instance->cache || !may_admit(instance)) return INT64_MAX;
  if (instance->adapters) return 1; // the first in line may be passed over
  const RequestIx waiting = first_waiting(instance);
  const Request *slots = self->requests.slots;
  if (slots[waiting].state != REQUEST_WAITS_PREFILL) return INT64_MAX;
  int64_t unheld, least = INT64_MAX;
  const InstanceView view = sim_view(self, instance);
  const int64_t hits = view_hit_blocks(&view, waiting, &unheld);
  const int64_t end = (hits + 1) * instance->pool->block_size;
  if (end >= request_prefill_tokens(&slots[waiting])) return INT64_MAX;
  const Content *content = &self->memory[waiting].content;
  if (end + instance->cache->lookahead > content->own_from && self->config->hedge.after == 0)
    return INT64_MAX; // nobody can make it
  const uint64_t key = content_key(content, end);
  for (size_t i = 0; i < instance->batch.n_seqs; i++) {
    const RequestIx ix = instance->batch.entries[i].request;
    if (self->memory[ix].held.n_registered > hits ||
        content_key(&self->memory[ix].content, end) != key)
      continue;
    least = lesser(least, end + instance->lag - (batch_context(&instance->batch, &slots[ix]) - 1));
  }
  return least > 1 ? least : 1;
}
