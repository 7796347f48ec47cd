/* See rank_rounds.h. */
#include "sim/core/rank_rounds.h"
#include "sim/books/parts.h"
#include "sim/core/decode_run.h"
#include "sim/core/iteration.h"
#include "sim/core/scheduling.h"

static Rank *rank_of(const Instance *instance) {
  return instance->scheduler->rank;
}

static uint64_t n_in_progress(const Lockstep *self) {
  return self->n_launched - self->n_taken;
}

/* Whether the output of the oldest forward in progress is there, on all ranks. */
static bool has_output(const Simulation *self, const Lockstep *lockstep) {
  if (n_in_progress(lockstep) == 0) return false;
  if (lockstep->forwards[lockstep->n_taken % FORWARDS_ALIVE].ends > self->now) return false;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    const Step *oldest = lockstep->first[i].scheduler->current;
    if (rank_of(&lockstep->first[i])->gone) continue;
    if (oldest && oldest->forward == lockstep->n_taken) return false;
  }
  return true;
}

/* --- who waits for whom */

/* Whether a rank has a prompt that may join, and whether requests that decode. */
static bool has_prompt(const Instance *instance) {
  return instance->prefill_queue.count > 0;
}

static int64_t n_decodes(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return scheduler->by_items ? instance->running.count : (int64_t)instance->batch.n_seqs;
}

/* Whether prompts are held in this round: while all ranks decode, until each of them has a prompt
 * and a place for it, or they have waited long enough; and then for more of them. */
static bool holds_prompts(Lockstep *self) {
  const SchedulerLimits *limits = &self->first->scheduler->limits;
  bool all_decode = true, all_may_join = true;
  if (limits->rank_wait_iters == 0) return false;
  for (uint32_t i = 0; i < self->n; i++) {
    if (rank_of(&self->first[i])->gone) continue;
    const int64_t n = n_decodes(&self->first[i]);
    all_decode &= n > 0;
    all_may_join &= has_prompt(&self->first[i]) && n < limits->max_num_seqs;
  }
  if (all_may_join) {
    self->n_waits = 0;
    const bool holds = all_decode && self->n_held < limits->rank_batch_iters;
    if (all_decode) self->n_held = holds ? self->n_held + 1 : 0;
    return holds;
  }
  const bool holds = all_decode && ++self->n_waits < limits->rank_wait_iters;
  if (!holds) self->n_waits = 0;
  return holds;
}

/* What those who wait on a rank do. */
static void tell_of_waits(Simulation *self, const Instance *instance, bool holds) {
  const Request *slots = self->requests.slots;
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE; ix = slots[ix].next)
    parts_held(self, ix, holds);
}

/* --- a round */

/* Decides the step of one rank; whether another decision may follow though it has no tokens. */
static bool decide(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Rank *rank = rank_of(instance);
  Step *step = scheduler->next;
  rank->decided = true;
  const bool again = scheduler->limits.rules->decide(self, instance, step);
  scheduler->untold = step->dummy = false;
  rank->ran = !step_is_empty(step);
  if (!rank->ran) return again || (!scheduler->current && scheduler_gives_way(self, instance));
  if (self->config->executor) step->executed = lockstep_execute(self, instance, step);
  step->wave = 0;
  step->counter = rank->counter;
  step->forward = rank->n_joined;
  if (scheduler->current) {
    scheduler->has_next = true;
  } else {
    scheduler->current = step;
    scheduler->next = &scheduler->steps[step == &scheduler->steps[0]];
  }
  return false;
}

/* All come to the next forward, with a step or without. */
static void launch(Simulation *self, Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *instance = &lockstep->first[i];
    Rank *rank = rank_of(instance);
    Step *step = instance->scheduler->next;
    if (rank->gone) continue;
    if (!rank->ran) lockstep_list_dummy(self, instance, step);
    const uint64_t number = lockstep_join(self, rank, !rank->ran);
    if (!rank->ran) step->forward = number;
    rank->counter++;
  }
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *instance = &lockstep->first[i];
    if (rank_of(instance)->gone) continue;
    if (!rank_of(instance)->ran) lockstep_tell_step(self, instance, instance->scheduler->next);
  }
}

static void rest(Simulation *self, Lockstep *lockstep) {
  lockstep->rests = true;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *instance = &lockstep->first[i];
    if (!rank_of(instance)->gone && instance->scheduler->limits.rules->idles)
      instance->scheduler->limits.rules->idles(self, instance);
  }
}

/* Decides a step for all; whether the next round may be now. */
static bool decide_all(Simulation *self, Lockstep *lockstep) {
  bool any = false, again = false;
  const bool holds = holds_prompts(lockstep);
  for (uint32_t i = 0; i < lockstep->n; i++) {
    Instance *instance = &lockstep->first[i];
    Rank *rank = rank_of(instance);
    rank->ran = rank->decided = false;
    if (rank->gone) continue;
    instance->scheduler->holds_prompts = holds;
    if (self->keeps_parts && instance->scheduler->limits.rank_wait_iters > 0)
      tell_of_waits(self, instance, holds);
    if (lockstep_has_work(instance)) again |= decide(self, instance);
    any |= rank->ran;
  }
  if (any) {
    launch(self, lockstep);
    return true;
  }
  if (n_in_progress(lockstep) > 0) {
    lockstep->empty = true;
    return false;
  }
  if (!again) rest(self, lockstep);
  return again;
}

/* --- the loop */

static bool may_decide(const Lockstep *self) {
  const uint64_t n = n_in_progress(self);
  return !self->failed && !self->rests && n <= (uint64_t)self->first->lag &&
         !(self->empty && n > 0);
}

/* What has ended ends. */
static void end_all(Simulation *self, Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n && !self->failed; i++) {
    Instance *instance = &lockstep->first[i];
    if (instance->activity != ACTIVITY_IDLE && lockstep_end_of(instance) <= self->now)
      sim_end_iteration(self, instance);
  }
  for (; has_output(self, lockstep); lockstep->n_taken++)
    lockstep->empty = false;
}

/* What begins begins, once the step after it is decided, which may drop tokens of it. */
static void begin_all(Simulation *self, Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n && !self->failed && !lockstep->failed; i++)
    if (!rank_of(&lockstep->first[i])->gone && lockstep_begins(self, &lockstep->first[i]))
      lockstep_begin_step(self, &lockstep->first[i]);
}

/* What it computes ends at an event. What it has decided begins as the forward before ends, which
 * is an event of another rank, where it has no step in that; later, where experts move before. */
static void set_timer(Simulation *self, Instance *instance) {
  const bool idle = instance->activity == ACTIVITY_IDLE;
  if (rank_of(instance)->gone) return;
  sim_book_idleness(self, instance, idle);
  if (!idle) return;
  lockstep_awaits_copies(self, instance);
  const Lockstep *lockstep = instance->lockstep;
  const bool waits = lockstep->experts && !lockstep->failed;
  const Tick at = waits ? lockstep_begins_at(instance) : TICK_MAX;
  if (at < TICK_MAX)
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, at);
  else
    agenda_clear(&self->agenda, EVENT_ITERATION, instance->ix);
}

bool rank_rounds_go_on(Simulation *self, Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  end_all(self, lockstep);
  while (!self->failed && may_decide(lockstep) && decide_all(self, lockstep))
    continue;
  begin_all(self, lockstep);
  for (uint32_t i = 0; i < lockstep->n; i++)
    set_timer(self, &lockstep->first[i]);
  return true;
}

void rank_rounds_begin(Simulation *self, Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  sim_book_idleness(self, instance, true);
  lockstep->rests = false;
  // a forward without tokens of anybody who is left is over where no event says so
  if (may_decide(lockstep) || has_output(self, lockstep))
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, self->now);
}
