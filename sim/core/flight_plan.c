/* See flight_plan.h. */
#include "sim/core/flight_plan.h"
#include "sim/books/parts.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/memory.h"
#include <assert.h>
#include <string.h>

/* Rounds that are planned at once: fewer after some were forgotten. An event costs as much as some
 * ten rounds. A plan goes on behind its last round until it has so many. */
enum { HORIZON_MIN = 8, HORIZON_MAX = 128, PLAN_MAX = 512 };

/* Where blocks may not suffice for longer, rounds are looked at one by one, so many of them. */
enum { TIGHT_ROUNDS = 64 };

/* Stages of steps that are planned take less, and they begin sooner, so that a plan does not come
 * near the end of simulated time. */
static const Tick LONGEST = TICK_MAX >> 20, LATEST = TICK_MAX >> 2;

void flight_plan_init(FlightPlan *self, int64_t n_stages, size_t n_places, Arena *arena) {
  *self = (FlightPlan){.batches = ARENA_ARRAY(arena, Microbatch, n_stages),
                       .items = ARENA_ARRAY(arena, ScheduledItem *, n_places),
                       .items_capacity = ARENA_ARRAY(arena, size_t, n_places),
                       .horizon = HORIZON_MIN};
}

static size_t n_stages_of(const Instance *instance) {
  return (size_t)instance->scheduler->flights->n_stages;
}

static Step *in_flight(const Scheduler *self, size_t i) {
  return &self->steps[(self->flights->first + i) % self->n_places];
}

static Tick later(Tick a, Tick b) {
  return a > b ? a : b;
}

/* Whose turn it is after the microbatch `i`. */
static inline size_t turn_after(size_t i, size_t n_stages) {
  return i + 1 < n_stages ? i + 1 : 0;
}

/* --- which rounds are regular */

/* Whether a decision may have anything but decodes, or something else than the end of steps comes
 * of one. */
static bool is_disturbed(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const SchedulerLimits *limits = &scheduler->limits;
  const int64_t n_waiting = instance->prefill_queue.count + instance->decode_queue.count;
  const bool full = instance->running.count >= limits->max_num_seqs &&
                    limits->prefill_interval <= 1 && !limits->proposal.proposal;
  return (n_waiting > 0 && !full) || instance->inbound.count > 0 || scheduler->n_pauses > 0 ||
         scheduler->pause != PAUSE_NONE || scheduler->n_leaving > 0 || scheduler->untold ||
         instance->availability != INSTANCE_UP || instance->counted_from > self->now;
}

/* Whether steps of this instance are planned at all. */
static bool can_be_planned(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return !self->config->executor && !self->config->on_step && !self->watched &&
         !self->pool_policy->review_role && !instance->group && !instance->kv_groups &&
         !instance->radix && !instance->moves_kv && !instance->adapters &&
         instance->pool->attention_ranks <= 1 && !scheduler->connector &&
         scheduler->limits.speculation.num_speculative_tokens == 0;
}

static bool has_decodes_alone(const Step *self) {
  return self->shape.prefill_tokens == 0 && self->shape.decode_seqs == (int64_t)self->n_items;
}

/* Whether each of its requests goes on with a decode S steps later, unless that was its last. */
static bool is_to_be_followed(const Step *self) {
  for (size_t i = 0; i < self->n_items; i++)
    if (self->items[i].request == REQUEST_NONE || !self->items[i].last || self->items[i].lost)
      return false;
  return self->n_items > 0 && self->n_forfeits == 0;
}

/* Whether all that run are in the S newest steps, and so in none of the next but those. */
static bool have_all(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const size_t most = scheduler->flights->most;
  int64_t n = 0;
  for (size_t i = most - n_stages_of(instance); i < most; i++)
    n += (int64_t)in_flight(scheduler, i)->n_items;
  return n == instance->running.count && n == (int64_t)scheduler->n_alone;
}

/* Whether two have the same requests. */
static bool are_alike(const Step *a, const Step *b) {
  if (a->n_items != b->n_items) return false;
  for (size_t i = 0; i < a->n_items; i++)
    if (a->items[i].request != b->items[i].request) return false;
  return true;
}

/* Tokens of it whose KV there is once its newest step has ended. */
static int64_t decided_tokens(const Instance *instance, const Request *request) {
  return request_kv_tokens(request) + (instance->lag > 0 ? request->ahead : 1);
}

/* Regular rounds until a request of which step `next` is the next to end makes its last token, or
 * is left out, or the decision of that knows that it is the last. */
static int64_t rounds_of(const Instance *instance, const Request *request, size_t next) {
  const int64_t n_stages = instance->scheduler->flights->n_stages;
  const int64_t left = request->output_tokens - request->generated_tokens;
  const int64_t ends = (int64_t)next + (left - 1) * n_stages;
  if (instance->lag == 0) return ends - n_stages;
  return request_stops(request) ? ends : ends - 1;
}

/* Of the requests of a step, as rounds_of has it; 0: it is not as those that will follow. */
static int64_t rounds_of_step(const Simulation *self, const Instance *instance, const Step *step,
                              size_t next) {
  const Request *slots = self->requests.slots;
  int64_t rounds = INT64_MAX;
  Tick last_token_at = -1;
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->kind != STEP_DECODE || item->ends) return 0;
    const Request *request = &slots[item->request];
    if (i == 0) last_token_at = request->last_token_at;
    if (request->state != REQUEST_GENERATES || request->last_token_at != last_token_at ||
        request->decode_began_at < 0 || request_awaits_first(request) || request->drafts > 0)
      return 0;
    const int64_t most = rounds_of(instance, request, next);
    if (most < rounds) rounds = most;
  }
  return rounds > 0 ? rounds : 0;
}

/* Blocks that the `n`-th round from now takes. */
static int64_t blocks_of_round(const Simulation *self, const Instance *instance, size_t n) {
  const Flights *flights = instance->scheduler->flights;
  const size_t n_stages = n_stages_of(instance), i = flights->most + n;
  const size_t newest = flights->most - n_stages + (i - (flights->most - n_stages)) % n_stages;
  const Step *step = in_flight(instance->scheduler, newest);
  const int64_t more = (int64_t)((i - newest) / n_stages);
  int64_t blocks = 0;
  for (size_t k = 0; k < step->n_items; k++) {
    const Request *request = &self->requests.slots[step->items[k].request];
    const int64_t tokens = decided_tokens(instance, request) + more;
    blocks += blocks_of(instance, tokens) - blocks_of(instance, tokens - 1);
  }
  return blocks;
}

/* Of so many rounds, those for which there are blocks. */
static int64_t fitting_rounds(const Simulation *self, const Instance *instance, int64_t rounds) {
  const int64_t each = rounds / instance->scheduler->flights->n_stages + 1;
  const int64_t blocks = batch_whole_blocks(&instance->batch, each) + 1;
  int64_t n = 0, free = instance->free_blocks;
  if (blocks <= free / instance->running.count) return rounds;
  for (; n < rounds && n < TIGHT_ROUNDS; n++) {
    free -= blocks_of_round(self, instance, (size_t)n);
    if (free < 0) break;
  }
  return n;
}

int64_t flights_regular_rounds(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  const Flights *flights = scheduler->flights;
  if (flights->n < flights->most || is_disturbed(self, instance) || !have_all(instance) ||
      !can_be_planned(self, instance))
    return 0;
  const size_t n_stages = n_stages_of(instance);
  int64_t rounds = INT64_MAX;
  for (size_t i = 0; i < flights->most; i++) {
    const Step *step = in_flight(scheduler, i);
    int64_t most = (int64_t)i - 1; // before what has prefill too ends, and is decided again
    if (!is_to_be_followed(step)) return 0;
    if (has_decodes_alone(step) && i < n_stages)
      most = rounds_of_step(self, instance, step, i);
    else if (has_decodes_alone(step))
      most = are_alike(in_flight(scheduler, 0), step) ? rounds : 0;
    if (most < rounds) rounds = most;
    if (rounds <= 0) return 0;
  }
  return fitting_rounds(self, instance, rounds);
}

/* --- planning */

/* Microbatches are as steps in flight have them. */
static void gather(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  FlightPlan *plan = &scheduler->flights->plan;
  const size_t n_stages = n_stages_of(instance), most = scheduler->flights->most;
  plan->number = in_flight(scheduler, 0)->number;
  plan->first = scheduler->flights->first;
  plan->began_at = instance->run.part_began_at;
  for (size_t i = 0; i < most; i++) {
    const Step *step = in_flight(scheduler, i);
    Microbatch *batch = &plan->batches[i % n_stages];
    plan->items[i] = step->items;
    plan->items_capacity[i] = step->items_capacity;
    plan->steps[i] = (PlannedStep){.end = step->end,
                                   .decided_at = step->decided_at,
                                   .context = step->shape.context_tokens,
                                   .extrapolation = step->extrapolation};
    batch->context = step->shape.context_tokens + (int64_t)step->n_items;
    if (i >= n_stages) { // it has the same as the first, or is not gone through
      plan->apart = !has_decodes_alone(step);
      continue;
    }
    batch->items = step->items;
    batch->n = step->n_items;
    batch->left = 0;
    batch->send = tick_nearest(instance->perfmodel->send * (int64_t)step->n_items);
    batch->last_token_at = self->requests.slots[step->items[0].request].last_token_at;
    batch->n_counted = 0;
    for (size_t k = 0; k < batch->n; k++)
      batch->n_counted += sim_counts(self, &self->requests.slots[batch->items[k].request]);
  }
}

/* What the next step of a microbatch takes in a stage, and in the last one. */
static inline Tick next_stage(const Instance *instance, Microbatch *batch, Tick *ret_last) {
  const int64_t seqs = (int64_t)batch->n, context = batch->context;
  if (batch->left == 0) {
    const PerfModel *model = instance->perfmodel;
    const DecodePiece *piece = perfmodel_decode(model, seqs, context);
    batch->stages = decode_stages_of(model, piece, seqs, context, instance->pipeline->n_stages);
    batch->extrapolation = piece->extrapolation;
    batch->left = (piece->end - context) / seqs + ((piece->end - context) % seqs > 0);
  }
  batch->left--;
  batch->context += seqs;
  return decode_stages_next(&batch->stages, ret_last);
}

/* As pipeline_pass and pipeline_await have it, behind what is planned. The step `took` so much in a
 * stage, in the last one, and to be handed on. When it leaves the last stage. */
static inline Tick pass(FlightPlan *plan, const Pipeline *pipeline, Tick now, Tick awaited,
                        const Tick took[3]) {
  const size_t n_stages = (size_t)pipeline->n_stages;
  Tick *free_at = plan->free_at + plan->n * n_stages;
  const Tick *before = plan->n > 0 ? free_at - n_stages : pipeline->free_at;
  Tick at = now;
  for (size_t s = 0; s < n_stages - 1; s++) {
    at = later(later(at, before[s]), awaited) + took[0];
    free_at[s] = at;
    at += took[2];
  }
  return free_at[n_stages - 1] = later(at, before[n_stages - 1]) + took[1];
}

static void reserve(Simulation *self, FlightPlan *plan, size_t rounds, size_t most,
                    size_t n_stages) {
  ARENA_RESERVE(self->arena, plan->steps, plan->steps_capacity, rounds + most);
  ARENA_RESERVE(self->arena, plan->at, plan->at_capacity, rounds);
  ARENA_RESERVE(self->arena, plan->free_at, plan->free_at_capacity, rounds * n_stages);
}

/* Plans a round behind those that are; false: it cannot be, nor any after it. */
static inline bool plan_round(const Instance *instance, FlightPlan *plan, size_t most, size_t turn,
                              Tick now) {
  const size_t next = plan->n + most, n_stages = n_stages_of(instance);
  Microbatch *batch = &plan->batches[turn];
  Tick took[3] = {[2] = batch->send};
  const Tick at = later(now, plan->steps[plan->n].end);
  const int64_t context = batch->context;
  took[0] = next_stage(instance, batch, &took[1]);
  if (at > LATEST || took[0] > LONGEST || took[1] > LONGEST || took[2] > LONGEST) return false;
  plan->at[plan->n] = at;
  const Tick end = pass(plan, instance->pipeline, at, plan->steps[next - n_stages].end, took);
  plan->steps[next] = (PlannedStep){
      .end = end, .decided_at = at, .context = context, .extrapolation = batch->extrapolation};
  return true;
}

/* Plans so many rounds more, or the first of them, and sets the event; false: none is. */
static bool plan_more(Simulation *self, Instance *instance, int64_t rounds, uint64_t seq) {
  Flights *flights = instance->scheduler->flights;
  FlightPlan *plan = &flights->plan;
  const size_t n_stages = n_stages_of(instance), most = flights->most;
  const size_t horizon = plan->horizon, planned = plan->n;
  plan->horizon = HORIZON_MIN;
  if (rounds > (int64_t)horizon) {
    rounds = (int64_t)horizon;
    plan->horizon = horizon < HORIZON_MAX ? 2 * horizon : HORIZON_MAX;
  }
  const size_t until = planned + (size_t)rounds;
  reserve(self, plan, until, most, n_stages);
  Tick now = planned > 0 ? plan->at[planned - 1] : self->now;
  size_t turn = (planned + most) % n_stages;
  for (; plan->n < until; plan->n++, turn = turn_after(turn, n_stages)) {
    plan->closed = !plan_round(instance, plan, most, turn, now);
    if (plan->closed) break;
    now = plan->at[plan->n];
  }
  if (plan->n == planned) return false;
  agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, later(now, plan->steps[plan->n].end),
              seq);
  return true;
}

bool flights_plan(Simulation *self, Instance *instance, int64_t rounds, uint64_t seq) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  plan->n = plan->done = 0;
  reserve(self, plan, 0, instance->scheduler->flights->most, n_stages_of(instance));
  gather(self, instance);
  return plan_more(self, instance, rounds, seq);
}

bool flights_plan_on(Simulation *self, Instance *instance, uint64_t seq) {
  const Flights *flights = instance->scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  const int64_t left = flights->repeats - (int64_t)(plan->n - plan->done);
  if (plan->n == 0 || plan->n >= PLAN_MAX || plan->closed || left <= 0) return false;
  return plan_more(self, instance, left, seq);
}

/* --- bringing the instance up to date */

static void take_blocks(Simulation *self, Instance *instance, const Microbatch *batch) {
  const bool late = instance->lag > 0; // tokens are known a step late
  for (size_t i = 0; i < batch->n; i++) {
    const RequestIx ix = batch->items[i].request;
    const Request *request = &self->requests.slots[ix];
    const int64_t tokens = decided_tokens(instance, request) + batch->n_new;
    const bool begins = blocks_of(instance, tokens) > blocks_of(instance, tokens - 1);
    const bool fills =
        late ? begins : blocks_of(instance, tokens + 1) > blocks_of(instance, tokens);
    if (begins) sim_hold_block_of_run(self, instance, ix);
    if (fills) sim_register_blocks(self, instance, ix, tokens - late);
  }
}

/* The parts of its requests, as those of a step whose `end` is now, of which there are others
 * before. */
static void end_parts(Simulation *self, Instance *instance, const Microbatch *batch) {
  instance->run.seqs = (int64_t)batch->n;
  instance->run.done = 1;
  parts_iterations_end(self, instance, false);
  for (size_t i = 0; i < batch->n; i++) {
    const RequestIx ix = batch->items[i].request;
    const int64_t made = self->requests.slots[ix].generated_tokens + batch->n_ended + 1;
    parts_left(self, instance, ix, made);
    parts_wait(self, ix, CAUSE_decode_batch);
  }
}

static void begin_parts(Simulation *self, const Instance *instance, const Microbatch *batch) {
  for (size_t i = 0; i < batch->n; i++) {
    parts_joined(self, instance, batch->items[i].request);
    self->parts[batch->items[i].request].tokens += batch->n_ended;
  }
}

/* What the mean of one GPU is in a step. */
static int64_t milliwatts_of(const Instance *instance, const Microbatch *batch,
                             const PlannedStep *step) {
  const int64_t n = (int64_t)batch->n;
  const BatchShape shape = {.decode_seqs = n, .context_tokens = step->context, .logit_seqs = n};
  return power_of_iteration(instance->perfmodel, &shape, NULL);
}

/* The oldest step of a round ends, and the one after it is what the instance computes. */
static inline void end_step(Simulation *self, Instance *instance, size_t round, Microbatch *batch,
                            const Microbatch *begins) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  DecodeRun *run = &instance->run;
  InstanceTotals *totals = &instance->totals;
  const Tick at = plan->at[round], ticks = at - plan->began_at, gap = at - batch->last_token_at;
  const int64_t n = (int64_t)batch->n;
  if (batch->n_ended == 0) batch->first_end = at;
  batch->ticks += ticks;
  batch->last_token_at = at;
  if (batch->n_counted > 0) histogram_add(&self->metrics.tbt, gap, (uint64_t)batch->n_counted);
  if (batch->n_counted < n)
    histogram_add(&self->warm_up_metrics.tbt, gap, (uint64_t)(n - batch->n_counted));
  batch->microseconds += microseconds_between(plan->began_at, at);
  totals->milliwatt_ticks += (Total)ticks * run->milliwatts;
  totals->decode_ticks += ticks;
  totals->decode_iterations++;
  totals->decode_tokens += n;
  if (self->keeps_parts) end_parts(self, instance, batch);
  batch->n_ended++;
  const PlannedStep *next = &plan->steps[round + 1];
  run->modelled = later(next->end, at) - at;
  totals->extrapolated_iterations[next->extrapolation]++;
  totals->extrapolated_ticks[next->extrapolation] += run->modelled;
  if (instance->perfmodel->power) run->milliwatts = milliwatts_of(instance, begins, next);
  plan->began_at = at;
}

/* Rounds until `until` happen, each at its time. */
static void go_through(Simulation *self, Instance *instance, size_t until) {
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  const size_t n_stages = n_stages_of(instance);
  const Tick now = self->now;
  size_t turn = plan->done % n_stages;
  for (size_t round = plan->done; round < until; round++) {
    Microbatch *batch = &plan->batches[turn];
    turn = turn_after(turn, n_stages);
    Microbatch *begins = &plan->batches[turn], *decided = instance->lag > 0 ? begins : batch;
    self->now = plan->at[round];
    end_step(self, instance, round, batch, begins);
    decided->n_new++;
    if (instance->cache) take_blocks(self, instance, decided);
    if (self->keeps_parts) begin_parts(self, instance, begins);
  }
  self->now = now;
}

/* Its requests have the tokens of steps that ended, and blocks for those that were decided. */
static void update_requests(Simulation *self, Instance *instance, const Microbatch *batch,
                            uint32_t newest) {
  int64_t blocks = 0;
  if (batch->n_ended + batch->n_new == 0) return;
  histogram_add(instance->batch_tokens, (int64_t)batch->n, batch->microseconds);
  for (size_t i = 0; i < batch->n; i++) {
    const RequestIx ix = batch->items[i].request;
    Request *request = &self->requests.slots[ix];
    const int64_t tokens = decided_tokens(instance, request) + batch->n_new;
    if (batch->n_ended > 0) {
      if (request_has_one_token(request))
        histogram_add(&sim_books(self, request)->second_token,
                      batch->first_end - request->last_token_at, 1);
      request->last_token_at = batch->last_token_at;
      request->computing_ticks += batch->ticks;
      request->generated_tokens += (int32_t)batch->n_ended;
    }
    if (instance->lag > 0) request->ahead += (int16_t)(batch->n_new - batch->n_ended);
    request->decided_step = newest;
    if (instance->cache) continue;
    const int64_t more = blocks_of(instance, tokens) - request->kv_blocks;
    request->kv_blocks += (int32_t)more;
    blocks += more;
  }
  if (blocks > 0) sim_take_blocks_of_run(self, instance, blocks);
}

/* Those in flight, of which `oldest` is the first. */
static void update_steps(Simulation *self, Instance *instance, size_t oldest) {
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  const size_t n_stages = n_stages_of(instance), most = flights->most;
  flights->first = (plan->first + oldest) % scheduler->n_places;
  for (size_t i = oldest; i < oldest + most; i++) {
    Step *step = in_flight(scheduler, i - oldest);
    const Microbatch *batch = &plan->batches[i % n_stages];
    const PlannedStep *planned = &plan->steps[i];
    const bool repeats = i >= oldest + n_stages; // the requests of the oldest
    const bool of_first = plan->apart && i == n_stages;
    const size_t spare = plan->apart ? 0 : n_stages;
    const size_t place = of_first ? n_stages : repeats ? spare : i % n_stages;
    const int64_t n = (int64_t)batch->n;
    step->items = plan->items[place];
    step->items_capacity = plan->items_capacity[place];
    if (repeats) {
      ARENA_RESERVE(self->arena, step->items, step->items_capacity, batch->n);
      memcpy(step->items, batch->items, batch->n * sizeof *step->items);
      plan->items[place] = step->items;
      plan->items_capacity[place] = step->items_capacity;
    }
    if (i < most) continue; // it was in flight before
    step->n_items = batch->n;
    step->number = plan->number + (uint32_t)i;
    step->shape =
        (BatchShape){.decode_seqs = n, .context_tokens = planned->context, .logit_seqs = n};
    step->decided_at = planned->decided_at;
    step->end = planned->end;
    step->extrapolation = planned->extrapolation;
    step->n_in_flight = (int64_t)most;
    flights->sampled_at[step->number % (uint32_t)n_stages] = planned->end;
  }
  flights->landed = plan->number + (uint32_t)oldest - 1;
  scheduler->current = in_flight(scheduler, 0);
  scheduler->next = in_flight(scheduler, most - 1);
}

/* The oldest step is what the instance computes, as sim_begin_steps has it. */
static void update_run(Instance *instance) {
  const Step *step = instance->scheduler->current;
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  DecodeRun *run = &instance->run;
  run->began_at = run->part_began_at = plan->began_at;
  run->seqs = run->tokens = step->shape.decode_seqs;
  run->context = step->shape.context_tokens;
  run->done = 0;
  run->series = run->compute = (Series){.first = later(step->end, plan->began_at) - plan->began_at};
  run->extrapolation = step->extrapolation;
}

/* The state is that of after so many rounds of the plan. */
static void advance(Simulation *self, Instance *instance, size_t until) {
  Scheduler *scheduler = instance->scheduler;
  FlightPlan *plan = &scheduler->flights->plan;
  const size_t n_stages = n_stages_of(instance), more = until - plan->done;
  if (more == 0) return;
  for (size_t i = 0; i < n_stages; i++) {
    plan->batches[i].ticks = 0;
    plan->batches[i].microseconds = 0;
    plan->batches[i].n_ended = plan->batches[i].n_new = 0;
  }
  go_through(self, instance, until);
  const size_t newest = until + scheduler->flights->most - 1;
  for (size_t i = 0; i < n_stages; i++) {
    const size_t of_batch = newest - (newest - i) % n_stages;
    update_requests(self, instance, &plan->batches[i], plan->number + (uint32_t)of_batch);
  }
  update_steps(self, instance, until);
  update_run(instance);
  scheduler->number += (uint32_t)more;
  scheduler->n_steps += (int64_t)more;
  scheduler->flights->repeats -= (int64_t)more;
  memcpy(instance->pipeline->free_at, plan->free_at + (until - 1) * n_stages,
         n_stages * sizeof *plan->free_at);
  plan->done = until;
}

/* Rounds that have happened by now: one of this very tick only if its event would have been handled
 * before the present one. */
static size_t happened(const Simulation *self, const Instance *instance) {
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  size_t n = plan->done, end = plan->n;
  while (n < end) { // those before `n` were sooner, those from `end` on were not
    const size_t middle = n + (end - n) / 2;
    if (plan->at[middle] < self->now)
      n = middle + 1;
    else
      end = middle;
  }
  if (n == plan->n || plan->at[n] > self->now) return n;
  const Event *event = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix);
  assert(event);
  while (event->order <= self->reached && n < plan->n && plan->at[n] == self->now)
    n++;
  return n;
}

void flights_catch_up_plan(Simulation *self, Instance *instance) {
  if (instance->scheduler->flights->plan.n > 0) advance(self, instance, happened(self, instance));
}

bool flights_end_plan(Simulation *self, Instance *instance) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  if (plan->n == 0) return false;
  advance(self, instance, plan->n);
  plan->n = 0;
  return true;
}

void flights_cut(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  FlightPlan *plan = &flights->plan;
  if (plan->n > 0) {
    advance(self, instance, happened(self, instance));
    const uint64_t seq = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix)->seq;
    const Tick end = plan->steps[plan->done].end;
    agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, later(end, plan->began_at), seq);
    if (plan->done < plan->n) plan->horizon = HORIZON_MIN;
    plan->n = 0;
  }
  flights->repeats = 0;
}

int64_t flights_growth(const Simulation *self, const Instance *instance) {
  const Flights *flights = instance->scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  if (plan->n == 0) return 0;
  const size_t n_stages = n_stages_of(instance), from = plan->done + flights->most;
  const size_t until = happened(self, instance) + flights->most;
  int64_t blocks = 0;
  for (size_t i = from; i < until && i < from + n_stages; i++) {
    const Microbatch *batch = &plan->batches[i % n_stages];
    const int64_t n_new = (int64_t)((until - i + n_stages - 1) / n_stages);
    for (size_t k = 0; k < batch->n; k++) {
      const Request *request = &self->requests.slots[batch->items[k].request];
      blocks += blocks_of(instance, decided_tokens(instance, request) + n_new) - request->kv_blocks;
    }
  }
  return blocks;
}
