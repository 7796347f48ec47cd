/* Instances whose batcher plans iteration after iteration (loop.h). */
#include "sim/books/parts.h"
#include "sim/core/attention_ranks.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/lifecycle.h"
#include "sim/core/loop.h"
#include "sim/core/marks.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/placement.h"
#include "sim/core/prefill_run.h"
#include <assert.h>

/* --- the plan */

void plan_prefill(BatchPlan *plan, RequestIx request, int32_t tokens) {
  ARENA_RESERVE(plan->arena, plan->prefills, plan->prefills_capacity, plan->n_prefills + 1);
  plan->prefills[plan->n_prefills++] = (PlanItem){request, tokens};
  if (plan->instance && plan->instance->cache)
    life_hits_held(plan->simulation, plan->instance, request);
}

void plan_admit(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->admits, plan->admits_capacity, plan->n_admits + 1);
  plan->admits[plan->n_admits++] = request;
}

void plan_pad(BatchPlan *plan, int64_t tokens, int64_t area2) {
  assert(plan->n_prefills > 0);
  plan->padding.prefill_tokens += tokens;
  plan->padding.prefill_area2 += area2;
}

void plan_pad_decodes(BatchPlan *plan, int64_t seqs, int64_t context) {
  plan->padding.decode_seqs = seqs;
  plan->padding.context_tokens = context;
}

void plan_preempt(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->preempts, plan->preempts_capacity, plan->n_preempts + 1);
  plan->preempts[plan->n_preempts++] = request;
}

/* Of those admitted, who is still there once the batch has room. */
static void begin_decodes(Simulation *self, const Instance *instance) {
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    Request *request = &self->requests.slots[self->plan.admits[i]];
    if (request->state != REQUEST_RUNS || request->decode_began_at >= 0) continue;
    request->decode_began_at = self->now;
    sim_log(self, OUTCOME_DECODE_BEGIN, request, instance->ix, 0, 0);
  }
}

static void apply_prefills(Simulation *self, Instance *instance) {
  instance->n_chunks = 0;
  if (self->plan.n_prefills == 0) return;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const RequestIx ix = self->plan.prefills[i].request;
    const Request *request = &self->requests.slots[ix];
    life_chunk_began(self, instance, ix, self->plan.prefills[i].tokens);
    ARENA_RESERVE(self->arena, instance->chunks, instance->chunks_capacity, instance->n_chunks + 1);
    instance->chunks[instance->n_chunks++] = ix;
    if (request->state == REQUEST_ENDS_PREFILL && request_moves_from(request, instance->ix))
      sim_offer_layers(self, ix);
  }
}

/* Evicts until the batch can grow by one token per sequence; whether anybody had to go. */
static bool make_room(Simulation *self, Instance *instance) {
  if (instance->batcher->reserves_output) return false;
  bool evicted = false;
  while (instance_decodes(instance) &&
         batch_next_growth(&instance->batch) > instance->free_blocks) {
    const InstanceView view = sim_view(self, instance);
    life_gave_way(self, instance, instance->kvtier->pick(instance->kvtier_options, &view));
    evicted = true;
  }
  return evicted;
}

/* Carries out self->plan on an instance between iterations, as far as a group's store has room;
 * whether anybody gave way. */
static bool carry_out(Simulation *self, Instance *instance) {
  assert(!self->plan.pause_decodes || self->plan.n_admits == 0);
  if (instance->group) tell_group_plans(self, instance);
  instance->decodes_paused = self->plan.pause_decodes;
  instance->padding = self->plan.padding;
  for (size_t i = 0; i < self->plan.n_preempts; i++)
    life_blocked(self, instance, self->plan.preempts[i]);
  for (size_t i = 0; i < self->plan.n_admits; i++)
    life_admitted(self, instance, self->plan.admits[i]);
  const bool evicted = make_room(self, instance);
  assert(!evicted || self->plan.n_prefills == 0);
  begin_decodes(self, instance);
  apply_prefills(self, instance);
  return evicted;
}

/* --- beginning */

/* Everybody left out of the iteration that begins is one older. */
static void age_blocked(Simulation *self, const Instance *instance) {
  Request *slots = self->requests.slots;
  for (RequestIx ix = instance->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    slots[ix].preemptions++;
}

/* What is computed for nothing is a chunk of its own. */
static void spread_chunks(Simulation *self, Instance *instance) {
  ranks_begin(&self->ranks, instance->pool->attention_ranks, INT64_MAX, self->arena);
  for (size_t i = 0; i < instance->n_chunks; i++) {
    const Request *request = &self->requests.slots[instance->chunks[i]];
    const int64_t past = request->prefilled_tokens, chunk = request->chunk_tokens;
    ranks_add(&self->ranks, chunk, chunk * (2 * past + chunk));
  }
  ranks_add(&self->ranks, instance->padding.prefill_tokens, instance->padding.prefill_area2);
  instance->busiest = ranks_busiest(&self->ranks);
}

static BatchShape shape_of(const Simulation *self, const Instance *instance) {
  BatchShape shape = {.prefill_tokens = instance->padding.prefill_tokens,
                      .prefill_area2 = instance->padding.prefill_area2};
  for (size_t i = 0; i < instance->n_chunks; i++) {
    const Request *request = &self->requests.slots[instance->chunks[i]];
    const int64_t past = request->prefilled_tokens, chunk = request->chunk_tokens;
    shape.prefill_tokens += chunk;
    shape.prefill_area2 += chunk * (2 * past + chunk);
    shape.logit_seqs +=
        past + chunk == request_prefill_tokens(request) && request->cut != CUT_PROMPT;
  }
  if (instance_decodes(instance)) {
    shape.decode_seqs = (int64_t)instance->batch.n_seqs + instance->padding.decode_seqs;
    shape.context_tokens = instance->batch.context_tokens + instance->padding.context_tokens;
    shape.logit_seqs += shape.decode_seqs;
  }
  return shape;
}

/* Nothing can run though decodes wait or several prefills have begun, and no transfer out of here
 * will free memory: one of them must give way. False when nothing can be done now. */
static bool unstick(Simulation *self, Instance *instance) {
  const bool stuck =
      instance->decode_queue.count > 0 || instance->blocked.count > 0 || instance->n_started > 1;
  if (!stuck || instance->n_outgoing > 0 || !instance->kvtier->pick) return false;
  const InstanceView view = sim_view(self, instance);
  const RequestIx victim = instance->kvtier->pick(instance->kvtier_options, &view);
  if (victim == REQUEST_NONE) return false;
  life_gave_way(self, instance, victim);
  return true;
}

/* Whether the batcher has anybody to plan for. */
static bool is_empty(const Instance *instance) {
  return instance->batch.n_seqs == 0 && instance->prefill_queue.count == 0 &&
         instance->decode_queue.count == 0 && instance->blocked.count == 0 &&
         instance->swapped.count == 0;
}

/* Who joins the batch with the iteration or run that begins: those admitted who run. */
static void note_joined(Simulation *self, Instance *instance) {
  instance->n_joined = 0;
  ARENA_RESERVE(self->arena, instance->joined, instance->joined_capacity, self->plan.n_admits);
  for (size_t i = 0; i < self->plan.n_admits; i++)
    if (self->requests.slots[self->plan.admits[i]].state == REQUEST_RUNS)
      instance->joined[instance->n_joined++] = self->plan.admits[i];
}

/* Asks the batcher what is next and begins it; the instance idles if that is nothing. */
static void begin(Simulation *self, Instance *instance) {
  BatchPlan *plan = &self->plan;
  if (instance->group) sim_mark_group(self, instance->group);
  const bool plans = instance_works(instance) && !is_empty(instance) &&
                     !(instance->group && group_waits(instance->group));
  if (plans) tell_plans(self, instance);
  if (!plans || is_empty(instance)) {
    sim_book_idleness(self, instance, true);
    return;
  }
  bool nothing, evicted, made_room = false;
  do {
    plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
    plan->padding = (BatchShape){0};
    plan->pause_decodes = false;
    plan->simulation = self;
    plan->instance = instance;
    InstanceView view = sim_view(self, instance);
    view.made_room = made_room;
    instance->batcher->plan(instance->batcher_options, instance->batcher_state, &view, plan);
    evicted = carry_out(self, instance);
    nothing = instance->n_chunks == 0 && !instance_decodes(instance);
    if (nothing && !evicted) evicted = unstick(self, instance);
    made_room |= evicted;
  } while (nothing && evicted);
  sim_book_idleness(self, instance, nothing);
  if (nothing) return;
  age_blocked(self, instance);
  note_joined(self, instance);
  if (instance->n_chunks > 0) {
    const BatchShape shape = shape_of(self, instance);
    if (instance->pool->attention_ranks > 1) spread_chunks(self, instance);
    sim_begin_prefills(self, instance, &shape);
  } else {
    sim_begin_run(self, instance, made_room);
  }
}

/* --- ending */

static void end_first_part(Simulation *self, Instance *instance, RequestIx ix) {
  life_first_part_ended(self, instance, ix);
  sim_begin_transfer(self, ix);
}

/* It has all the tokens that it makes here. */
static void end_output(Simulation *self, Instance *instance, RequestIx ix) {
  if (self->requests.slots[ix].cut)
    end_first_part(self, instance, ix);
  else
    life_finished(self, instance, ix);
}

static void end_chunk(Simulation *self, Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const bool last = life_chunk_ended(self, instance, ix);
  if (request_leaves(request)) {
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, last);
    return;
  }
  sim_dispatch(self, ix);
  if (!last) {
    if (request_moves_from(request, instance->ix)) sim_offer_chunk(self, ix);
    return;
  }
  if (request->cut == CUT_PROMPT) {
    end_first_part(self, instance, ix);
    return;
  }
  life_prefilled(self, instance, ix);
  if (request->generated_tokens == request->output_tokens)
    end_output(self, instance, ix);
  else if (request->decode_instance == instance->ix)
    life_waits_decode(self, instance, ix);
  else if (instance->group)
    tell_group_prefilled(self, ix);
  else
    sim_begin_transfer(self, ix);
}

/* Those of the batch who have given up, `undelivered` tokens of each made meanwhile. */
static void end_leaving(Simulation *self, Instance *instance, int32_t undelivered) {
  while (instance->leaving.count > 0) {
    const RequestIx ix = instance->leaving.first;
    request_queue_remove(&instance->leaving, self->requests.slots, ix);
    life_left_early(self, ix, undelivered);
  }
}

/* The batch has made `n` iterations, the last of which ends now. */
static void end_decodes(Simulation *self, Instance *instance, int64_t n) {
  const Batch *batch = &instance->batch;
  sim_book_iterations(self, instance, n);
  instance->run.booked = 0;
  instance->decoded_at = self->now;
  instance->decoded_ticks += self->now - instance->run.began_at;
  end_leaving(self, instance, 1);
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0)
    end_output(self, instance, batch->entries[0].request);
}

/* Those whose chunks have ended, in the order of the plan. */
static void end_chunks(Simulation *self, Instance *instance) {
  const size_t n_chunks = instance->n_chunks;
  instance->n_chunks = 0;
  for (size_t i = 0; i < n_chunks; i++)
    end_chunk(self, instance, instance->chunks[i]);
}

static bool end(Simulation *self, Instance *instance, bool prefills) {
  if (instance_decodes(instance)) end_decodes(self, instance, prefills ? 1 : instance->run.done);
  if (prefills) end_chunks(self, instance);
  return true;
}

/* --- what a failure breaks off */

/* The batch is as of its last iteration that ended, but for the blocks that the present one took.
 */
static void break_off_batch(Simulation *self, Instance *instance) {
  const DecodeRun *run = &instance->run;
  sim_book_iterations(self, instance, run->done + 1);
  instance->unfinished = true;
  if (run->done > 0) instance->decoded_at = run->part_began_at;
  instance->decoded_ticks += self->now - run->began_at;
}

/* Chunks are not done, and wait where they were in line. */
static void break_off_chunks(Simulation *self, Instance *instance) {
  const size_t n_chunks = instance->n_chunks;
  instance->n_chunks = 0;
  for (size_t i = n_chunks; i-- > 0;)
    life_chunk_broken_off(self, instance, instance->chunks[i]);
  for (size_t i = 0; i < n_chunks; i++) {
    const RequestIx ix = instance->chunks[i];
    if (!request_leaves(&self->requests.slots[ix])) continue;
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
  }
}

static void break_off(Simulation *self, Instance *instance) {
  if (instance_decodes(instance)) break_off_batch(self, instance);
  end_leaving(self, instance, 0);
  break_off_chunks(self, instance);
}

/* --- who leaves early */

/* Whether the iteration in progress computes the batch. */
static bool computes_batch(const Instance *instance) {
  return instance->activity == ACTIVITY_DECODE ||
         (instance->activity == ACTIVITY_PREFILL && instance_decodes(instance));
}

static void leave(Simulation *self, Instance *instance, RequestIx ix) {
  if (!computes_batch(instance)) {
    life_left_early(self, ix, 0);
    return;
  }
  request_queue_push(&instance->leaving, self->requests.slots, ix);
  sim_mark(self, instance, MARK_BEGIN);
}

static int64_t count_leaving(const Instance *instance) {
  return instance->leaving.count;
}

/* --- what is recorded */

static int64_t count_prompts(const Instance *instance) {
  return (int64_t)instance->n_chunks;
}

static int64_t count_running(const Instance *instance) {
  return (int64_t)(instance->batch.n_seqs + instance->n_chunks);
}

/* Those that joined have waited since their last token, the others since the batch last ran. */
static void book_gaps(Simulation *self, const Instance *instance, Tick end) {
  if (!instance_decodes(instance)) return;
  uint64_t n_joined[2] = {0, 0}; // by whether they are counted
  for (size_t i = 0; i < instance->n_joined; i++) {
    const Request *request = &self->requests.slots[instance->joined[i]];
    Metrics *metrics = sim_books(self, request);
    histogram_add(&metrics->tbt, end - request->last_token_at, 1);
    if (request_has_one_token(request))
      histogram_add(&metrics->second_token, end - request->last_token_at, 1);
    n_joined[sim_counts(self, request)]++;
  }
  const uint64_t n_counted = (uint64_t)sim_counted_seqs(self, instance);
  const uint64_t n_others[2] = {instance->batch.n_seqs - n_counted - n_joined[0],
                                n_counted - n_joined[1]};
  if (n_others[0])
    histogram_add(&self->warm_up_metrics.tbt, end - instance->decoded_at, n_others[0]);
  if (n_others[1]) histogram_add(&self->metrics.tbt, end - instance->decoded_at, n_others[1]);
}

static void push(Simulation *self, const Request *request, int64_t new_tokens,
                 int64_t past_tokens) {
  ARENA_RESERVE(self->arena, self->sequences, self->sequences_capacity, self->n_sequences + 1);
  self->sequences[self->n_sequences++] =
      (BatchSequence){request->id, (int32_t)new_tokens, (int32_t)past_tokens};
}

/* `done` iterations of a run are not booked in the batch yet. The newest token of a decode is the
 * one whose KV the iteration makes. */
static void push_decodes(Simulation *self, const Instance *instance, int64_t done) {
  const Batch *batch = &instance->batch;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const Request *request = &self->requests.slots[batch->entries[i].request];
    push(self, request, 1, batch_context(batch, request) + done - 1);
  }
}

static size_t list(Simulation *self, const Instance *instance, const BatchShape *shape,
                   int64_t done) {
  self->n_sequences = 0;
  for (size_t i = 0; shape->prefill_tokens > 0 && i < instance->n_chunks; i++) {
    const Request *request = &self->requests.slots[instance->chunks[i]];
    push(self, request, request->chunk_tokens, request->prefilled_tokens);
  }
  const size_t n_prefills = self->n_sequences;
  if (shape->decode_seqs > 0) push_decodes(self, instance, done);
  return n_prefills;
}

const Loop loop_of_plans = {.begin = begin,
                            .end = end,
                            .break_off = break_off,
                            .leave = leave,
                            .count_leaving = count_leaving,
                            .count_prompts = count_prompts,
                            .count_running = count_running,
                            .book_gaps = book_gaps,
                            .list = list};
