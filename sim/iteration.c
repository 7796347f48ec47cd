/* What a machine does next, and what the end of it brings.
 *
 * An iteration with prefill in it is one event. A batch of decodes alone runs until a sequence
 * finishes, KV memory runs out or something must join; inside one piece of the performance model
 * that is an arithmetic series, so a run is one event per piece. In --step mode each iteration is
 * an event and the end of the run is found by looking, not by arithmetic; batches, plans and
 * outcomes are the same. */
#include "sim/engine.h"
#include <assert.h>

/* Decodes and their context, padding included, at the first iteration of the present part. */
static inline int64_t decode_seqs(const Machine *machine) {
  return (int64_t)machine->batch.n_seqs + machine->padding_seqs;
}

static inline int64_t decode_context(const Machine *machine) {
  const DecodeRun *run = &machine->run;
  return machine->batch.context_tokens - (int64_t)machine->batch.n_seqs * run->booked +
         machine->padding_context + decode_seqs(machine) * run->done;
}

/* --- time */

/* Through the stages that the machine shares with its fellow lanes. */
static Tick pipelined_ticks(const Engine *self, const Machine *machine, const BatchShape *shape,
                            Extrapolation *ret_extrapolation) {
  const PerfModel *model = machine->pool->perfmodel;
  const int64_t n = machine->pipeline->n_stages;
  const Tick stage = perfmodel_stage(model, shape, n, false, ret_extrapolation);
  const Tick last = perfmodel_stage(model, shape, n, true, NULL);
  const Tick send = tick_nearest(model->send * (shape->prefill_tokens + shape->decode_seqs));
  return pipeline_pass(machine->pipeline, self->now, stage, last, send);
}

/* Whether the model's pieces do not say how long a decode iteration lasts: in a pipeline, where
 * that hangs on the other lanes, and with another clock. */
static bool asks(const Engine *self, const Machine *machine) {
  return machine->pipeline || self->config->executor;
}

/* Whether every decode iteration of a machine is an event. */
static bool steps(const Engine *self, const Machine *machine) {
  return self->step || asks(self, machine);
}

/* `done` iterations beyond those that the batch knows of. */
static Tick iteration_ticks(Engine *self, Machine *machine, const BatchShape *shape, int64_t done) {
  Extrapolation extrapolation = EXTRAPOLATION_NONE;
  const PerfModel *model = machine->pool->perfmodel;
  const Tick ticks = self->config->executor ? engine_execute(self, machine, shape, done)
                     : machine->pipeline    ? pipelined_ticks(self, machine, shape, &extrapolation)
                                            : perfmodel_iteration(model, shape, &extrapolation);
  if (ticks < 0) self->failed = true;
  if (ticks < 0 || engine_passes_the_end(self, (double)ticks)) return 1;
  assert(ticks > 0);
  machine->totals.extrapolated_iterations[extrapolation]++;
  machine->totals.extrapolated_ticks[extrapolation] += ticks;
  return ticks;
}

/* Has the event of this machine's iteration been overtaken by the one being handled? Only asked
 * when both are at the same time. */
static bool comes_later(const Engine *self, const Machine *machine) {
  const Event *end = agenda_find(&self->agenda, EVENT_ITERATION, machine->ix);
  assert(end);
  return end->order > self->event.order;
}

/* Iterations of the present part that have ended by now. One that ends this very tick has ended
 * only if its event would have been handled before the present one, so that --step agrees. */
static int64_t ended_in_part(const Engine *self, const Machine *machine) {
  const DecodeRun *run = &machine->run;
  const Tick elapsed = self->now - run->part_began_at;
  int64_t n = series_ended(run->series, elapsed);
  if (n > 0 && series_sum(run->series, n) == elapsed && comes_later(self, machine)) n--;
  return n < run->part ? n : run->part - 1;
}

int64_t engine_begun_iterations(const Engine *self, const Machine *machine) {
  return machine->run.done + ended_in_part(self, machine) + 1;
}

/* --- decode runs */

/* The most iterations that finishing sequences, memory and the batcher allow. */
static int64_t run_limit(const Machine *machine) {
  const int64_t booked = machine->run.booked, review = machine->run.review;
  const int64_t until_finish = booked + batch_until_finish(&machine->batch);
  const int64_t most = review < until_finish ? review : until_finish;
  if (machine->batcher->reserves_output) return most;
  return booked + batch_fitting(&machine->batch, machine->free_blocks, most - booked);
}

static int64_t review_after(const Engine *self, const Machine *machine) {
  if (!machine->batcher->review) return INT64_MAX;
  const MachineView view = engine_view(self, machine);
  return machine->batcher->review(machine->batcher_options, machine->batcher_state, &view);
}

/* Iterations of the present part if it goes as far as the piece of the model and the run's limit
 * do. */
static int64_t part_length(const Machine *machine, const DecodePiece *piece) {
  const int64_t n = decode_seqs(machine), tokens = piece->end - decode_context(machine);
  int64_t left = machine->run.limit - machine->run.done;
  if (tokens < left * n) left = (tokens + n - 1) / n;
  return left < machine->run.most ? left : machine->run.most;
}

static const DecodePiece *present_piece(const Machine *machine) {
  return perfmodel_decode(machine->pool->perfmodel, decode_seqs(machine), decode_context(machine));
}

static bool series_passes_the_end(Engine *self, Series series, int64_t n) {
  const double count = (double)n, steps = count * (count - 1) / 2;
  return engine_passes_the_end(self, (double)(series.first + 1) * count +
                                         (double)(series.step + 1) * steps);
}

/* Sets up the next part of a run, over which the part before has left `carry`; its end is the
 * caller's to put into the agenda. */
static void lay_part(Engine *self, Machine *machine, uint32_t carry) {
  DecodeRun *run = &machine->run;
  const int64_t n = decode_seqs(machine), context = decode_context(machine);
  const BatchShape shape = {.decode_seqs = n, .context_tokens = context, .logit_seqs = n};
  run->part_began_at = self->now;
  if (asks(self, machine)) {
    run->compute =
        (Series){.first = iteration_ticks(self, machine, &shape, run->done - run->booked)};
    run->part = 1;
  } else {
    const DecodePiece *piece = present_piece(machine);
    run->most = self->step ? 1 : INT64_MAX;
    run->compute = series_of(decode_piece_fine(piece, context), piece->slope * n, carry);
    run->part = part_length(machine, piece);
    assert(run->part > 0);
    if (series_passes_the_end(self, run->compute, run->part)) run->compute = (Series){.first = 1};
  }
  run->series = run->compute;
  if (!machine->moves_kv) return;
  engine_plan_tier(self, machine, &shape);
  if (series_passes_the_end(self, run->series, run->part)) run->series = (Series){.first = 1};
}

static Tick part_end(const DecodeRun *run) {
  return run->part_began_at + series_sum(run->series, run->part);
}

/* A run that begins with copies, or for which somebody gave way, is one iteration long: the batcher
 * is asked about those who wait anew after each plan that moved KV out or in. */
static void wait_for_copies(Engine *self, Machine *machine, bool made_room) {
  DecodeRun *run = &machine->run;
  run->stall = engine_stall(self, machine, series_sum(run->series, 1));
  if (run->stall == 0 && !made_room) return;
  run->series.first += run->stall;
  run->part = run->limit = 1;
  run->ends_soon = true;
}

static void begin_run(Engine *self, Machine *machine, bool made_room) {
  DecodeRun *run = &machine->run;
  machine->activity = ACTIVITY_DECODE;
  run->began_at = self->now;
  run->tokens = (int64_t)machine->batch.n_seqs;
  run->done = run->booked = 0;
  run->stall = 0;
  run->ends_soon = false;
  run->review = review_after(self, machine);
  run->limit = run_limit(machine);
  assert(run->limit > 0);
  lay_part(self, machine, SERIES_CARRY);
  wait_for_copies(self, machine, made_room);
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, part_end(run));
}

void engine_cut_run(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  if (run->ends_soon) return;
  run->part = ended_in_part(self, machine) + 1;
  run->limit = run->done + run->part;
  run->ends_soon = true;
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, part_end(run));
}

void engine_refit_run(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  if (run->ends_soon || machine->batcher->reserves_output) return;
  const int64_t limit = run_limit(machine);
  if (limit == run->limit) return;
  run->limit = limit;
  if (steps(self, machine)) return;
  run->part = part_length(machine, present_piece(machine));
  const uint64_t seq = agenda_find(&self->agenda, EVENT_ITERATION, machine->ix)->seq;
  agenda_move(&self->agenda, EVENT_ITERATION, machine->ix, part_end(run), seq);
}

/* Does the run end here? In --step mode the plain question is asked of every sequence. */
static bool run_over(const Engine *self, const Machine *machine) {
  const DecodeRun *run = &machine->run;
  if (run->ends_soon || run->done == run->review) return true;
  if (!self->step) return run->done == run->limit;
  const Request *slots = self->requests.slots;
  const Batch *batch = &machine->batch;
  const int64_t done = run->done - run->booked; // that the batch does not know of
  int64_t growth = 0;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const Request *request = &slots[batch->entries[i].request];
    const int64_t remaining = batch->entries[i].finish - batch->iterations;
    if (remaining == done) return true;
    const int64_t context = (int64_t)request->prompt_tokens + request->output_tokens - remaining;
    growth += blocks_of(machine, context + done) - blocks_of(machine, context - 1);
  }
  return !machine->batcher->reserves_output && growth > machine->free_blocks;
}

/* --- gaps between tokens */

/* The first token that each sequence makes after its batch changed: those that joined have waited
 * since their last token, the others since the batch last ran. */
static void book_first_gaps(Engine *self, const Machine *machine, Tick end) {
  Histogram *tbt = &self->metrics.tbt;
  uint64_t n_joined = 0;
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    const Request *request = &self->requests.slots[self->plan.admits[i]];
    if (request->state != REQUEST_RUNS) continue;
    histogram_add(tbt, end - request->last_token_at, 1);
    if (request->generated_tokens == 1)
      histogram_add(&self->metrics.second_token, end - request->last_token_at, 1);
    n_joined++;
  }
  const uint64_t n_others = machine->batch.n_seqs - n_joined;
  if (n_others) histogram_add(tbt, end - machine->decoded_at, n_others);
}

/* Those that end in an interval, so that it does not matter how a run is cut. A pool's ticks would
 * not fit a histogram's counters. */
static uint64_t microseconds_between(Tick from, Tick to) {
  const Tick microsecond = TICKS_PER_SECOND / 1000000;
  return (uint64_t)(to / microsecond - from / microsecond);
}

/* A part of a run has ended: its time, and the gaps but for the run's first iteration. */
static void book_part(Engine *self, Machine *machine) {
  const DecodeRun *run = &machine->run;
  const int64_t skip = run->done == 0;
  const int64_t n = run->part - skip;
  if (n > 0)
    histogram_add_series(&self->metrics.tbt, series_fine(run->series, skip),
                         series_step(run->series), (uint64_t)n, machine->batch.n_seqs);
  const Tick ticks = self->now - run->part_began_at;
  const int64_t padding = machine->padding_seqs;
  histogram_add(machine->batch_tokens, (int64_t)machine->batch.n_seqs + padding,
                microseconds_between(run->part_began_at, self->now));
  machine->totals.decode_ticks += ticks;
  machine->totals.decode_iterations += run->part;
  machine->totals.decode_tokens += run->part * (int64_t)machine->batch.n_seqs;
  machine->totals.padding_tokens += run->part * padding;
  if (asks(self, machine)) return; // booked by iteration_ticks
  const Extrapolation extrapolation = present_piece(machine)->extrapolation;
  machine->totals.extrapolated_iterations[extrapolation] += run->part;
  machine->totals.extrapolated_ticks[extrapolation] += series_sum(run->compute, run->part);
}

/* --- beginning */

/* Everybody left out of the iteration that begins is one older. */
static void age_blocked(Engine *self, const Machine *machine) {
  Request *slots = self->requests.slots;
  for (RequestIx ix = machine->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    slots[ix].preemptions++;
}

static BatchShape shape_of(const Engine *self, const Machine *machine) {
  BatchShape shape = {.prefill_tokens = machine->padding_tokens,
                      .prefill_area2 = machine->padding_area2};
  for (size_t i = 0; i < machine->n_chunks; i++) {
    const Request *request = &self->requests.slots[machine->chunks[i]];
    const int64_t past = request->prefilled_tokens, chunk = request->chunk_tokens;
    shape.prefill_tokens += chunk;
    shape.prefill_area2 += chunk * (2 * past + chunk);
    shape.logit_seqs += past + chunk == request->prefill_tokens;
  }
  if (machine_decodes(machine)) {
    shape.decode_seqs = decode_seqs(machine);
    shape.context_tokens = decode_context(machine);
    shape.logit_seqs += shape.decode_seqs;
  }
  return shape;
}

/* What predicting the outputs of the prompts that begin here adds to their iteration. */
static Tick prediction_ticks(Engine *self, const Machine *machine, Tick ticks) {
  if (!self->predictor->cost || machine->role != ROLE_PREFILL) return 0;
  const MachineView view = engine_view(self, machine);
  const double more = self->predictor->cost(self->states[POLICY_PREDICTOR], &view, ticks);
  return engine_passes_the_end(self, (double)ticks + more) ? 0 : (Tick)more;
}

static void begin_prefill_iteration(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  run->began_at = run->part_began_at = self->now;
  run->done = run->booked = 0;
  run->part = 1;
  const BatchShape shape = shape_of(self, machine);
  Tick ticks = iteration_ticks(self, machine, &shape, 0);
  ticks += prediction_ticks(self, machine, ticks);
  run->series = run->compute = (Series){.first = ticks};
  run->tokens = shape.logit_seqs - machine->padding_seqs;
  if (machine->moves_kv) {
    engine_plan_tier(self, machine, &shape);
    ticks = engine_passes_the_end(self, (double)run->series.first) ? 1 : run->series.first;
  }
  ticks += engine_stall(self, machine, ticks);
  machine->activity = ACTIVITY_PREFILL;
  histogram_add(machine->batch_tokens, shape.prefill_tokens + shape.decode_seqs,
                microseconds_between(self->now, self->now + ticks));
  machine->totals.prefill_iterations++;
  machine->totals.prefill_ticks += ticks;
  if (machine_decodes(machine)) machine->totals.mixed_ticks += ticks;
  machine->totals.prefill_tokens += shape.prefill_tokens - machine->padding_tokens;
  machine->totals.padding_tokens += machine->padding_tokens;
  machine->totals.decode_tokens += shape.decode_seqs - machine->padding_seqs;
  if (machine_decodes(machine)) book_first_gaps(self, machine, self->now + ticks);
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, self->now + ticks);
}

/* Nothing can run though decodes wait or several prefills have begun, and no transfer out of here
 * will free memory: one of them must give way. False when nothing can be done now. */
static bool unstick(Engine *self, Machine *machine) {
  const bool stuck =
      machine->decode_queue.count > 0 || machine->blocked.count > 0 || machine->n_started > 1;
  if (!stuck || machine->n_outgoing > 0 || !machine->kvtier->pick) return false;
  const MachineView view = engine_view(self, machine);
  const RequestIx victim = machine->kvtier->pick(machine->kvtier_options, &view);
  if (victim == REQUEST_NONE) return false;
  engine_evict(self, machine, victim);
  return true;
}

static void book_idleness(Engine *self, Machine *machine, bool idle) {
  if (idle == (machine->idle_since >= 0)) return;
  if (machine->group) {
    engine_book_group(self, machine->group);
    machine->group->n_busy += idle ? -1u : 1u;
  }
  if (!idle) machine->idle_ticks += self->now - machine->idle_since;
  machine->idle_since = idle ? self->now : -1;
}

/* Asks the batcher what is next and begins it; the machine idles if that is nothing. */
static void begin(Engine *self, Machine *machine) {
  BatchPlan *plan = &self->plan;
  machine->activity = ACTIVITY_IDLE;
  const Group *group = machine->group;
  if (machine->closed || (group && !group->spec->overlaps && group_copies(group))) {
    book_idleness(self, machine, true);
    return;
  }
  bool nothing, evicted, made_room = false;
  do {
    plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
    plan->padding_tokens = plan->padding_area2 = 0;
    plan->padding_seqs = plan->padding_context = 0;
    plan->pause_decodes = false;
    MachineView view = engine_view(self, machine);
    view.made_room = made_room;
    machine->batcher->plan(machine->batcher_options, machine->batcher_state, &view, plan);
    evicted = engine_carry_out(self, machine);
    nothing = machine->n_chunks == 0 && !machine_decodes(machine);
    if (nothing && !evicted) evicted = unstick(self, machine);
    made_room |= evicted;
  } while (nothing && evicted);
  book_idleness(self, machine, nothing);
  if (nothing) return;
  age_blocked(self, machine);
  if (machine->n_chunks > 0) {
    begin_prefill_iteration(self, machine);
  } else {
    begin_run(self, machine, made_room);
    book_first_gaps(self, machine, self->now + series_sum(machine->run.series, 1));
  }
}

/* An idle machine begins, but while more requests are about to arrive in this very tick it waits
 * for them, so that they can share its first iteration. */
static void begin_or_gather(Engine *self, Machine *machine) {
  if (!self->gathers && self->n_woken == 0) {
    begin(self, machine);
  } else if (!machine->woken) {
    machine->woken = true;
    self->woken[self->n_woken++] = machine->ix;
  }
}

void engine_begin(Engine *self, Machine *machine) {
  if (machine->activity == ACTIVITY_IDLE) begin(self, machine);
}

void engine_begin_woken(Engine *self) {
  for (uint32_t i = 0; i < self->n_woken; i++) {
    Machine *machine = &self->machines[self->woken[i]];
    if (machine->group) machine->group->touched = true;
    machine->woken = false;
    engine_begin(self, machine);
  }
  self->n_woken = 0;
}

void engine_wake(Engine *self, Machine *machine, Wake why, RequestIx request) {
  if (machine->closed) return;
  if (machine->activity == ACTIVITY_DECODE) engine_catch_up(self, machine);
  const MachineView view = engine_view(self, machine);
  if (!machine->batcher->wake(machine->batcher_options, machine->batcher_state, &view, why,
                              request))
    return;
  if (machine->activity == ACTIVITY_IDLE)
    begin_or_gather(self, machine);
  else if (machine->activity == ACTIVITY_DECODE)
    engine_cut_run(self, machine);
}

/* --- ending */

static void observe(Engine *self, RequestIx ix, Observation what, Machine *machine, Phase phase) {
  if (self->router->observe)
    self->router->observe(self->states[POLICY_ROUTER], &self->view, ix, what, machine->ix);
  if (!machine->batcher->finish) return;
  const MachineView view = engine_view(self, machine);
  machine->batcher->finish(machine->batcher_options, machine->batcher_state, &view, ix, phase);
}

/* The last token of a request was made on `machine`, which holds its KV. */
static void finish(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  Machine *decode = &self->machines[request->decode_machine];
  request->last_token_at = self->now;
  engine_take_blocks(self, machine, -request->kv_blocks);
  engine_leave_store(machine, request);
  decode->n_decodes--;
  column_add(self->view.n_heavy, decode->ix, -view_heavy(&self->view, request));
  column_add(self->view.pending_tokens, decode->ix, -1);
  column_add(self->view.n_assigned, decode->ix, -1);
  column_add(self->view.n_present, machine->ix, -1);
  if (machine != decode) // it never had to move
    engine_promise_blocks(self, decode, -machine_prompt_blocks(decode, request));
  observe(self, ix, OBSERVED_FINISHED, machine, PHASE_DECODE);
  engine_retire(self, ix, REJECTED_NOT);
}

static void end_prefill(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->prefilled_tokens += request->chunk_tokens;
  column_add(self->view.pending_tokens, machine->ix, -request->chunk_tokens);
  request->computing_ticks += self->now - machine->run.began_at;
  if (request->prefilled_tokens < request->prefill_tokens) {
    request->state = REQUEST_WAITS_PREFILL;
    machine->n_started += request->prefilled_tokens == request->chunk_tokens;
    engine_dispatch(self, ix);
    if (request_moves_from(request, machine->ix)) engine_offer_chunk(self, ix);
    return;
  }
  engine_dispatch(self, ix);
  if (request->first_token_at < 0) {
    request->first_token_at = self->now;
    engine_log(self, OUTCOME_FIRST_TOKEN, request, machine->ix, 0, 0);
  } else {
    histogram_add(&self->metrics.tbt, self->now - request->last_token_at, 1);
    if (request->generated_tokens == 1)
      histogram_add(&self->metrics.second_token, self->now - request->last_token_at, 1);
  }
  request->generated_tokens++;
  request->last_token_at = self->now;
  machine->n_prefills--;
  if (request->decode_machine != machine->ix) column_add(self->view.n_assigned, machine->ix, -1);
  observe(self, ix, OBSERVED_PREFILLED, machine, PHASE_PREFILL);
  if (request->generated_tokens == request->output_tokens) {
    finish(self, machine, ix);
  } else if (request->decode_machine == machine->ix) {
    request->state = REQUEST_WAITS_DECODE;
    request_queue_push(&machine->decode_queue, self->requests.slots, ix);
  } else if (machine->group) {
    engine_copy_out(self, ix);
  } else {
    engine_begin_transfer(self, ix);
  }
}

/* The batch has made `n` iterations, the last of which ends now. */
static void end_decodes(Engine *self, Machine *machine, int64_t n) {
  Batch *batch = &machine->batch;
  Request *slots = self->requests.slots;
  engine_book_iterations(self, machine, n);
  machine->run.booked = 0;
  machine->decoded_at = self->now;
  machine->decoded_ticks += self->now - machine->run.began_at;
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0) {
    const RequestIx ix = batch->entries[0].request;
    Request *request = &slots[ix];
    const int64_t context = (int64_t)request->prompt_tokens + request->output_tokens;
    batch_remove(batch, slots, ix, context);
    request->computing_ticks += machine->decoded_ticks;
    request->generated_tokens = request->output_tokens;
    request->kv_blocks = (int32_t)machine_held_blocks(machine, context);
    finish(self, machine, ix);
  }
}

static void end_prefill_iteration(Engine *self, Machine *machine) {
  if (machine_decodes(machine)) end_decodes(self, machine, 1);
  const size_t n_chunks = machine->n_chunks;
  machine->n_chunks = 0;
  for (size_t i = 0; i < n_chunks; i++)
    end_prefill(self, machine, machine->chunks[i]);
}

void engine_handle_iteration(Engine *self, Machine *machine) {
  const bool resized = machine->moves_kv && engine_advance_tier(self, machine);
  if (machine->activity == ACTIVITY_PREFILL) {
    machine->activity = ACTIVITY_IDLE;
    end_prefill_iteration(self, machine);
  } else {
    assert(machine->activity == ACTIVITY_DECODE);
    DecodeRun *run = &machine->run;
    book_part(self, machine);
    run->done += run->part;
    if (!resized && !run_over(self, machine)) {
      lay_part(self, machine, series_after(run->compute, run->part).carry);
      agenda_move(&self->agenda, EVENT_ITERATION, machine->ix, part_end(run), self->event.seq);
      return;
    }
    machine->activity = ACTIVITY_IDLE;
    end_decodes(self, machine, run->done);
  }
  if (resized) engine_fit_capacity(self, machine);
  engine_admit_inbound(self, machine);
  engine_settle(self, machine);
  begin(self, machine);
}
