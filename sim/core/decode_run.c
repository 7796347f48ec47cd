/* See decode_run.h. */
#include "sim/core/decode_run.h"
#include "sim/books/observing.h"
#include "sim/core/counting.h"
#include "sim/core/flight_state.h"
#include "sim/core/lanes.h"
#include "sim/core/limits.h"
#include "sim/core/loop.h"
#include "sim/core/tier.h"
#include <assert.h>

/* --- time */

Tick sim_pass_pipeline(Simulation *self, const Instance *instance, const BatchShape *shape,
                       Tick *ret_stages, Extrapolation *ret_extrapolation) {
  const PerfModel *model = instance->perfmodel;
  const int64_t n = instance->pipeline->n_stages;
  const bool executed = self->config->executor;
  Tick last;
  const Tick stage =
      executed ? sim_execute_stage(self, instance, shape, &last)
               : perfmodel_stage(model, shape, &instance->busiest, n, &last, ret_extrapolation);
  if (stage < 0) return stage;
  const Tick send =
      executed ? 0 : tick_nearest(model->send * (shape->prefill_tokens + shape->decode_seqs));
  lanes_drop_plan(self, instance->pipeline);
  return pipeline_pass(instance->pipeline, self->now, stage, last, send, ret_stages);
}

static bool drafts_tokens(const DecodeRun *self) {
  return self->drafts > 0 || self->beside > 0;
}

/* Whether the model's pieces do not say how long a decode iteration lasts: in a pipeline, where
 * that hangs on the other lanes, of ranks in lockstep, with another clock, and with drafts. */
static bool asks(const Simulation *self, const Instance *instance) {
  return instance->pipeline || instance->lockstep || self->config->executor ||
         drafts_tokens(&instance->run);
}

/* Whether every decode iteration of an instance is an event. */
static bool steps(const Simulation *self, const Instance *instance) {
  return self->step || asks(self, instance);
}

/* `done` iterations beyond those that the batch knows of. */
Tick sim_iteration_ticks(Simulation *self, Instance *instance, const BatchShape *shape,
                         int64_t done) {
  Extrapolation extrapolation = EXTRAPOLATION_NONE;
  const PerfModel *model = instance->perfmodel;
  const Loop *loop = instance->loop;
  Tick ticks = loop->ticks              ? loop->ticks(self, instance, &extrapolation)
               : self->config->executor ? sim_execute(self, instance, shape, done)
               : instance->pipeline
                   ? sim_pass_pipeline(self, instance, shape, NULL, &extrapolation)
                   : perfmodel_iteration_on(model, shape, &instance->busiest, &extrapolation);
  if (instance->run.drafts > 0 && !loop->ticks && !self->config->executor)
    ticks += perfmodel_drafts(model, shape, instance->run.drafts);
  if (ticks >= 0 && !loop->ticks) ticks += instance->run.beside;
  if (ticks < 0) self->failed = true;
  if (ticks < 0 || sim_passes_the_end(self, (double)ticks)) return 1;
  assert(ticks > 0 || loop->ticks);
  instance->run.modelled = ticks;
  instance->run.extrapolation = extrapolation;
  instance->totals.extrapolated_iterations[extrapolation]++;
  instance->totals.extrapolated_ticks[extrapolation] += ticks;
  return ticks;
}

Tick sim_await_copies(Simulation *self, Instance *instance, Tick work) {
  const Tick stall = instance->copied_at - self->now;
  if (sim_passes_the_end(self, (double)stall + (double)work)) return 0;
  instance->totals.stall_ticks += stall;
  return stall;
}

/* Has the event of this instance's iteration been overtaken by those handled? Only asked when both
 * are at the same time. An arrival may come after events of a higher order that brought it. */
static bool comes_later(const Simulation *self, const Instance *instance) {
  const Event *end = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix);
  assert(end);
  return end->order > self->reached;
}

/* Iterations of the present part, of several, that end within so many ticks from its beginning. */
static int64_t ends_within(const DecodeRun *run, Tick elapsed) {
  if (!run->ends || run->part == 1) return series_ended(run->series, elapsed);
  const Tick at = run->part_began_at + elapsed;
  int64_t low = 0, high = run->part;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (run->ends[middle] <= at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Ticks of iteration `i` of the present part. */
static Tick part_at(const DecodeRun *run, int64_t i) {
  return run->ends && i > 0 ? sim_part_sum(run, i + 1) - sim_part_sum(run, i)
                            : series_at(run->series, i);
}

/* Iterations of the present part that have ended by now. One that ends this very tick has ended
 * only if its event would have been handled before the present one, so that --step agrees. */
static int64_t ended_in_part(const Simulation *self, const Instance *instance) {
  const DecodeRun *run = &instance->run;
  if (run->part == 1) return 0;
  const Tick elapsed = self->now - run->part_began_at;
  int64_t n = ends_within(run, elapsed);
  if (n > 0 && sim_part_sum(run, n) == elapsed && comes_later(self, instance)) n--;
  return n < run->part ? n : run->part - 1;
}

int64_t sim_begun_iterations(const Simulation *self, const Instance *instance) {
  return instance->run.done + ended_in_part(self, instance) + 1;
}

/* --- decode runs */

/* The most iterations that finishing sequences, memory and the batcher allow: the one that is
 * decided after the last of them must be as those before, but for its tokens. */
static int64_t run_limit(const Instance *instance) {
  const int64_t booked = instance->run.booked - instance->lag, review = instance->run.review;
  const int64_t until_finish = booked + batch_until_finish(&instance->batch) - instance->batch.tail;
  const int64_t most = review < until_finish ? review : until_finish;
  if (instance->batcher->reserves_output || most <= booked) return most;
  if (instance->kv_groups)
    return booked + kv_groups_fitting(instance->kv_groups, (int64_t)instance->batch.n_seqs,
                                      instance->free_blocks, most - booked);
  return booked + batch_fitting(&instance->batch, instance->free_blocks, most - booked);
}

/* Whether decodes may flow out of it (feature/flowing.c). */
static bool is_of_flow(const SimConfig *config, const Instance *instance) {
  const FlowOptions *flow = &config->flow;
  return flow->watermark > 0 && (instance->pool == &config->pools[flow->from] ||
                                 instance->pool == &config->pools[flow->to]);
}

static int64_t review_after(const Simulation *self, const Instance *instance) {
  int64_t review = INT64_MAX;
  if (instance->batcher->review) {
    const InstanceView view = sim_view(self, instance);
    review = instance->batcher->review(instance->batcher_options, instance->batcher_state, &view);
  }
  if (is_of_flow(self->config, instance) && self->config->flow.review < review)
    review = self->config->flow.review;
  return review;
}

/* Of the sequences, at the first iteration of the present part. */
static int64_t present_context(const DecodeRun *run) {
  return run->context + run->seqs * run->done;
}

/* Iterations of the present part if it goes as far as the piece of the model and the run's limit
 * do. */
static int64_t part_length(const Instance *instance, const DecodePiece *piece) {
  const int64_t n = instance->run.seqs, tokens = piece->end - present_context(&instance->run);
  int64_t left = instance->run.limit - instance->run.done;
  if (tokens < left * n) left = (tokens + n - 1) / n;
  return left < instance->run.most ? left : instance->run.most;
}

static const DecodePiece *present_piece(const Instance *instance) {
  return perfmodel_decode(instance->perfmodel, instance->run.seqs, present_context(&instance->run));
}

static bool series_passes_the_end(Simulation *self, Series series, int64_t n) {
  const double count = (double)n, steps = count * (count - 1) / 2;
  return sim_passes_the_end(self,
                            (double)(series.first + 1) * count + (double)(series.step + 1) * steps);
}

/* What iterations of a part draw, by the model that they begin with: of those that are asked for
 * one by one the mean. */
static void plan_power(const Simulation *self, Instance *instance, const BatchShape *shape) {
  const PerfModel *model = instance->perfmodel;
  DecodeRun *run = &instance->run;
  run->milliwatts = 0;
  run->power = (DecodePower){0};
  if (!model->power) return;
  if (asks(self, instance))
    run->milliwatts = power_of_iteration(model, shape, NULL);
  else
    run->power = power_of_decodes(model, run->seqs, present_piece(instance));
}

enum { MOST_ONE_BY_ONE = 1024 }; // iterations of a part

/* Where layers are in groups each iteration is rounded by itself (RULES.md, Groups of layers). */
static void round_one_by_one(Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  if (!instance->kv_groups || run->part == 1) return;
  ARENA_RESERVE(self->arena, run->ends, run->ends_capacity, (size_t)run->part);
  const FineTick step = series_step(run->series);
  FineTick fine = series_fine(run->series, 0) + SERIES_CARRY;
  Tick end = run->part_began_at;
  for (int64_t i = 0; i < run->part; i++, fine += step)
    run->ends[i] = end += (Tick)(fine >> FINE_BITS);
}

/* Sets up the next part of a run, over which the part before has left `carry`; its end is the
 * caller's to put into the agenda. */
static void begin_part(Simulation *self, Instance *instance, uint32_t carry) {
  DecodeRun *run = &instance->run;
  const int64_t n = run->seqs, context = present_context(run);
  const BatchShape shape = {.decode_seqs = n, .context_tokens = context, .logit_seqs = n};
  run->part_began_at = self->now;
  if (instance->kv_groups) carry = SERIES_CARRY;
  if (asks(self, instance)) {
    run->compute =
        (Series){.first = sim_iteration_ticks(self, instance, &shape, run->done - run->booked)};
    run->part = 1;
  } else {
    const DecodePiece *piece = present_piece(instance);
    const bool apart = instance->moves_kv && self->first_counted == UINT64_MAX;
    const int64_t most = instance->kv_groups ? MOST_ONE_BY_ONE : INT64_MAX;
    run->most = self->step || apart ? 1 : most; // a tier tells what it moved of a whole part
    run->compute = series_of(decode_piece_fine(piece, context), piece->slope * n, carry);
    run->part = part_length(instance, piece);
    assert(run->part > 0);
    if (series_passes_the_end(self, run->compute, run->part)) run->compute = (Series){.first = 1};
  }
  run->series = run->compute;
  run->planned_by = instance->perfmodel;
  plan_power(self, instance, &shape);
  round_one_by_one(self, instance);
  if (!instance->moves_kv) return;
  sim_plan_tier(self, instance, &shape);
  if (series_passes_the_end(self, run->series, run->part)) run->series = (Series){.first = 1};
}

/* A run that begins with copies, or for which somebody gave way, is one iteration long: the batcher
 * is asked about those who wait anew after each plan that moved KV out or in. */
static void wait_for_copies(Simulation *self, Instance *instance, bool made_room) {
  DecodeRun *run = &instance->run;
  run->stall = sim_stall(self, instance, series_sum(run->series, 1));
  if (run->stall == 0 && !made_room) return;
  run->series.first += run->stall;
  run->part = run->limit = 1;
  run->ends_soon = true;
}

/* Its run takes blocks from now on that nobody has looked for. */
static void stir(const Instance *instance) {
  if (instance->radix) radix_stir(instance->radix);
  if (instance->cache) prefix_cache_stir(instance->cache);
}

void sim_begin_run(Simulation *self, Instance *instance, bool made_room) {
  DecodeRun *run = &instance->run;
  instance->activity = ACTIVITY_DECODE;
  run->began_at = self->now;
  run->tokens = (int64_t)instance->batch.n_seqs;
  run->counted = sim_counted_seqs(self, instance);
  run->seqs = run->tokens + instance->padding.decode_seqs;
  run->context = instance->batch.context_tokens + instance->padding.context_tokens;
  run->done = run->booked = 0;
  run->stall = 0;
  run->ends_soon = run->goes_on = false;
  run->review = review_after(self, instance);
  run->limit = run_limit(instance);
  assert(run->limit > 0);
  stir(instance);
  const BatchShape shape = {
      .decode_seqs = run->seqs, .context_tokens = run->context, .logit_seqs = run->seqs};
  sim_observe_begin(self, instance, &shape, false);
  begin_part(self, instance, SERIES_CARRY);
  wait_for_copies(self, instance, made_room);
  agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(run));
  if (instance->pipeline) lanes_plan(self, instance->pipeline);
}

void sim_begin_steps(Simulation *self, Instance *instance, const BatchShape *shape, int64_t review,
                     bool goes_on) {
  DecodeRun *run = &instance->run;
  const uint32_t carry = goes_on ? series_after(run->compute, run->part).carry : SERIES_CARRY;
  instance->activity = ACTIVITY_DECODE;
  run->began_at = self->now;
  run->seqs = shape->decode_seqs;
  run->tokens = run->seqs - instance->padding.decode_seqs;
  run->context = shape->context_tokens;
  run->done = 0;
  run->booked = 1 + instance->lag;
  run->stall = 0;
  run->goes_on = goes_on;
  run->review = review;
  run->ends_soon = self->step || review <= 1;
  run->limit = run->ends_soon ? 1 : run_limit(instance);
  assert(run->limit > 0);
  stir(instance);
  sim_observe_begin(self, instance, shape, goes_on);
  begin_part(self, instance, carry);
  if (instance->adapters) wait_for_copies(self, instance, false);
  if (goes_on)
    agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(run), self->event.seq);
  else if (!instance->scheduler->flights || instance->scheduler->flights->repeats == 0)
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(run));
  if (instance->pipeline) lanes_plan(self, instance->pipeline);
}

/* To where the part ends now, in the place that its end has among events of one time. */
static void move_end(Simulation *self, const Instance *instance) {
  const uint64_t seq = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix)->seq;
  agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(&instance->run), seq);
}

void sim_cut_run(Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  if (instance->loop->cut) instance->loop->cut(self, instance);
  if (run->ends_soon) return;
  const int64_t part = ended_in_part(self, instance) + 1;
  if (instance->pipeline) lanes_shorten(self, instance, part);
  run->part = part;
  run->limit = run->done + run->part;
  run->ends_soon = true;
  if (instance->loop->decides_ahead)
    move_end(self, instance); // each step ends by itself in --step mode
  else
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(run));
}

void sim_replan_tier(Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  if (instance->activity != ACTIVITY_DECODE) return;
  const int64_t part = ended_in_part(self, instance) + 1;
  if (part == run->part) return;
  run->part = run->most = part;
  move_end(self, instance);
}

void sim_refit_run(Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  if (instance->activity != ACTIVITY_DECODE) return;
  if (instance->loop->cut) instance->loop->cut(self, instance);
  if (run->ends_soon || instance->batcher->reserves_output) return;
  const int64_t limit = run_limit(instance);
  if (limit == run->limit) return;
  run->limit = limit;
  stir(instance);
  if (instance->pipeline) lanes_shorten(self, instance, limit - run->done);
  if (steps(self, instance)) return;
  run->part = part_length(instance, present_piece(instance));
  round_one_by_one(self, instance);
  move_end(self, instance);
}

/* Does the run end here? In --step mode the plain question is asked of every sequence. */
static bool run_over(const Simulation *self, const Instance *instance) {
  const DecodeRun *run = &instance->run;
  if (run->ends_soon || run->done == run->review) return true;
  if (!self->step) return run->done == run->limit;
  const Request *slots = self->requests.slots;
  const Batch *batch = &instance->batch;
  const int64_t done = run->done - run->booked; // that the batch does not know of
  int64_t growth = 0;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const Request *request = &slots[batch->entries[i].request];
    if (batch_remaining(batch, request) == done) return true;
    const int64_t context = batch_context(batch, request);
    growth += blocks_of(instance, context + done) - blocks_of(instance, context - 1);
  }
  return !instance->batcher->reserves_output && growth > instance->free_blocks;
}

/* --- what is done */

void sim_book_batch_tokens(Instance *instance, int64_t tokens, Tick from, Tick to) {
  if (from < instance->counted_from) from = instance->counted_from;
  if (from < to) histogram_add(instance->batch_tokens, tokens, microseconds_between(from, to));
}

/* Of iteration `i` of a part that are asked for one by one; of the last from there on. */
static int64_t milliwatts_at(const DecodeRun *run, int64_t i) {
  if (i == 0 || run->part <= 1) return run->milliwatts;
  if (i >= run->part) i = run->part - 1;
  const BatchShape shape = {.decode_seqs = run->seqs,
                            .context_tokens = present_context(run) + run->seqs * i,
                            .logit_seqs = run->seqs};
  return power_of_iteration(run->planned_by, &shape, NULL);
}

/* Milliwatt-ticks of n iterations of the present part, in the `ticks` that they take. */
static Total drawn(const DecodeRun *run, int64_t n, Tick ticks) {
  if (run->milliwatts == 0) return decode_power_sum(run->power, n, ticks);
  if (n <= 1) return (Total)ticks * run->milliwatts;
  Total sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (Total)part_at(run, i) * milliwatts_at(run, i);
  return sum;
}

/* Of `ticks` of iteration `n` of the part, which is broken off: they draw the mean of it. A step
 * of a pipeline that has left the stages has no ticks of its own. */
static Total drawn_of_broken(const DecodeRun *run, int64_t n, Tick ticks) {
  if (run->milliwatts > 0) return (Total)ticks * milliwatts_at(run, n);
  const Tick whole = n < run->part ? part_at(run, n) : series_at(run->series, n);
  return whole > 0 ? (Total)ticks * (int64_t)(drawn(run, 1, whole) / whole) : 0;
}

/* Iterations of the present part. */
static void add_iterations(const Simulation *self, const Instance *instance, int64_t n,
                           InstanceTotals *totals) {
  const DecodeRun *run = &instance->run;
  const Tick ticks = sim_part_sum(run, n);
  totals->decode_ticks += ticks;
  totals->milliwatt_ticks += drawn(run, n, ticks);
  totals->decode_iterations += n;
  totals->decode_tokens += n * run->tokens;
  totals->padding_tokens += n * (run->seqs - run->tokens);
  if (asks(self, instance)) { // the first is booked by iteration_ticks
    if (n <= 1) return;
    totals->extrapolated_iterations[run->extrapolation] += n - 1;
    totals->extrapolated_ticks[run->extrapolation] += ticks - sim_part_sum(run, 1);
    return;
  }
  const Extrapolation extrapolation = present_piece(instance)->extrapolation;
  totals->extrapolated_iterations[extrapolation] += n;
  totals->extrapolated_ticks[extrapolation] +=
      instance->kv_groups && n > 1 ? ticks : series_sum(run->compute, n);
}

static void add_gaps(const DecodeRun *run, int64_t skip, int64_t n_seqs, Metrics *metrics) {
  if (run->part > 1 && run->ends)
    histogram_add_gaps(&metrics->tbt, skip ? run->ends[0] : run->part_began_at, run->ends + skip,
                       (size_t)(run->part - skip), (uint64_t)n_seqs);
  else if (run->part > skip && n_seqs > 0)
    histogram_add_series(&metrics->tbt, series_fine(run->series, skip), series_step(run->series),
                         (uint64_t)(run->part - skip), (uint64_t)n_seqs);
}

/* A part of a run has ended: its time, and the gaps but for the run's first iteration, whose are
 * booked one by one. */
static void book_part(Simulation *self, Instance *instance) {
  const DecodeRun *run = &instance->run;
  const int64_t skip = run->done == 0;
  if (skip) instance->loop->book_gaps(self, instance, run->began_at + series_sum(run->series, 1));
  add_gaps(run, skip, run->counted, &self->metrics);
  add_gaps(run, skip, run->tokens - run->counted, &self->warm_up_metrics);
  sim_book_batch_tokens(instance, run->seqs, run->part_began_at, sim_part_end(run));
  add_iterations(self, instance, run->part, &instance->totals);
}

void sim_leave_part_out(const Simulation *self, Instance *instance) {
  const int64_t n = ended_in_part(self, instance) + 1;
  add_iterations(self, instance, n, &instance->before);
  instance->counted_from = instance->run.part_began_at + sim_part_sum(&instance->run, n);
}

void sim_stretch_run(const Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  InstanceTotals planned = {0};
  const bool left_out = instance->counted_from == sim_part_end(run); // the warm-up ended in it
  add_iterations(self, instance, 1, &planned);
  run->series = run->compute = (Series){.first = self->now - run->part_began_at};
  if (!left_out) return;
  instance_totals_subtract(&instance->before, &planned);
  add_iterations(self, instance, 1, &instance->before);
  instance->counted_from = self->now;
}

bool sim_end_part(Simulation *self, Instance *instance, bool resized) {
  DecodeRun *run = &instance->run;
  book_part(self, instance);
  run->done += run->part;
  if (resized || run_over(self, instance)) return true;
  begin_part(self, instance, series_after(run->compute, run->part).carry);
  agenda_move(&self->agenda, EVENT_ITERATION, instance->ix, sim_part_end(run), self->event.seq);
  if (instance->pipeline) lanes_plan(self, instance->pipeline);
  return false;
}

/* --- what a failure breaks off */

Tick sim_worked_ticks(Tick ticks, Tick stall, Tick work) {
  const Tick worked = ticks > stall ? ticks - stall : 0;
  return worked < work ? worked : work;
}

/* The time of iteration `n` of the present part until now, which is all there is of it. */
static void add_broken_off(const Simulation *self, const Instance *instance, int64_t n,
                           InstanceTotals *totals) {
  const DecodeRun *run = &instance->run;
  const bool is_asked = asks(self, instance), is_booked = is_asked && n == 0;
  const Tick ticks = self->now - run->part_began_at - sim_part_sum(run, n);
  const Tick stall = run->done + n == 0 ? run->stall : 0;
  const Tick work = n > 0 && run->ends ? part_at(run, n) : series_at(run->compute, n);
  const Extrapolation extrapolation =
      is_asked ? run->extrapolation : present_piece(instance)->extrapolation;
  totals->decode_ticks += ticks;
  totals->milliwatt_ticks += drawn_of_broken(run, n, ticks);
  totals->stall_ticks -= stall > ticks ? stall - ticks : 0;
  totals->extrapolated_iterations[extrapolation] -= is_booked;
  totals->extrapolated_ticks[extrapolation] +=
      sim_worked_ticks(ticks, stall, work) - (is_booked ? work : 0);
}

/* An iteration that began before the instance was counted is not. */
static void leave_broken_off_out(const Simulation *self, Instance *instance, int64_t n) {
  InstanceTotals ahead = {0};
  add_iterations(self, instance, n + 1, &ahead);
  instance_totals_subtract(&instance->before, &ahead);
  add_iterations(self, instance, n, &instance->before);
  add_broken_off(self, instance, n, &instance->before);
}

bool sim_break_off_run(Simulation *self, Instance *instance) {
  DecodeRun *run = &instance->run;
  const int64_t n = ended_in_part(self, instance);
  const Tick began_at = run->part_began_at + sim_part_sum(run, n);
  if (began_at < instance->counted_from) leave_broken_off_out(self, instance, n);
  add_broken_off(self, instance, n, &instance->totals);
  run->part = n;
  const bool resized =
      n > 0 && instance->moves_kv && sim_advance_tier(instance, began_at - run->part_began_at);
  if (n > 0) book_part(self, instance);
  sim_book_batch_tokens(instance, run->seqs, began_at, self->now);
  run->done += n;
  run->part_began_at = began_at;
  return resized;
}

/* --- what an hour's end cuts */

/* Of a part of which nothing is booked: iterations that have ended by then, and the mean of the
 * one that has not. */
static void meter_part(const DecodeRun *run, Tick ticks, InstanceTotals *totals) {
  int64_t n = run->series.first > 0 ? ends_within(run, ticks) : 0;
  if (n > run->part) n = run->part;
  const Tick ended = sim_part_sum(run, n);
  totals->decode_ticks += ticks;
  totals->milliwatt_ticks += drawn(run, n, ended) + drawn_of_broken(run, n, ticks - ended);
}

void sim_meter_run(const Instance *instance, Tick at, InstanceTotals *totals) {
  const DecodeRun *run = &instance->run;
  if (instance->activity == ACTIVITY_DECODE) {
    meter_part(run, at - run->part_began_at, totals);
  } else if (instance->activity == ACTIVITY_PREFILL) {
    totals->prefill_ticks -= run->ends_at - at; // all of it is booked
    totals->milliwatt_ticks -= (Total)(run->ends_at - at) * run->milliwatts;
  }
}

void sim_book_idleness(Simulation *self, Instance *instance, bool idle) {
  if (idle == (instance->idle_since >= 0)) return;
  tell_idleness_changes(self, instance, idle);
  if (!idle) instance->idle_ticks += self->now - instance->idle_since;
  instance->idle_since = idle ? self->now : -1;
}
