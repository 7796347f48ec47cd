/* Steps begin and end (scheduler.h). */
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/lifecycle.h"
#include "sim/core/memory.h"
#include "sim/core/moving.h"
#include "sim/core/placement.h"
#include "sim/core/prefill_run.h"
#include "sim/core/scheduling.h"
#include "sim/core/step_listing.h"
#include <assert.h>

void scheduler_start(Simulation *self, Machine *machine, const SchedulerLimits *limits) {
  Scheduler *scheduler = machine->scheduler = ARENA_NEW(self->arena, Scheduler);
  scheduler->limits = *limits;
  scheduler->version = 1;
  scheduler->next = &scheduler->steps[0];
  machine->lag = limits->lag;
}

bool scheduler_wake(const MachineView *view, Wake why, RequestIx request) {
  const Machine *machine = view->machine;
  if (machine->activity == ACTIVITY_IDLE) return true;
  if (machine->running.count >= machine->scheduler->limits.max_num_seqs) return false;
  const bool decode_waits = machine->decode_queue.count > 0;
  if (machine->adapters && why != WAKE_RELEASE) return true; // those before it may be passed over
  if (why == WAKE_DECODE) return machine->decode_queue.first == request;
  if (why == WAKE_PREFILL) return !decode_waits && machine->prefill_queue.first == request;
  return why == WAKE_RELEASE && (decode_waits || machine->prefill_queue.count > 0);
}

/* --- beginning */

/* Decides the step after the one that begins; the other place is free. */
static void decide_next(Simulation *self, Machine *machine) {
  Scheduler *scheduler = machine->scheduler;
  scheduler_decide(self, machine, scheduler->next);
  scheduler->has_next = !step_is_empty(scheduler->next);
}

/* Nothing can run though KV has come in from elsewhere, and none that leaves will free memory: the
 * last to come must give way. */
static bool give_way(Simulation *self, Machine *machine) {
  if (machine->decode_queue.count < 2 || machine->running.count + machine->n_outgoing > 0)
    return false;
  life_gave_way(self, machine, machine->decode_queue.last);
  return true;
}

/* The decided step becomes the present one, or one is decided now; false when there is nothing to
 * do. Whoever had to give way may be all there is, so a decision may follow at once. */
static bool take_step(Simulation *self, Machine *machine) {
  Scheduler *scheduler = machine->scheduler;
  Step *step = scheduler->next;
  bool again = !scheduler->has_next;
  while (again) {
    again = scheduler_decide(self, machine, step);
    if (!step_is_empty(step)) break;
    sim_tell_step(self, machine, step, self->now);
    again = again || give_way(self, machine);
  }
  scheduler->has_next = false;
  if (step_is_empty(step)) return false;
  scheduler->current = step;
  scheduler->next = &scheduler->steps[step == &scheduler->steps[0]];
  return true;
}

/* What those in it are up to. */
static void tell_of_beginnings(Simulation *self, Machine *machine, const Step *step) {
  for (size_t i = 0; i < step->n_items; i++) {
    const ScheduledItem *item = &step->items[i];
    if (item->request == REQUEST_NONE) continue;
    Request *request = &self->requests.slots[item->request];
    if (item->kind == STEP_DECODE) life_decode_began(self, machine, request);
    if (item->kind == STEP_DECODE && self->keeps_parts) parts_joined(self, machine, item->request);
    if (item->kind != STEP_CHUNK) continue;
    life_prefill_began(self, machine, request);
    if (item->last && request_moves_from(request, machine->ix))
      sim_offer_layers(self, item->request);
  }
}

/* Whether the steps after it are of the same batch alone, as far as is known. */
static bool repeats(const Scheduler *scheduler, int lag) {
  const Step *step = scheduler->current, *next = scheduler->next;
  const bool same = !scheduler->waits && step->n_items == 0 &&
                    step->version == scheduler->version && !step->preempted;
  return same && (lag == 0 || (scheduler->has_next && next->n_items == 0 &&
                               next->version == scheduler->version));
}

/* Whether it is of the batch alone. */
static bool is_plain(const Step *step) {
  return step->shape.prefill_tokens == 0 && step->shape.decode_seqs == step->n_regular;
}

static void begin_step(Simulation *self, Machine *machine) {
  const Step *step = machine->scheduler->current;
  tell_of_beginnings(self, machine, step);
  Tick first;
  if (step->shape.prefill_tokens > 0) {
    machine->busiest = step->busiest;
    first = sim_begin_prefills(self, machine, &step->shape);
  } else {
    const bool same = !self->step && repeats(machine->scheduler, machine->lag);
    const bool goes_on = is_plain(step) && step->version == machine->scheduler->plain_version;
    sim_begin_steps(self, machine, &step->shape, same ? scheduler_watch(self, machine) : 1,
                    goes_on);
    machine->run.counted = step->n_counted;
    first = series_sum(machine->run.series, 1);
  }
  sim_tell_step(self, machine, step, self->now + first);
}

void scheduler_begin(Simulation *self, Machine *machine) {
  Scheduler *scheduler = machine->scheduler;
  const bool any = scheduler->has_next || machine->running.count > 0 ||
                   machine->prefill_queue.count + machine->decode_queue.count > 0;
  const bool begins = machine_works(machine) && any && take_step(self, machine);
  sim_book_idleness(self, machine, !begins);
  if (!begins) return;
  tell_step_begins(self, machine, scheduler->current);
  if (machine->lag > 0) decide_next(self, machine);
  begin_step(self, machine);
  if (machine->lag > 0 && !scheduler->has_next)
    sim_tell_step(self, machine, scheduler->next, self->now);
}

/* --- ending */

/* A run of more than one step: the `n`-th of them is the present one, and the batch knows of all
 * that are decided. */
static void end_run(Simulation *self, Machine *machine, int64_t n) {
  Scheduler *scheduler = machine->scheduler;
  const DecodeRun *run = &machine->run;
  sim_book_iterations(self, machine, n + machine->lag);
  Step *newest = machine->lag > 0 ? scheduler->next : scheduler->current;
  newest->shape.context_tokens = run->context + run->seqs * (n - 1 + machine->lag);
  newest->n_seconds[0] = newest->n_seconds[1] = 0;
  scheduler_end_sequences(self, machine, newest);
}

static void sort_items(Step *step) {
  for (size_t i = 1; i < step->n_items; i++) {
    const ScheduledItem item = step->items[i];
    size_t j = i;
    for (; j > 0 && step->items[j - 1].admission > item.admission; j--)
      step->items[j] = step->items[j - 1];
    step->items[j] = item;
  }
}

/* The last token that it makes here is made: it is finished, its KV leaves, or it turns out that it
 * is decoded here. */
static void end_here(Simulation *self, Machine *machine, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const bool finishes = request->generated_tokens + 1 == request->output_tokens;
  if (!finishes && request->decode_machine == machine->ix) {
    life_generates(self, machine, ix);
    scheduler_schedule_alone(self, machine, ix);
    return;
  }
  life_prefilled(self, machine, ix);
  if (finishes)
    life_finished(self, machine, ix);
  else
    sim_begin_transfer(self, ix);
}

/* It has left the batch with a token of the step. */
static void end_leaving(Simulation *self, Machine *machine, const ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  request->generated_tokens = item->done;
  request->last_token_at = self->now;
  request->computing_ticks += machine->decoded_ticks;
  if (self->keeps_parts) parts_left(self, machine, item->request, item->done);
  if (request->state == REQUEST_GENERATES)
    sim_register_blocks(self, machine, item->request, request_kv_tokens(request));
  if (item->done == request->output_tokens) life_finished(self, machine, item->request);
}

static void end_parts(Simulation *self, const Machine *machine, const ScheduledItem *item,
                      bool runs) {
  const RequestIx ix = item->request;
  if (item->kind == STEP_DECODE) {
    parts_left(self, machine, ix, self->requests.slots[ix].generated_tokens + 1);
    return;
  }
  parts_chunk_ended(self, machine, ix, item->tokens, item->done - item->tokens, item->last);
  if (!runs && !item->last) parts_lost(self, ix);
}

/* A chunk of it, or a decode by itself, is over. It may have been preempted meanwhile. */
static void end_item(Simulation *self, Machine *machine, const ScheduledItem *item) {
  Request *request = &self->requests.slots[item->request];
  const bool runs = request->state != REQUEST_WAITS_PREFILL;
  request->computing_ticks += self->now - machine->run.began_at;
  if (self->keeps_parts) end_parts(self, machine, item, runs);
  if (item->kind == STEP_CHUNK) sim_dispatch(self, item->request);
  if (!item->last) return;
  if (runs && item->ends && item->kind == STEP_CHUNK) {
    end_here(self, machine, item->request);
    return;
  }
  life_generates(self, machine, item->request);
  if (request->generated_tokens == request->output_tokens) {
    life_finished(self, machine, item->request);
    return;
  }
  if (!runs) return;
  if (request->scheduled != SCHEDULED_ALONE) {
    request->computing_ticks -= machine->decoded_ticks;
    if (self->keeps_parts) parts_joined(self, machine, item->request);
  }
  life_decode_began(self, machine, request);
}

/* The chunk of one that has given up is over, too. */
static void end_lost_chunk(Simulation *self, const Machine *machine, RequestIx ix) {
  const Step *step = machine->scheduler->current;
  for (size_t i = 0; i < step->n_items; i++)
    if (step->items[i].request == ix && step->items[i].kind == STEP_CHUNK)
      end_parts(self, machine, &step->items[i], true);
}

/* Their tokens of the step are for nobody. */
static void end_given_up(Simulation *self, Machine *machine) {
  Scheduler *scheduler = machine->scheduler;
  RequestIx ix = machine->running.first, next;
  for (; scheduler->n_leaving > 0; ix = next) {
    next = self->requests.slots[ix].next;
    if (!request_leaves(&self->requests.slots[ix])) continue;
    if (self->keeps_parts && machine_works(machine)) end_lost_chunk(self, machine, ix);
    sim_abandon_transfer(self, ix, false);
    life_left_early(self, ix, 0);
    scheduler->n_leaving--;
  }
}

bool scheduler_end(Simulation *self, Machine *machine, bool prefills) {
  Scheduler *scheduler = machine->scheduler;
  if (!prefills && machine->run.done > 1) end_run(self, machine, machine->run.done);
  Step *step = scheduler->current;
  scheduler->plain_version = is_plain(step) ? step->version : 0;
  if (step->n_regular > 0) {
    machine->decoded_at = self->now;
    machine->decoded_ticks += self->now - machine->run.began_at;
  }
  sort_items(step);
  const bool changes = step->n_items > 0 || scheduler->n_leaving > 0;
  end_given_up(self, machine);
  scheduler->current = NULL;
  for (size_t i = 0; i < step->n_items; i++) {
    if (step->items[i].request == REQUEST_NONE) continue;
    if (step->items[i].kind == STEP_LEAVES)
      end_leaving(self, machine, &step->items[i]);
    else
      end_item(self, machine, &step->items[i]);
  }
  step->n_items = 0;
  return changes;
}

/* The step stays the present one until its requests leave, of which it makes nothing
 * (scheduler_withdraw). */
void scheduler_break_off(Simulation *self, Machine *machine) {
  const DecodeRun *run = &machine->run;
  if (run->done > 0) end_run(self, machine, run->done + 1);
  if (machine->scheduler->current->n_regular > 0) {
    if (run->done > 0) machine->decoded_at = run->part_began_at;
    machine->decoded_ticks += self->now - run->began_at;
  }
  end_given_up(self, machine);
}
