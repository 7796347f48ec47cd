/* What a machine does next, and what the end of it brings.
 *
 * An iteration with prefill in it is one event. A batch of decodes alone runs until a sequence
 * finishes, KV memory runs out or something must join; inside one piece of the performance model
 * that is an arithmetic series, so a run is one event per piece. In --step mode each iteration is
 * an event and the end of the run is found by looking, not by arithmetic; batches, plans and
 * outcomes are the same. */
#include "sim/engine.h"
#include <assert.h>

void plan_prefill(BatchPlan *plan, RequestIx request, int32_t tokens) {
  ARENA_RESERVE(plan->arena, plan->prefills, plan->prefills_capacity, plan->n_prefills + 1);
  plan->prefills[plan->n_prefills++] = (PlanItem){request, tokens};
}

void plan_admit(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->admits, plan->admits_capacity, plan->n_admits + 1);
  plan->admits[plan->n_admits++] = request;
}

void plan_pad(BatchPlan *plan, int64_t tokens, int64_t area2) {
  assert(plan->n_prefills > 0);
  plan->padding_tokens += tokens;
  plan->padding_area2 += area2;
}

void plan_preempt(BatchPlan *plan, RequestIx request) {
  ARENA_RESERVE(plan->arena, plan->preempts, plan->preempts_capacity, plan->n_preempts + 1);
  plan->preempts[plan->n_preempts++] = request;
}

static bool batch_decodes(const Machine *machine) {
  return machine->batch.n_seqs > 0 && !machine->decodes_paused;
}

/* --- time */

bool engine_passes_the_end(Engine *self, double ticks) {
  if (ticks < 0.999 * (double)(TICK_MAX - self->now)) return false;
  if (!self->failed)
    diag_error(self->diag, place_of_file(NULL), "the run passes 106 days of simulated time");
  self->failed = true;
  return true;
}

/* `done` iterations into a decode run. */
static Tick iteration_ticks(Engine *self, Machine *machine, const BatchShape *shape, int64_t done) {
  Extrapolation extrapolation = EXTRAPOLATION_NONE;
  const Tick ticks = self->config->executor
                         ? engine_execute(self, machine, shape, done)
                         : perfmodel_iteration(machine->pool->perfmodel, shape, &extrapolation);
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
  const int64_t until_finish = batch_until_finish(&machine->batch);
  const int64_t review = machine->run.review;
  const int64_t most = review < until_finish ? review : until_finish;
  if (machine->batcher->reserves_output) return most;
  return batch_fitting(&machine->batch, machine->free_blocks, most);
}

static int64_t review_after(const Engine *self, const Machine *machine) {
  if (!machine->batcher->review) return INT64_MAX;
  const MachineView view = engine_view(self, machine);
  return machine->batcher->review(machine->batcher_options, machine->batcher_state, &view);
}

/* Iterations of the present part if it goes as far as the piece of the model and the run's limit
 * do. */
static int64_t part_length(const Machine *machine, const DecodePiece *piece) {
  const int64_t n = (int64_t)machine->batch.n_seqs;
  const int64_t context = machine->batch.context_tokens + n * machine->run.done;
  const int64_t left = machine->run.limit - machine->run.done;
  if (piece->end - context >= left * n) return left;
  return (piece->end - context + n - 1) / n;
}

static const DecodePiece *present_piece(const Machine *machine) {
  const int64_t n = (int64_t)machine->batch.n_seqs;
  return perfmodel_decode(machine->pool->perfmodel, n,
                          machine->batch.context_tokens + n * machine->run.done);
}

/* Sets up the next part of a run; its end is the caller's to put into the agenda. */
static void lay_part(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  const int64_t n = (int64_t)machine->batch.n_seqs;
  const int64_t context = machine->batch.context_tokens + n * run->done;
  run->part_began_at = self->now;
  if (self->step) {
    const BatchShape shape = {.decode_seqs = n, .context_tokens = context, .logit_seqs = n};
    run->series = (Series){.first = iteration_ticks(self, machine, &shape, run->done)};
    run->part = 1;
    return;
  }
  const DecodePiece *piece = present_piece(machine);
  run->series = (Series){.first = piece->base + piece->slope * (context - piece->start),
                         .step = piece->slope * n};
  run->part = part_length(machine, piece);
  assert(run->part > 0);
  const double part = (double)run->part;
  const double steps = part * (part - 1) / 2;
  if (engine_passes_the_end(self,
                            (double)run->series.first * part + (double)run->series.step * steps))
    run->series = (Series){.first = 1};
}

static Tick part_end(const DecodeRun *run) {
  return run->part_began_at + series_sum(run->series, run->part);
}

/* A run that begins with copies is one iteration long: who is swapped is asked about anew after
 * each plan that swapped somebody. */
static void wait_for_copies(Engine *self, Machine *machine) {
  DecodeRun *run = &machine->run;
  run->stall = engine_stall(self, machine, run->series.first);
  if (run->stall == 0) return;
  run->series.first += run->stall;
  run->part = run->limit = 1;
  run->ends_soon = true;
}

static void begin_run(Engine *self, Machine *machine) {
  machine->activity = ACTIVITY_DECODE;
  machine->run = (DecodeRun){.review = review_after(self, machine)};
  machine->run.limit = run_limit(machine);
  assert(machine->run.limit > 0);
  lay_part(self, machine);
  wait_for_copies(self, machine);
  agenda_set(&self->agenda, EVENT_ITERATION, machine->ix, part_end(&machine->run));
}

/* Cuts the run to end with the iteration in progress. */
static void shorten_run(Engine *self, Machine *machine) {
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
  if (self->step) return;
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
  int64_t growth = 0;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const Request *request = &slots[batch->entries[i].request];
    const int64_t remaining = batch->entries[i].finish - batch->iterations;
    if (remaining == run->done) return true;
    const int64_t context = (int64_t)request->prompt_tokens + request->output_tokens - remaining;
    growth += blocks_of(machine, context + run->done + 1) - blocks_of(machine, context);
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

/* A part of a run has ended: its time, and the gaps but for the run's first iteration. */
static void book_part(Engine *self, Machine *machine) {
  const DecodeRun *run = &machine->run;
  const int64_t skip = run->done == 0;
  const int64_t n = run->part - skip;
  if (n > 0)
    histogram_add_series(&self->metrics.tbt, run->series.first + run->series.step * skip,
                         run->series.step, (uint64_t)n, machine->batch.n_seqs);
  const Tick ticks = series_sum(run->series, run->part);
  histogram_add(machine->batch_tokens, (int64_t)machine->batch.n_seqs, (uint64_t)ticks);
  machine->totals.decode_ticks += ticks;
  machine->totals.decode_iterations += run->part;
  machine->totals.decode_tokens += run->part * (int64_t)machine->batch.n_seqs;
  if (self->step) return; // booked by iteration_ticks
  const Extrapolation extrapolation = present_piece(machine)->extrapolation;
  machine->totals.extrapolated_iterations[extrapolation] += run->part;
  machine->totals.extrapolated_ticks[extrapolation] += ticks - run->stall;
}

/* --- carrying out a plan */

static void apply_preempts(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  for (size_t i = 0; i < self->plan.n_preempts; i++) {
    const RequestIx ix = self->plan.preempts[i];
    Request *request = &slots[ix];
    assert(request->state == REQUEST_RUNS);
    engine_leave_batch(self, machine, ix);
    request->state = REQUEST_BLOCKED;
    request_queue_push(&machine->blocked, slots, ix);
    self->metrics.preemptions++;
    engine_log(self, OUTCOME_PREEMPTION, request, machine->ix, 0, 0);
  }
}

/* A request that is to run leaves the queue in which it waited. */
static void leave_queue(Engine *self, Machine *machine, RequestIx ix) {
  Request *slots = self->requests.slots;
  if (slots[ix].state == REQUEST_SWAPPED) {
    engine_swap_in(self, machine, ix);
  } else {
    const bool blocked = slots[ix].state == REQUEST_BLOCKED;
    assert(blocked || slots[ix].state == REQUEST_WAITS_DECODE);
    request_queue_remove(blocked ? &machine->blocked : &machine->decode_queue, slots, ix);
  }
}

static void apply_admits(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  const bool reserves = machine->batcher->reserves_output;
  for (size_t i = 0; i < self->plan.n_admits; i++) {
    const RequestIx ix = self->plan.admits[i];
    Request *request = &slots[ix];
    leave_queue(self, machine, ix);
    if (reserves) {
      const MachineView view = engine_view(self, machine);
      const int64_t more = view_admit_blocks(&view, ix, true);
      engine_take_blocks(self, machine, more);
      request->kv_blocks += (int32_t)more;
    }
    request->state = REQUEST_RUNS;
    batch_push(&machine->batch, slots, ix, request->prompt_tokens + request->generated_tokens,
               request->output_tokens - request->generated_tokens, self->arena);
    if (request->decode_began_at < 0) {
      request->decode_began_at = self->now;
      engine_log(self, OUTCOME_DECODE_BEGIN, request, machine->ix, 0, 0);
    }
  }
}

/* The first prefill of a request begins: the blocks promised for it are now taken as it goes. */
static void begin_prefill(Engine *self, Machine *machine, Request *request) {
  request->prefill_began_at = self->now;
  engine_promise_blocks(self, machine, -blocks_of(machine, (int64_t)request->prompt_tokens + 1));
  engine_log(self, OUTCOME_PREFILL_BEGIN, request, machine->ix, request->prefill_tokens, 0);
}

/* Whether the KV of a request that is prefilled here will have to move, and whither is known. */
static bool decodes_elsewhere(const Machine *machine, const Request *request) {
  return request->decode_machine != MACHINE_NONE && request->decode_machine != machine->ix &&
         request->output_tokens > 1;
}

static void apply_prefills(Engine *self, Machine *machine) {
  Request *slots = self->requests.slots;
  machine->n_chunks = 0;
  if (self->plan.n_prefills == 0) return;
  const MachineView view = engine_view(self, machine);
  machine->padding_tokens = self->plan.padding_tokens;
  machine->padding_area2 = self->plan.padding_area2;
  for (size_t i = 0; i < self->plan.n_prefills; i++) {
    const PlanItem item = self->plan.prefills[i];
    Request *request = &slots[item.request];
    assert(request->state == REQUEST_WAITS_PREFILL && item.tokens > 0 &&
           request->prefilled_tokens + item.tokens <= request->prefill_tokens);
    if (request->prefill_began_at < 0) begin_prefill(self, machine, request);
    const int64_t more = view_prefill_blocks(&view, item.request, item.tokens);
    engine_take_blocks(self, machine, more);
    request->kv_blocks += (int32_t)more;
    request->state = REQUEST_PREFILLS;
    request->chunk_tokens = item.tokens;
    ARENA_RESERVE(self->arena, machine->chunks, machine->chunks_capacity, machine->n_chunks + 1);
    machine->chunks[machine->n_chunks++] = item.request;
    if (request->prefilled_tokens + item.tokens < request->prefill_tokens) continue;
    request_queue_remove(&machine->prefill_queue, slots, item.request);
    machine->n_started -= request->prefilled_tokens > 0;
    if (decodes_elsewhere(machine, request)) engine_offer_layers(self, item.request);
  }
}

/* Evicts until the batch can grow by one token per sequence; whether anybody had to go. */
static bool make_room(Engine *self, Machine *machine) {
  if (machine->batcher->reserves_output) return false;
  bool evicted = false;
  while (batch_decodes(machine) && batch_growth(&machine->batch, 1) > machine->free_blocks) {
    const MachineView view = engine_view(self, machine);
    engine_evict(self, machine, machine->kvtier->pick(machine->kvtier_options, &view));
    evicted = true;
  }
  return evicted;
}

/* Everybody left out of the iteration that begins is one older. */
static void age_blocked(Engine *self, const Machine *machine) {
  Request *slots = self->requests.slots;
  for (RequestIx ix = machine->blocked.first; ix != REQUEST_NONE; ix = slots[ix].next)
    slots[ix].preemptions++;
}

/* Returns whether anybody was evicted. */
static bool carry_out(Engine *self, Machine *machine) {
  assert(!self->plan.pause_decodes || self->plan.n_admits == 0);
  machine->decodes_paused = self->plan.pause_decodes;
  apply_preempts(self, machine);
  apply_admits(self, machine);
  apply_prefills(self, machine);
  return make_room(self, machine);
}

/* --- beginning */

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
  if (batch_decodes(machine)) {
    shape.decode_seqs = (int64_t)machine->batch.n_seqs;
    shape.context_tokens = machine->batch.context_tokens;
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
  const BatchShape shape = shape_of(self, machine);
  Tick ticks = iteration_ticks(self, machine, &shape, 0);
  ticks += prediction_ticks(self, machine, ticks);
  ticks += engine_stall(self, machine, ticks);
  machine->activity = ACTIVITY_PREFILL;
  histogram_add(machine->batch_tokens, shape.prefill_tokens + shape.decode_seqs, (uint64_t)ticks);
  machine->totals.prefill_iterations++;
  machine->totals.prefill_ticks += ticks;
  machine->totals.prefill_tokens += shape.prefill_tokens - machine->padding_tokens;
  machine->totals.padding_tokens += machine->padding_tokens;
  machine->totals.decode_tokens += shape.decode_seqs;
  if (batch_decodes(machine)) book_first_gaps(self, machine, self->now + ticks);
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

static void book_idleness(const Engine *self, Machine *machine, bool idle) {
  if (idle == (machine->idle_since >= 0)) return;
  if (!idle) machine->idle_ticks += self->now - machine->idle_since;
  machine->idle_since = idle ? self->now : -1;
}

/* Asks the batcher what is next and begins it; the machine idles if that is nothing. */
static void begin(Engine *self, Machine *machine) {
  BatchPlan *plan = &self->plan;
  machine->activity = ACTIVITY_IDLE;
  machine->woken = false;
  bool nothing, evicted;
  do {
    plan->n_prefills = plan->n_admits = plan->n_preempts = 0;
    plan->padding_tokens = plan->padding_area2 = 0;
    plan->pause_decodes = false;
    const MachineView view = engine_view(self, machine);
    machine->batcher->plan(machine->batcher_options, machine->batcher_state, &view, plan);
    evicted = carry_out(self, machine);
    nothing = machine->n_chunks == 0 && !batch_decodes(machine);
  } while (nothing && (evicted || unstick(self, machine)));
  book_idleness(self, machine, nothing);
  if (nothing) return;
  age_blocked(self, machine);
  if (machine->n_chunks > 0) {
    begin_prefill_iteration(self, machine);
  } else {
    begin_run(self, machine);
    book_first_gaps(self, machine, self->now + machine->run.series.first);
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

void engine_begin_woken(Engine *self) {
  for (uint32_t i = 0; i < self->n_woken; i++) {
    Machine *machine = &self->machines[self->woken[i]];
    if (machine->woken) begin(self, machine);
  }
  self->n_woken = 0;
}

void engine_wake(Engine *self, Machine *machine, Wake why, RequestIx request) {
  const MachineView view = engine_view(self, machine);
  if (!machine->batcher->wake(machine->batcher_options, machine->batcher_state, &view, why,
                              request))
    return;
  if (machine->activity == ACTIVITY_IDLE)
    begin_or_gather(self, machine);
  else if (machine->activity == ACTIVITY_DECODE)
    shorten_run(self, machine);
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
  decode->n_decodes--;
  self->view.n_heavy[decode->ix] -= view_heavy(&self->view, request);
  self->view.pending_tokens[decode->ix]--;
  self->view.n_assigned[decode->ix]--;
  self->view.n_present[machine->ix]--;
  if (machine != decode) // it never had to move
    engine_promise_blocks(self, decode, -blocks_of(decode, (int64_t)request->prompt_tokens + 1));
  observe(self, ix, OBSERVED_FINISHED, machine, PHASE_DECODE);
  engine_retire(self, ix, false);
}

static void end_prefill(Engine *self, Machine *machine, RequestIx ix) {
  Request *request = &self->requests.slots[ix];
  request->prefilled_tokens += request->chunk_tokens;
  if (request->prefilled_tokens < request->prefill_tokens) {
    request->state = REQUEST_WAITS_PREFILL;
    machine->n_started += request->prefilled_tokens == request->chunk_tokens;
    engine_dispatch(self, ix);
    if (decodes_elsewhere(machine, request)) engine_offer_chunk(self, ix);
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
  self->view.pending_tokens[machine->ix] -= request->prefill_tokens;
  if (request->decode_machine != machine->ix) self->view.n_assigned[machine->ix]--;
  observe(self, ix, OBSERVED_PREFILLED, machine, PHASE_PREFILL);
  if (request->generated_tokens == request->output_tokens) {
    finish(self, machine, ix);
  } else if (request->decode_machine == machine->ix) {
    request->state = REQUEST_WAITS_DECODE;
    request_queue_push(&machine->decode_queue, self->requests.slots, ix);
  } else {
    engine_begin_transfer(self, ix);
  }
}

/* The batch has made `n` iterations, the last of which ends now. */
static void end_decodes(Engine *self, Machine *machine, int64_t n) {
  Batch *batch = &machine->batch;
  Request *slots = self->requests.slots;
  if (!machine->batcher->reserves_output) engine_take_blocks(self, machine, batch_growth(batch, n));
  batch_advance(batch, n);
  machine->decoded_at = self->now;
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0) {
    const RequestIx ix = batch->entries[0].request;
    Request *request = &slots[ix];
    const int64_t context = (int64_t)request->prompt_tokens + request->output_tokens;
    batch_remove(batch, slots, ix, context);
    request->generated_tokens = request->output_tokens;
    request->kv_blocks = (int32_t)blocks_of(machine, context);
    finish(self, machine, ix);
  }
}

static void end_prefill_iteration(Engine *self, Machine *machine) {
  if (batch_decodes(machine)) end_decodes(self, machine, 1);
  const size_t n_chunks = machine->n_chunks;
  machine->n_chunks = 0;
  for (size_t i = 0; i < n_chunks; i++)
    end_prefill(self, machine, machine->chunks[i]);
}

void engine_handle_iteration(Engine *self, Machine *machine) {
  if (machine->activity == ACTIVITY_PREFILL) {
    machine->activity = ACTIVITY_IDLE;
    end_prefill_iteration(self, machine);
  } else {
    assert(machine->activity == ACTIVITY_DECODE);
    DecodeRun *run = &machine->run;
    book_part(self, machine);
    run->done += run->part;
    if (!run_over(self, machine)) {
      lay_part(self, machine);
      agenda_move(&self->agenda, EVENT_ITERATION, machine->ix, part_end(run), self->event.seq);
      return;
    }
    machine->activity = ACTIVITY_IDLE;
    end_decodes(self, machine, run->done);
  }
  engine_admit_inbound(self, machine);
  engine_settle(self, machine);
  begin(self, machine);
}
