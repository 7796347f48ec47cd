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

/* Stages of steps that are planned take less, and they begin sooner, so that a plan does not come
 * near the end of simulated time. */
static const Tick LONGEST = TICK_MAX >> 20, LATEST = TICK_MAX >> 2;

void flight_plan_init(FlightPlan *self, int64_t n_stages, size_t n_places, Arena *arena) {
  *self = (FlightPlan){.batches = ARENA_ARRAY(arena, Microbatch, n_stages),
                       .items = ARENA_ARRAY(arena, ScheduledItem *, n_places),
                       .items_capacity = ARENA_ARRAY(arena, size_t, n_places),
                       .horizon = HORIZON_MIN};
}

static Tick later(Tick a, Tick b) {
  return a > b ? a : b;
}

/* Whose turn it is after the microbatch `i`. */
static inline size_t turn_after(size_t i, size_t n_stages) {
  return i + 1 < n_stages ? i + 1 : 0;
}

/* --- planning */

/* Those of its requests that are gone are not among its items any more. */
static void forget_gone(Step *step) {
  size_t n = 0;
  if (step->n_thrown[0] + step->n_thrown[1] == 0) return;
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request != REQUEST_NONE) step->items[n++] = step->items[i];
  step->n_items = n;
}

/* Context of the next step that has the requests of a newest one. */
static int64_t next_context(const Simulation *self, const Instance *instance, const Step *step) {
  int64_t tokens = step->shape.context_tokens + (int64_t)step->n_items;
  if (step->shape.decode_seqs == (int64_t)step->n_items) return tokens;
  tokens = 0;
  for (size_t i = 0; i < step->n_items; i++)
    tokens += flights_decided_tokens(instance, &self->requests.slots[step->items[i].request]) + 1;
  return tokens;
}

/* Microbatches are as steps in flight have them. */
static void gather(const Simulation *self, const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  FlightPlan *plan = &scheduler->flights->plan;
  const size_t n_stages = flights_stages(instance), most = scheduler->flights->most;
  plan->number = flights_step(scheduler, 0)->number;
  plan->first = scheduler->flights->first;
  plan->began_at = instance->run.part_began_at;
  for (size_t i = 0; i < most; i++) {
    Step *step = flights_step(scheduler, i);
    Microbatch *batch = &plan->batches[i % n_stages];
    forget_gone(step);
    plan->items[i] = step->items;
    plan->items_capacity[i] = step->items_capacity;
    const int64_t tokens = step->shape.prefill_tokens + step->shape.decode_seqs;
    plan->steps[i] = (PlannedStep){.end = tokens > 0 ? step->end : 0,
                                   .decided_at = step->decided_at,
                                   .seqs = tokens,
                                   .context = step->shape.context_tokens,
                                   .extrapolation = step->extrapolation};
    batch->context = next_context(self, instance, step);
    if (i >= n_stages) { // it has the same as the first, or is not gone through
      plan->apart = !step_decodes_alone(step, (int64_t)step->n_items);
      continue;
    }
    batch->items = step->items;
    batch->n = step->n_items;
    batch->left = 0;
    batch->send = tick_nearest(instance->perfmodel->send * (int64_t)step->n_items);
    if (batch->n > 0)
      batch->last_token_at = self->requests.slots[step->items[0].request].last_token_at;
    batch->n_counted = 0;
    batch->rests = false;
    for (size_t k = 0; k < batch->n; k++)
      batch->n_counted += sim_counts(self, &self->requests.slots[batch->items[k].request]);
  }
}

/* The piece of the performance model that the next step of a microbatch begins. */
static void begin_piece(const Instance *instance, Microbatch *batch) {
  const int64_t seqs = (int64_t)batch->n, context = batch->context;
  const PerfModel *model = instance->perfmodel;
  const DecodePiece *piece = perfmodel_decode(model, seqs, context);
  batch->stages = decode_stages_of(model, piece, seqs, context, instance->pipeline->n_stages);
  batch->extrapolation = piece->extrapolation;
  batch->left = (piece->end - context) / seqs + ((piece->end - context) % seqs > 0);
}

/* What the next step of a microbatch takes in a stage, and in the last one. */
static inline Tick next_stage(const Instance *instance, Microbatch *batch, Tick *ret_last) {
  if (batch->left == 0) begin_piece(instance, batch);
  batch->left--;
  batch->context += (int64_t)batch->n;
  return decode_stages_next(&batch->stages, ret_last);
}

/* As pipeline_pass and pipeline_await have it: each stage was free at `before`, and is at `free_at`
 * after a step that `took` so much in a stage, in the last one, and to be handed on. When it leaves
 * the last stage. */
static inline Tick pass(Tick *free_at, const Tick *before, size_t n_stages, Tick now, Tick awaited,
                        const Tick took[3]) {
  Tick at = now;
  for (size_t s = 0; s < n_stages - 1; s++) {
    at = later(later(at, before[s]), awaited) + took[0];
    free_at[s] = at;
    at += took[2];
  }
  return free_at[n_stages - 1] = later(at, before[n_stages - 1]) + took[1];
}

/* The same of a step without tokens. */
static void stay(Tick *free_at, const Tick *before, size_t n_stages, Tick awaited) {
  for (size_t s = 0; s < n_stages; s++)
    free_at[s] = s + 1 < n_stages ? later(before[s], awaited) : before[s];
}

static void reserve(Simulation *self, FlightPlan *plan, size_t rounds, size_t most,
                    size_t n_stages) {
  ARENA_RESERVE(self->arena, plan->steps, plan->steps_capacity, rounds + most);
  ARENA_RESERVE(self->arena, plan->at, plan->at_capacity, rounds);
  ARENA_RESERVE(self->arena, plan->free_at, plan->free_at_capacity, rounds * n_stages);
}

/* Plans rounds behind those that are, until there are so many; false: one cannot be, nor any after
 * it. In each the engine waits for the oldest step, if that has tokens, sleeps if the newest has
 * none, and decides the next. */
static bool plan_rounds(const Simulation *self, const Instance *instance, size_t until) {
  const size_t most = instance->scheduler->flights->most, n_stages = flights_stages(instance);
  const Tick idle_sleep = instance->scheduler->limits.idle_sleep;
  FlightPlan *plan = &instance->scheduler->flights->plan;
  PlannedStep *const steps = plan->steps;
  Tick *const ends = plan->at, *free_at = plan->free_at + plan->n * n_stages;
  const Tick *before = plan->n > 0 ? free_at - n_stages : instance->pipeline->free_at;
  Tick now = plan->n > 0 ? steps[plan->n + most - 1].decided_at : self->now;
  size_t n = plan->n, turn = (n + most) % n_stages;
  for (; n < until; n++, turn = turn_after(turn, n_stages), free_at += n_stages) {
    Microbatch *batch = &plan->batches[turn];
    const PlannedStep *oldest = &steps[n];
    PlannedStep *next = &steps[n + most];
    const Tick awaited = steps[n + most - n_stages].end;
    const Tick at = oldest->seqs > 0 ? later(now, oldest->end) : now;
    const Tick decided_at = next[-1].seqs > 0 ? at : at + idle_sleep;
    if (decided_at > LATEST) break;
    ends[n] = at;
    next->decided_at = decided_at;
    next->context = batch->context;
    next->seqs = (int64_t)batch->n;
    next->end = 0;
    next->extrapolation = EXTRAPOLATION_NONE;
    if (batch->n > 0) {
      Tick took[3] = {[2] = batch->send};
      took[0] = next_stage(instance, batch, &took[1]);
      if (took[0] > LONGEST || took[1] > LONGEST || took[2] > LONGEST) break;
      next->end = pass(free_at, before, n_stages, decided_at, awaited, took);
      next->extrapolation = batch->extrapolation;
    } else {
      stay(free_at, before, n_stages, awaited);
    }
    before = free_at;
    now = decided_at;
  }
  plan->n = n;
  return n == until;
}

/* When the oldest step ends, after so many rounds. */
static Tick end_of_oldest(const FlightPlan *plan, size_t rounds, size_t most) {
  return later(plan->steps[rounds + most - 1].decided_at, plan->steps[rounds].end);
}

/* Whether the oldest step after so many rounds, up to `most` more than are planned, has tokens. */
static bool awaits_tokens(const FlightPlan *plan, size_t rounds, size_t most, size_t n_stages) {
  return rounds < plan->n + most ? plan->steps[rounds].seqs > 0
                                 : plan->batches[rounds % n_stages].n > 0;
}

/* Plans so many rounds more, or the first of them, and sets the event; false: none is. */
static bool plan_more(Simulation *self, Instance *instance, int64_t rounds, uint64_t seq) {
  Flights *flights = instance->scheduler->flights;
  FlightPlan *plan = &flights->plan;
  const size_t n_stages = flights_stages(instance), most = flights->most;
  const size_t horizon = plan->horizon, planned = plan->n;
  plan->horizon = HORIZON_MIN;
  if (rounds > (int64_t)horizon) {
    rounds = (int64_t)horizon;
    plan->horizon = horizon < HORIZON_MAX ? 2 * horizon : HORIZON_MAX;
  }
  size_t until = planned + (size_t)rounds;
  while (until > planned && !awaits_tokens(plan, until, most, n_stages))
    until--; // the event is one that the engine waits for
  reserve(self, plan, until, most, n_stages);
  plan->closed = !plan_rounds(self, instance, until);
  while (plan->n > planned && plan->steps[plan->n].seqs == 0)
    plan->n--;
  if (plan->n == planned) return false;
  agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, end_of_oldest(plan, plan->n, most),
              seq);
  return true;
}

bool flights_plan(Simulation *self, Instance *instance, int64_t rounds, uint64_t seq) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  plan->n = plan->done = 0;
  plan->ended = false;
  reserve(self, plan, 0, instance->scheduler->flights->most, flights_stages(instance));
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

/* Tokens of a request whose KV there is once the newest step of its microbatch has ended, if
 * `n_new` steps of that are decided since the state was brought up to date. */
static int64_t newest_tokens(const Instance *instance, const Microbatch *batch,
                             const Request *request, int64_t n_new) {
  return flights_decided_tokens(instance, request) - batch->rests + n_new;
}

static void take_blocks(Simulation *self, Instance *instance, const Microbatch *batch) {
  const bool late = instance->lag > 0; // tokens are known a step late
  for (size_t i = 0; i < batch->n; i++) {
    const RequestIx ix = batch->items[i].request;
    const Request *request = &self->requests.slots[ix];
    const int64_t tokens = newest_tokens(instance, batch, request, batch->n_new);
    const bool begins = blocks_of(instance, tokens) > blocks_of(instance, tokens - 1);
    const bool fills =
        late ? begins : blocks_of(instance, tokens + 1) > blocks_of(instance, tokens);
    if (begins) sim_hold_block_of_run(self, instance, ix);
    if (fills) sim_register_blocks(self, instance, ix, tokens - late);
  }
}

/* The parts of its requests, as those of a step whose `end` is now, of which there are others
 * before. */
static void end_parts(Simulation *self, Instance *instance, const Microbatch *batch, int64_t seqs) {
  instance->run.seqs = seqs;
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
static int64_t milliwatts_of(const Instance *instance, const PlannedStep *step) {
  const int64_t n = step->seqs;
  const BatchShape shape = {.decode_seqs = n, .context_tokens = step->context, .logit_seqs = n};
  return power_of_iteration(instance->perfmodel, &shape, NULL);
}

/* The oldest step of a round ends, and `next` is what the instance computes. */
static inline void end_step(Simulation *self, Instance *instance, size_t round,
                            const PlannedStep *next) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  Microbatch *batch = &plan->batches[round % flights_stages(instance)];
  DecodeRun *run = &instance->run;
  InstanceTotals *totals = &instance->totals;
  const Tick at = plan->at[round], ticks = at - plan->began_at, gap = at - batch->last_token_at;
  const int64_t n = (int64_t)batch->n, seqs = plan->steps[round].seqs;
  const uint64_t microseconds = microseconds_between(plan->began_at, at);
  if (batch->n_ended == 0) batch->first_end = at;
  batch->ticks += ticks;
  batch->last_token_at = at;
  if (batch->n_counted > 0) histogram_add(&self->metrics.tbt, gap, (uint64_t)batch->n_counted);
  if (batch->n_counted < n)
    histogram_add(&self->warm_up_metrics.tbt, gap, (uint64_t)(n - batch->n_counted));
  if (seqs == n)
    batch->microseconds += microseconds;
  else
    histogram_add(instance->batch_tokens, seqs, microseconds);
  totals->milliwatt_ticks += (Total)ticks * run->milliwatts;
  totals->decode_ticks += ticks;
  totals->decode_iterations++;
  totals->decode_tokens += n;
  totals->padding_tokens += seqs - n;
  if (self->keeps_parts) end_parts(self, instance, batch, seqs);
  batch->n_ended++;
  run->modelled = later(next->end, at) - at;
  totals->extrapolated_iterations[next->extrapolation]++;
  totals->extrapolated_ticks[next->extrapolation] += run->modelled;
  if (instance->perfmodel->power) run->milliwatts = milliwatts_of(instance, next);
  plan->began_at = at;
}

/* The oldest of a round is over. */
static void end_oldest(Simulation *self, Instance *instance, size_t round) {
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  if (plan->steps[round].seqs == 0) return;
  size_t next = round + 1;
  while (plan->steps[next].seqs == 0)
    next++;
  self->now = plan->at[round];
  end_step(self, instance, round, &plan->steps[next]);
  if (self->keeps_parts)
    begin_parts(self, instance, &plan->batches[next % flights_stages(instance)]);
}

/* Rounds until `until` happen, each at its time, and of that the end of the oldest if it `ended`.
 */
static void go_through(Simulation *self, Instance *instance, size_t until, bool ended) {
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  const size_t n_stages = flights_stages(instance), most = instance->scheduler->flights->most;
  const Tick now = self->now;
  size_t turn = (plan->done + most) % n_stages;
  for (size_t round = plan->done; round < until; round++, turn = turn_after(turn, n_stages)) {
    Microbatch *decided = &plan->batches[turn];
    if (round > plan->done || !plan->ended) end_oldest(self, instance, round);
    decided->n_new++;
    self->now = plan->steps[round + most].decided_at;
    if (instance->cache) take_blocks(self, instance, decided);
    instance->scheduler->n_steps += decided->n > 0;
  }
  if (ended && (until > plan->done || !plan->ended)) end_oldest(self, instance, until);
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
    const int64_t tokens = newest_tokens(instance, batch, request, batch->n_new);
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

/* Those in flight, of which `oldest` is the first and `newest` the last. */
static void update_steps(Simulation *self, Instance *instance, size_t oldest, size_t newest) {
  Scheduler *scheduler = instance->scheduler;
  Flights *flights = scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  const size_t n_stages = flights_stages(instance), most = flights->most;
  flights->first = (plan->first + oldest) % scheduler->n_places;
  for (size_t i = oldest; i < oldest + most; i++) {
    Step *step = flights_step(scheduler, i - oldest);
    const Microbatch *batch = &plan->batches[i % n_stages];
    const PlannedStep *planned = &plan->steps[i];
    const bool repeats = i >= oldest + n_stages; // the requests of the oldest
    const bool of_first = plan->apart && i == n_stages;
    const size_t spare = plan->apart ? 0 : n_stages;
    const size_t place = of_first ? n_stages : repeats ? spare : i % n_stages;
    const int64_t n = (int64_t)batch->n;
    step->items = plan->items[place];
    step->items_capacity = plan->items_capacity[place];
    if (repeats && batch->n > 0) {
      ARENA_RESERVE(self->arena, step->items, step->items_capacity, batch->n);
      memcpy(step->items, batch->items, batch->n * sizeof *step->items);
      plan->items[place] = step->items;
      plan->items_capacity[place] = step->items_capacity;
    }
    if (i > newest) step->n_items = 0;    // it is not decided yet
    if (i < most || i > newest) continue; // it was in flight before
    step->n_items = batch->n;
    step->n_thrown[0] = step->n_thrown[1] = 0;
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
  flights->n = newest + 1 - oldest;
  size_t current = 0, vain = 0;
  while (plan->steps[oldest + current].seqs == 0)
    current++;
  while (plan->steps[newest - vain].seqs == 0)
    vain++;
  scheduler->current = flights_step(scheduler, current);
  scheduler->next = flights_step(scheduler, flights->n - 1);
  flights->ran = vain == 0;
  flights->sleeps = flights->n < most;
  flights->n_vain = vain - (vain > 0 && !flights->sleeps);
}

/* The oldest step is what the instance computes, as sim_begin_steps has it. */
static void update_run(Instance *instance) {
  const Step *step = instance->scheduler->current;
  const FlightPlan *plan = &instance->scheduler->flights->plan;
  DecodeRun *run = &instance->run;
  run->began_at = run->part_began_at = plan->began_at;
  run->seqs = step->shape.decode_seqs;
  run->tokens = (int64_t)step->n_items;
  instance->padding.decode_seqs = run->seqs - run->tokens;
  run->context = step->shape.context_tokens;
  run->done = 0;
  run->series = run->compute = (Series){.first = later(step->end, plan->began_at) - plan->began_at};
  run->extrapolation = step->extrapolation;
}

/* The state is that of after so many rounds of the plan, and the end of the oldest step if the next
 * `ended` that. */
static void advance(Simulation *self, Instance *instance, size_t until, bool ended) {
  Scheduler *scheduler = instance->scheduler;
  FlightPlan *plan = &scheduler->flights->plan;
  const size_t n_stages = flights_stages(instance), more = until - plan->done;
  if (more == 0 && ended == plan->ended) return;
  for (size_t i = 0; i < n_stages; i++) {
    plan->batches[i].ticks = 0;
    plan->batches[i].microseconds = 0;
    plan->batches[i].n_ended = plan->batches[i].n_new = 0;
  }
  go_through(self, instance, until, ended);
  const size_t newest = until + scheduler->flights->most - 1;
  for (size_t i = 0; i < n_stages; i++) {
    const size_t of_batch = newest - (newest - i) % n_stages;
    update_requests(self, instance, &plan->batches[i], plan->number + (uint32_t)of_batch);
  }
  update_steps(self, instance, until + ended, newest);
  update_run(instance);
  scheduler->number += (uint32_t)more;
  scheduler->flights->repeats -= (int64_t)more;
  if (more > 0)
    memcpy(instance->pipeline->free_at, plan->free_at + (until - 1) * n_stages,
           n_stages * sizeof *plan->free_at);
  plan->done = until;
  plan->ended = ended;
  for (size_t i = 0; i < n_stages; i++)
    plan->batches[i].rests = ended && instance->lag == 0 && i == until % n_stages;
}

/* Rounds that have happened by now, and whether the oldest step of the next has ended: what is of
 * this very tick only if its event would have been handled before the present one. */
static size_t happened(const Simulation *self, const Instance *instance, bool *ret_ended) {
  const Flights *flights = instance->scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  const Event *event = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix);
  assert(event);
  const Tick until = self->now + (event->order <= self->reached); // what is before that is over
  size_t n = plan->done, end = plan->n;
  while (n < end) { // those before `n` were sooner, those from `end` on were not
    const size_t middle = n + (end - n) / 2;
    if (plan->steps[middle + flights->most].decided_at < until)
      n = middle + 1;
    else
      end = middle;
  }
  *ret_ended = n < plan->n && plan->at[n] < until;
  return n;
}

void flights_catch_up_plan(Simulation *self, Instance *instance) {
  if (instance->scheduler->flights->plan.n == 0) return;
  bool ended;
  const size_t n = happened(self, instance, &ended);
  advance(self, instance, n, ended);
}

bool flights_end_plan(Simulation *self, Instance *instance) {
  FlightPlan *plan = &instance->scheduler->flights->plan;
  if (plan->n == 0) return false;
  advance(self, instance, plan->n, false);
  plan->n = 0;
  return true;
}

void flights_cut(Simulation *self, Instance *instance) {
  Flights *flights = instance->scheduler->flights;
  FlightPlan *plan = &flights->plan;
  if (plan->n > 0) {
    flights_catch_up_plan(self, instance);
    const uint64_t seq = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix)->seq;
    const Tick at = plan->ended ? plan->steps[plan->done + flights->most].decided_at
                                : end_of_oldest(plan, plan->done, flights->most);
    agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, at, seq);
    if (plan->done < plan->n) plan->horizon = HORIZON_MIN;
    plan->n = 0;
  }
  flights->repeats = 0;
}

int64_t flights_growth(const Simulation *self, const Instance *instance) {
  const Flights *flights = instance->scheduler->flights;
  const FlightPlan *plan = &flights->plan;
  if (plan->n == 0) return 0;
  const size_t n_stages = flights_stages(instance), from = plan->done + flights->most;
  bool ended;
  const size_t until = happened(self, instance, &ended) + flights->most;
  int64_t blocks = 0;
  for (size_t i = from; i < until && i < from + n_stages; i++) {
    const Microbatch *batch = &plan->batches[i % n_stages];
    const int64_t n_new = (int64_t)((until - i + n_stages - 1) / n_stages);
    for (size_t k = 0; k < batch->n; k++) {
      const Request *request = &self->requests.slots[batch->items[k].request];
      const int64_t tokens = newest_tokens(instance, batch, request, n_new);
      blocks += blocks_of(instance, tokens) - request->kv_blocks;
    }
  }
  return blocks;
}
