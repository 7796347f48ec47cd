/* Decisions: vLLM 0.33's scheduler, rule by rule (RULES.md, "Step by step"): who of those that run
 * gets tokens. Who of those that wait is admitted is in admitting.c. */
#include "sim/books/parts.h"
#include "sim/core/connector.h"
#include "sim/core/counting.h"
#include "sim/core/decision.h"
#include "sim/core/encoder.h"
#include "sim/core/flights.h"
#include "sim/core/lifecycle.h"
#include "sim/core/lockstep.h"
#include "sim/core/memory.h"
#include "sim/core/step_listing.h"
#include <assert.h>

/* --- who is scheduled how */

/* Tokens that steps are decided for, of one decoded here. Where they are decided ahead, it is in
 * one more than those that make its output if that ends with an EOS token, or stays in the batch
 * until that is known. */
static int32_t decided_tokens(const Instance *instance, const Request *request) {
  const bool unforeseen = instance->lag > 0 && request_stops(request);
  return request->output_tokens + (unforeseen || instance->batch.tail > 0);
}

/* Whether the KV of all tokens but the newest is made, or will be by decided steps. */
static bool decodes(const Request *request) {
  return request->state == REQUEST_GENERATES ||
         (request->state == REQUEST_COMPUTES &&
          request->prefilled_tokens == request_prefill_tokens(request));
}

/* Tokens that it has still to compute, of one scheduled alone or waiting. */
static int64_t left_tokens(const Request *request) {
  return decodes(request) ? 1 + request->drafts
                          : request_prefill_tokens(request) - request->prefilled_tokens;
}

void scheduler_schedule_alone(Simulation *self, Instance *instance, RequestIx ix) {
  Scheduler *scheduler = instance->scheduler;
  Request *slots = self->requests.slots;
  ARENA_RESERVE(self->arena, scheduler->alone, scheduler->alone_capacity, scheduler->n_alone + 1);
  size_t i = scheduler->n_alone++;
  for (; i > 0 && slots[scheduler->alone[i - 1]].admission > slots[ix].admission; i--)
    scheduler->alone[i] = scheduler->alone[i - 1];
  scheduler->alone[i] = ix;
  slots[ix].scheduled = SCHEDULED_ALONE;
}

void scheduler_forget_alone(Scheduler *scheduler, RequestIx ix) {
  size_t i = 0;
  while (scheduler->alone[i] != ix)
    i++;
  for (scheduler->n_alone--; i < scheduler->n_alone; i++)
    scheduler->alone[i] = scheduler->alone[i + 1];
}

void scheduler_join_batch(Simulation *self, Instance *instance, RequestIx ix, int32_t made) {
  Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  request->scheduled = SCHEDULED_BATCH;
  request->joined_step = scheduler->number;
  batch_push(&instance->batch, self->requests.slots, ix, (int64_t)request->prompt_tokens + made,
             decided_tokens(instance, request) - made, self->arena);
  if (instance->kv_groups) {
    self->memory[ix].in_groups.visit = instance->batch.iterations;
    batch_visit_at(&instance->batch, self->requests.slots, ix, instance->batch.iterations);
  }
  scheduler->n_seconds[sim_counts(self, request)] += request_delivered(request, made) == 1;
  scheduler->version++;
}

ScheduledItem *scheduler_add_item(Simulation *self, Step *step, RequestIx ix, StepItemKind kind) {
  ARENA_RESERVE(self->arena, step->items, step->items_capacity, step->n_items + 1);
  ScheduledItem *item = &step->items[step->n_items++];
  *item = (ScheduledItem){.request = ix,
                          .kind = kind,
                          .tokens = 1,
                          .hit_tokens = -1,
                          .admission = self->requests.slots[ix].admission};
  return item;
}

/* Its newest token is of a step that runs, which tells of it when it ends, or is there already; a
 * step that it joined the batch with has an item of it. */
static void leave_batch(Simulation *self, Instance *instance, RequestIx ix, Scheduled how) {
  Scheduler *scheduler = instance->scheduler;
  Request *request = &self->requests.slots[ix];
  const int64_t made = scheduler_withdraw_from_batch(self, instance, ix);
  const bool in_flight = scheduler->current != NULL && instance->lag > 0;
  const bool has_item = in_flight && request->joined_step + 1 == scheduler->number;
  scheduler->n_seconds[sim_counts(self, request)] -= request_delivered(request, made) == 1;
  request->generated_tokens = (int32_t)made - has_item;
  request->scheduled = (uint8_t)how;
  if (has_item) return;
  if (in_flight) {
    scheduler_add_item(self, scheduler->current, ix, STEP_LEAVES)->done = (int32_t)made;
    return;
  }
  if (request->joined_step + 1 < scheduler->number) request->last_token_at = instance->decoded_at;
  request->computing_ticks += instance->decoded_ticks;
  if (self->keeps_parts) parts_left(self, instance, ix, made);
}

void scheduler_leave_batch(Simulation *self, Instance *instance, RequestIx ix) {
  leave_batch(self, instance, ix, SCHEDULED_ENDS);
}

/* --- blocks */

/* Tokens of a request whose KV is there once it has computed `tokens` more. */
static int64_t computed_after(const Request *request, int64_t tokens) {
  return decodes(request) || request->state == REQUEST_WAITS_DECODE
             ? request_kv_tokens(request) + request->ahead + tokens
             : request->prefilled_tokens + tokens;
}

KvReach scheduler_reach(const Instance *instance, const Request *request, int64_t tokens) {
  const int64_t done = computed_after(request, tokens);
  return (KvReach){.computed = computed_after(request, 0),
                   .done = done,
                   .slots = scheduler_slots(instance->scheduler, done)};
}

/* Blocks that it needs for them beyond those it holds, scheduled alone. */
static int64_t needed_blocks(const Simulation *self, const Instance *instance, RequestIx ix,
                             int64_t tokens) {
  const KvReach reach = scheduler_reach(instance, &self->requests.slots[ix], tokens);
  return sim_needed_blocks(self, instance, ix, &reach);
}

/* What its layers need no more is given back: all that steps which have ended computed. */
static void slide(Simulation *self, Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const Step *current = instance->scheduler->current;
  if (!instance->kv_groups) return;
  if (request->scheduled == SCHEDULED_BATCH) {
    sim_slide_in_batch(self, instance, ix);
    return;
  }
  const bool in_flight = instance->lag > 0 && current && request->decided_step == current->number;
  const int64_t tokens = in_flight ? self->memory[ix].in_groups.newest : 0;
  sim_slide_blocks(self, instance, ix, computed_after(request, 0) - tokens);
}

/* --- items */

/* Whether it decodes, and its newest token is in the stages of a pipeline yet. */
static inline bool is_in_stages(const Scheduler *scheduler, const Request *request) {
  return scheduler->flights && decodes(request) && flights_hold(scheduler, request);
}

/* Tokens that it wants, scheduled alone, and those that it gets of a budget. */
static int64_t wanted_tokens(const Scheduler *scheduler, const Decision *self,
                             const Request *request) {
  if (self->holds && !decodes(request)) return 0;
  if (is_in_stages(scheduler, request)) return 0;
  if (request->ahead > 0 && request->generated_tokens + 1 >= request->max_tokens) return 0;
  const int64_t wanted = lesser(left_tokens(request), self->threshold);
  return decodes(request) ? wanted : lesser(wanted, self->prompt_tokens);
}

static int64_t share(const Simulation *self, const Instance *instance, const Decision *decision,
                     RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const Scheduler *scheduler = instance->scheduler;
  const Speculation *speculation = &scheduler->limits.speculation;
  int64_t tokens = lesser(wanted_tokens(scheduler, decision, request), decision->budget);
  if (tokens == 0 || (!scheduler->by_items && !instance->kv_groups)) return tokens;
  const int64_t done = computed_after(request, 0);
  if (speculation->num_speculative_tokens > 0)
    tokens = lesser(tokens, lesser(decision->input - speculation->draft_slots,
                                   scheduler_reaches(scheduler) - done));
  if (instance->kv_groups && tokens > 0)
    tokens = kv_groups_chunk(instance->kv_groups, request->prompt_tokens, request_tokens(request),
                             done, tokens, self->memory[ix].in_groups.junction);
  return speculation_chunk(speculation, request_tokens(request) - done, tokens);
}

void decision_schedule(Simulation *self, Instance *instance, Decision *decision, RequestIx ix,
                       int64_t tokens) {
  Request *request = &self->requests.slots[ix];
  const bool decode = decodes(request);
  const int64_t wanted = decode ? 1 : left_tokens(request);
  const KvReach reach = scheduler_reach(instance, request, tokens);
  sim_hold_reach(self, instance, ix, &reach);
  sim_register_blocks(self, instance, ix, lesser(reach.done, request_tokens(request)));
  ScheduledItem *item =
      scheduler_add_item(self, decision->step, ix, decode ? STEP_DECODE : STEP_CHUNK);
  item->tokens = (int32_t)tokens;
  item->drafts = tokens > wanted ? (int32_t)(tokens - wanted) : 0;
  request->drafts = 0;
  if (!decode) encoding_take(self, instance, decision, ix, item);
  if (!decode) life_chunk_decided(self, instance, ix, item->tokens - item->drafts);
  item->done = request->prefilled_tokens;
  item->last = decode || item->done == request_prefill_tokens(request);
  request->decided_step = instance->scheduler->number;
  decision->budget -= tokens;
  decision->prompt_tokens -= decode ? 0 : tokens;
  decision->prompts -= !decode;
  decision->input -= tokens + instance->scheduler->limits.speculation.draft_slots;
}

/* --- those that are running */

/* Whether prompts under way have some, which others may have taken the budget or the cache of. */
static bool has_encoder_inputs(const Simulation *self, const Scheduler *scheduler) {
  const Request *slots = self->requests.slots;
  for (size_t i = 0; scheduler->encoder && i < scheduler->n_alone; i++)
    if (slots[scheduler->alone[i]].has_inputs && !decodes(&slots[scheduler->alone[i]])) return true;
  return false;
}

/* Whether all that run get the tokens they want, but for the last of them, and blocks. */
static bool all_fit(const Simulation *self, const Instance *instance, const Decision *decision) {
  const Scheduler *scheduler = instance->scheduler;
  if (scheduler->by_items || has_encoder_inputs(self, scheduler)) return false;
  const Batch *batch = &instance->batch;
  Decision rest = *decision;
  rest.budget -= (int64_t)batch->n_seqs;
  if (rest.budget < 0) return false;
  int64_t blocks = sim_batch_needs(self, instance);
  for (size_t i = 0; i < scheduler->n_alone; i++) {
    const RequestIx ix = scheduler->alone[i];
    const Request *request = &self->requests.slots[ix];
    const int64_t tokens = share(self, instance, &rest, ix);
    const bool cut = tokens < wanted_tokens(scheduler, decision, request);
    if (cut && (ix != instance->running.last || tokens == 0)) return false;
    blocks += needed_blocks(self, instance, ix, tokens);
    rest.budget -= tokens;
    rest.prompt_tokens -= decodes(request) ? 0 : tokens;
  }
  return blocks <= instance->free_blocks;
}

static void schedule_all(Simulation *self, Instance *instance, Decision *decision) {
  const Scheduler *scheduler = instance->scheduler;
  decision->budget -= (int64_t)instance->batch.n_seqs;
  BatchGrowth growth = sim_begin_growth(self, instance);
  for (size_t i = 0; i < scheduler->n_alone; i++) {
    const RequestIx ix = scheduler->alone[i];
    const Request *request = &self->requests.slots[ix];
    const int64_t tokens = share(self, instance, decision, ix);
    if (tokens == 0) continue;
    sim_grow_until(self, instance, &growth, request->admission);
    decision->prefills |= !decodes(request);
    slide(self, instance, ix);
    decision_schedule(self, instance, decision, ix, tokens);
  }
  sim_grow_until(self, instance, &growth, UINT32_MAX);
}

static bool goes_before(const Instance *instance, const Request *a, const Request *b) {
  return instance->batcher->goes_before(instance->batcher_options, a, b);
}

/* Who gives way: the last that runs, or by priority the last of all. One whose KV is about to leave
 * for another instance is not asked. */
static RequestIx victim_of(const Simulation *self, const Instance *instance) {
  const Request *slots = self->requests.slots;
  RequestIx victim = REQUEST_NONE;
  for (RequestIx ix = instance->running.last; ix != REQUEST_NONE; ix = slots[ix].previous) {
    const Request *request = &slots[ix];
    if (request->scheduled == SCHEDULED_ENDS && !stays_here(instance, request) &&
        request->output_tokens > 1)
      continue;
    if (!instance->scheduler->limits.priority) return ix;
    if (victim == REQUEST_NONE || !goes_before(instance, request, &slots[victim])) victim = ix;
  }
  return victim;
}

/* What the step has of it so far is undone. */
static void take_out(Simulation *self, Instance *instance, Decision *decision, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  if (request->decided_step != instance->scheduler->number) return;
  if (instance->scheduler->flights) flights_take_out(instance->scheduler, ix, request);
  Step *step = decision->step;
  size_t i = 0;
  while (i < step->n_items && step->items[i].request != ix)
    i++;
  decision->budget += i < step->n_items ? step->items[i].tokens : 1;
  if (i == step->n_items) return;
  decision->input += step->items[i].tokens + instance->scheduler->limits.speculation.draft_slots;
  decision->encoder += step->items[i].encoded;
  if (step->items[i].kind == STEP_CHUNK) {
    decision->prompt_tokens += step->items[i].tokens;
    decision->prompts++;
    life_chunk_decided(self, instance, ix, step->items[i].drafts - step->items[i].tokens);
  }
  for (step->n_items--; i < step->n_items; i++)
    step->items[i] = step->items[i + 1];
}

bool step_has_row(const Step *step, const Request *request) {
  return step && step->n_regular > 0 && request->joined_step < step->number;
}

bool step_ends(const Step *step, RequestIx ix) {
  for (size_t i = 0; step && i < step->n_items; i++)
    if (step->items[i].request == ix && step->items[i].kind == STEP_LEAVES) return true;
  return false;
}

RequestIx scheduler_head_for(const Simulation *self, const Instance *instance,
                             const Request *request) {
  const Request *slots = self->requests.slots;
  RequestIx next = instance->prefill_queue.first;
  while (next != REQUEST_NONE &&
         (slots[next].loading || goes_before(instance, &slots[next], request)))
    next = slots[next].next;
  return next;
}

/* Whether a step that runs makes its last token, with the batch or without. */
static bool makes_last(const Instance *instance, const Request *request) {
  const int32_t sure = instance->scheduler->flights ? request->ahead : 1;
  if (request->ahead > 0) return request->generated_tokens + sure >= request->output_tokens;
  return request->scheduled == SCHEDULED_BATCH &&
         batch_context(&instance->batch, request) ==
             (int64_t)request->prompt_tokens + request->output_tokens;
}

static void preempt(Simulation *self, Instance *instance, Decision *decision, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  const bool grown = request->decided_step == instance->scheduler->number;
  const bool ends = request->scheduled == SCHEDULED_ENDS || makes_last(instance, request);
  take_out(self, instance, decision, ix); // with that its prefill is not over
  const bool evicted = !ends && (request->scheduled == SCHEDULED_BATCH || decodes(request));
  if (request->scheduled == SCHEDULED_BATCH) {
    const int64_t more = grown ? sim_needed_in_batch(self, instance, ix) : 0;
    leave_batch(self, instance, ix, SCHEDULED_ENDS);
    request->kv_blocks += (int32_t)more;
  } else if (request->scheduled == SCHEDULED_ALONE) {
    scheduler_forget_alone(instance->scheduler, ix);
  } else if (step_ends(instance->scheduler->current, ix)) {
    request->generated_tokens = request->output_tokens;
  }
  decision->n_preempted++;
  request->ahead = request->drafts = 0;
  encoding_leave(self, instance, ix, INT64_MAX);
  sim_list_preempted(self, decision->step, ix);
  life_preempted(self, instance, ix, scheduler_head_for(self, instance, request), evicted);
}

/* Whether there are blocks for its next `tokens` once enough others have given way; else it had to
 * itself, and `*ret_next` ran after it. */
static bool make_room(Simulation *self, Instance *instance, Decision *decision, RequestIx ix,
                      int64_t tokens, RequestIx *ret_next) {
  const Request *request = &self->requests.slots[ix];
  slide(self, instance, ix);
  for (;;) {
    const int64_t blocks = request->scheduled == SCHEDULED_BATCH
                               ? sim_needed_in_batch(self, instance, ix)
                               : needed_blocks(self, instance, ix, tokens);
    if (blocks <= instance->free_blocks) return true;
    const RequestIx victim = victim_of(self, instance);
    *ret_next = request->next;
    decision->stopped = connector_defers(instance) && connector_computes(instance, victim);
    if (decision->stopped) return false;
    preempt(self, instance, decision, victim);
    if (victim == ix) return false;
  }
}

/* Some must be left out, or give way. */
static void schedule_one_by_one(Simulation *self, Instance *instance, Decision *decision) {
  Request *slots = self->requests.slots;
  const SchedulerLimits *limits = &instance->scheduler->limits;
  RequestIx ix = instance->running.first, next;
  for (; ix != REQUEST_NONE && decision->budget > 0; ix = next) {
    Request *request = &slots[ix];
    next = request->next;
    if (request->scheduled == SCHEDULED_ENDS || is_in_stages(instance->scheduler, request))
      continue;
    int64_t tokens = 1;
    if (request->scheduled == SCHEDULED_ALONE) {
      tokens = share(self, instance, decision, ix);
      if (tokens > 0 && !decodes(request))
        tokens = encoding_fit(self, instance, decision, ix, computed_after(request, 0), tokens);
    }
    if (tokens == 0) continue;
    if (!make_room(self, instance, decision, ix, tokens, &next)) {
      if (limits->priority && !limits->self_preemption_ends_step && !decision->stopped) continue;
      break;
    }
    next = request->next;
    if (request->scheduled == SCHEDULED_ALONE) {
      decision->prefills |= !decodes(request);
      decision_schedule(self, instance, decision, ix, tokens);
      continue;
    }
    sim_grow_one(self, instance, ix);
    request->decided_step = instance->scheduler->number;
    decision->budget--;
  }
  if (instance->batch.n_seqs == 0) return;
  for (ix = instance->running.first; ix != REQUEST_NONE; ix = slots[ix].next)
    if (slots[ix].scheduled == SCHEDULED_BATCH &&
        slots[ix].decided_step != instance->scheduler->number) {
      leave_batch(self, instance, ix, SCHEDULED_ALONE);
      scheduler_schedule_alone(self, instance, ix);
    }
}

void scheduler_add_batch(Simulation *self, Instance *instance, Step *step) {
  Scheduler *scheduler = instance->scheduler;
  Batch *batch = &instance->batch;
  step->n_regular = (int64_t)batch->n_seqs;
  step->shape.decode_seqs = step->n_regular;
  step->shape.context_tokens = batch->context_tokens;
  step->n_counted = sim_counted_seqs(self, instance);
  step->version = scheduler->version;
  for (int counted = 0; counted < 2; counted++) {
    step->n_seconds[counted] = scheduler->n_seconds[counted];
    scheduler->n_seconds[counted] = 0;
  }
  sim_list_batch(self, instance, step);
  if (batch->n_seqs > 0) batch_advance(batch, 1);
}

/* Its token of the step is thrown away: the step that runs makes its last, and ends it. */
static void overrun(Simulation *self, const Instance *instance, Step *step, RequestIx ix) {
  Scheduler *scheduler = instance->scheduler;
  const Request *request = &self->requests.slots[ix];
  const bool counts = sim_counts(self, request);
  step->n_thrown[counts]++;
  step->n_seconds[counts] -= request_delivered(request, request->output_tokens) == 1;
  if (request->joined_step + 1 < scheduler->number)
    scheduler_add_item(self, scheduler->current, ix, STEP_LEAVES)->done = request->output_tokens;
}

void scheduler_end_sequences(Simulation *self, Instance *instance, Step *step) {
  Batch *batch = &instance->batch;
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0) {
    const RequestIx ix = batch->entries[0].request;
    Request *request = &self->requests.slots[ix];
    scheduler_withdraw_from_batch(self, instance, ix);
    request->scheduled = SCHEDULED_ENDS;
    if (request->overruns)
      overrun(self, instance, step, ix);
    else
      scheduler_add_item(self, step, ix, STEP_LEAVES)->done = request->output_tokens;
  }
}

/* --- the decision */

void scheduler_add_shape(const Simulation *self, Step *step, const ScheduledItem *item) {
  BatchShape *shape = &step->shape;
  if (item->kind >= STEP_LEAVES) return;
  if (item->kind == STEP_CHUNK) {
    const int64_t past = item->done - (item->tokens - item->drafts);
    shape->prefill_tokens += item->tokens;
    step->n_padding += item->drafts;
    shape->prefill_area2 += item->tokens * (2 * past + item->tokens);
  } else {
    const Request *request = &self->requests.slots[item->request];
    shape->decode_seqs++;
    shape->context_tokens += request_kv_tokens(request) + 1 + request->ahead;
    step->n_drafts += item->drafts;
  }
  shape->logit_seqs += item->last;
  step->n_encoded += item->encoded;
}

/* It is scheduled alone on: what comes of its drafts is known when the step has ended. */
static void go_on_alone(Simulation *self, Instance *instance, const ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  if (request->scheduled != SCHEDULED_ALONE)
    scheduler_schedule_alone(self, instance, item->request);
  if (instance->lag == 0) return;
  request->ahead += (int16_t)(1 + item->drafts);
  request->drafts = (int16_t)instance->scheduler->limits.speculation.num_speculative_tokens;
}

/* It has a token of the step, the first of its own or the next. */
static void place_decode(Simulation *self, Instance *instance, ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  item->ends =
      !stays_here(instance, request) ||
      (request->ahead == 0 && request->generated_tokens + 1 >= decided_tokens(instance, request));
  if (instance->scheduler->by_items && !item->ends) {
    go_on_alone(self, instance, item);
    return;
  }
  if (request->scheduled == SCHEDULED_ALONE)
    scheduler_forget_alone(instance->scheduler, item->request);
  request->scheduled = SCHEDULED_ENDS;
  if (!item->ends)
    scheduler_join_batch(self, instance, item->request, request->generated_tokens + 1);
}

/* How those whose prefill ends with the step, or who come with a token, go on. */
static void place_items(Simulation *self, Instance *instance, Step *step) {
  for (size_t i = 0; i < step->n_items; i++) {
    ScheduledItem *item = &step->items[i];
    scheduler_add_shape(self, step, item);
    if (item->kind != STEP_LEAVES && item->last) place_decode(self, instance, item);
  }
  step->shape.logit_seqs += step->n_regular;
  if (instance->pool->attention_ranks > 1)
    ranks_spread_step(&self->ranks, instance, self->requests.slots, step, self->arena);
}

/* Whether prompts, those that have begun as well, wait because decodes run: fewer than
 * `prefill_interval` steps have passed since one with prefill, or ranks in lockstep are between two
 * steps of their wave in which all may have prefill; and the last decision that did not hold them
 * could admit all. */
static bool holds_prompts(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const int64_t interval = scheduler->limits.prefill_interval;
  const bool passed = scheduler->rank
                          ? scheduler->rank->counter % interval == 0
                          : scheduler->n_steps + 1 - scheduler->prefilled_step >= interval;
  if (scheduler->crowded || passed) return false;
  int64_t n_decodes = instance->running.count;
  for (size_t i = 0; i < scheduler->n_alone; i++)
    n_decodes -= !decodes(&self->requests.slots[scheduler->alone[i]]);
  return n_decodes > 0;
}

/* Tokens of one prompt in a step; INT64_MAX: no limit. */
static int64_t prompt_threshold(const Instance *instance) {
  const SchedulerLimits *limits = &instance->scheduler->limits;
  const int64_t n_here =
      instance->running.count + instance->decode_queue.count + instance->prefill_queue.count;
  int64_t threshold = limits->long_prefill_token_threshold;
  if (threshold == 0 || n_here <= 1) return ranks_budget(instance);
  const int64_t each = limits->max_num_batched_tokens / n_here;
  if (limits->adaptive_threshold && each > threshold) threshold = each;
  return lesser(threshold, ranks_budget(instance));
}

void scheduler_begin_decision(Simulation *self, Instance *instance, Step *step) {
  step->number = ++instance->scheduler->number;
  step->n_items = step->n_forfeits = 0;
  step->shape = (BatchShape){0};
  step->n_drafts = step->n_padding = step->n_encoded = 0;
  step->decided_at = self->now;
  step->version = instance->scheduler->version;
  step->n_regular = step->n_counted = 0;
  for (int counted = 0; counted < 2; counted++)
    step->n_seconds[counted] = step->n_thrown[counted] = step->n_joins[counted] = 0;
  sim_begin_listing(self, step);
}

static bool decide(Simulation *self, Instance *instance, Step *step) {
  Scheduler *scheduler = instance->scheduler;
  scheduler_begin_decision(self, instance, step);
  if (scheduler->n_pauses > 0) scheduler_hear_pauses(self, instance, step);
  const bool by_rank = ranks_hold_requests(instance) && instance->prefill_queue.count > 0;
  const int64_t tokens = scheduler->pause == PAUSE_ALL ? 0 : ranks_tokens(instance);
  Decision decision = {.step = step,
                       .tokens = tokens,
                       .budget = tokens,
                       .input = scheduler->limits.max_num_batched_tokens,
                       .encoder = scheduler->limits.encoder_tokens,
                       .threshold = prompt_threshold(instance),
                       .prompt_tokens = INT64_MAX,
                       .prompts = INT64_MAX,
                       .by_rank = by_rank,
                       .holds =
                           scheduler->limits.prefill_interval > 1 && holds_prompts(self, instance)};
  if (scheduler->limits.proposal.proposal) decision_propose(self, instance, &decision);
  if (by_rank) ranks_place(&self->ranks, instance, self->requests.slots, self->arena);
  if (instance->kv_groups) kv_groups_decide(instance->kv_groups);
  if (all_fit(self, instance, &decision))
    schedule_all(self, instance, &decision);
  else
    schedule_one_by_one(self, instance, &decision);
  scheduler_add_batch(self, instance, step);
  scheduler_end_sequences(self, instance, step);
  decision.chunked = decision.prefills;
  scheduler->waits = false;
  if (decision.n_preempted == 0) decision_admit(self, instance, &decision);
  scheduler->waits |= decision.wants_encoder || (decision.holds && scheduler->n_alone > 0);
  place_items(self, instance, step);
  if (scheduler->connector) connector_decided(self, instance, step);
  scheduler->n_steps += !step_is_empty(step);
  if (decision.prefills) scheduler->prefilled_step = scheduler->n_steps;
  sim_list_step(self, instance, step);
  if (scheduler->connector) scheduler->connector->n_loads = scheduler->connector->n_stores = 0;
  step->preempted = decision.n_preempted > 0;
  return step->preempted;
}

const SchedulerRules scheduler_rules_vllm = {
    .decide = decide,
    .watch = scheduler_watch,
    .withdraw = scheduler_withdraw,
    .forget = scheduler_forget,
};
