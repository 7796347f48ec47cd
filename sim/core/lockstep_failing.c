/* Ranks that fail: all together; or alone, of those that decide together, where the others go on
 * (RULES.md, "Ranks that fail alone"). See lockstep.h. */
#include "sim/core/counting.h"
#include "sim/core/lockstep.h"
#include "sim/core/marks.h"
#include "sim/core/scheduling.h"

static Rank *rank_of(const Instance *instance) {
  return instance->scheduler->rank;
}

static Forward *forward_of(Lockstep *self, uint64_t number) {
  return &self->forwards[number % FORWARDS_ALIVE];
}

/* --- all ranks */

void lockstep_reset(Lockstep *self, Tick now) {
  for (uint64_t i = 0; i < FORWARDS_ALIVE; i++)
    self->forwards[i] = (Forward){.launched_at = -1, .vain = true};
  self->n_launched = 0;
  self->n_voted = 0;
  self->n_votes = self->n_vain = 0;
  self->failed = self->unfinished = false;
  self->resumes_at = 0;
  self->n_taken = 0;
  self->empty = self->rests = false;
  self->n_waits = self->n_held = 0;
  rank_front_forget(&self->front, now);
  if (self->experts) expert_balance_restart(self->experts);
}

static void reset_rank(Rank *self) {
  self->stage = RANK_TAKES_IN;
  self->runs = self->ran_then = false;
  self->n_joined = 0;
  self->wave = self->counter = self->n_votes = 0;
  self->n_queued = self->n_messages = 0;
  self->told_waiting = self->told_running = 0;
}

/* --- who is left */

static int32_t rank_gpus(const Lockstep *self) {
  return self->experts->spec->shape.n_gpus / (int32_t)self->n;
}

static void set_gone(Instance *instance, bool gone) {
  Lockstep *lockstep = instance->lockstep;
  Rank *rank = rank_of(instance);
  const int32_t gpus = rank_gpus(lockstep);
  rank->gone = gone;
  lockstep->n_alive += gone ? -1u : 1;
  expert_balance_set_gone(lockstep->experts, (int32_t)rank->number * gpus, gpus, gone);
}

bool lockstep_fits(const Lockstep *self, uint32_t n_ranks) {
  return expert_balance_fits(self->experts->spec, (int64_t)n_ranks * rank_gpus(self));
}

static void lose(Instance *instance) {
  if (rank_of(instance)->gone) return;
  set_gone(instance, true);
  instance->lockstep->loses = true;
}

void lockstep_fail(Instance *instance) {
  if (instance->pool->shrinks)
    lose(instance);
  else
    instance->lockstep->failed = true;
}

/* --- experts */

/* Experts are placed on the GPUs that there are, those that none of these has are loaded: what it
 * takes. */
static Tick regroup(Simulation *self, const Lockstep *lockstep) {
  const PoolSpec *pool = lockstep->first->pool;
  const Rearrangement made = expert_balance_regroup(lockstep->experts);
  const int64_t each = lockstep->experts->spec->expert_bytes, bytes = made.n_loaded * each;
  ExpertBooks *books = &sim_present_books(self)->experts;
  books->rearrangements++;
  books->moved_bytes += (Total)(made.n_moved + made.n_loaded) * each;
  Tick ticks = made.ticks, free_at = 0;
  if (bytes > 0) {
    const StartUp weights = {.weights_from = pool->start_up.weights_from,
                             .bandwidth = pool->start_up.bandwidth};
    ticks += start_up_end(&weights, bytes, pool->nic_bandwidth, 0, &free_at);
  }
  books->move_ticks += ticks;
  sim_log(self, OUTCOME_REARRANGEMENT, NULL, lockstep->first->ix, made.n_moved + made.n_loaded,
          ticks);
  return ticks;
}

static void mark_all(Simulation *self, const Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n; i++)
    if (!rank_of(&lockstep->first[i])->gone) sim_mark(self, &lockstep->first[i], MARK_BEGIN);
}

/* --- fewer */

/* Whether anybody who is left has tokens in a forward. */
static bool has_tokens(const Lockstep *self, uint64_t number) {
  for (uint32_t i = 0; i < self->n; i++) {
    const Scheduler *scheduler = self->first[i].scheduler;
    if (scheduler->rank->gone) continue;
    if (scheduler->current && scheduler->current->forward == number) return true;
    if (scheduler->has_next && scheduler->next->forward == number) return true;
  }
  return false;
}

/* The forward in progress ends as it would have. One that is launched and has not begun waits, and
 * takes as long as it would have. Without tokens of anybody who is left both are over. */
static void put_off(const Simulation *self, Lockstep *lockstep) {
  Tick free_at = self->now;
  for (uint64_t k = lockstep->n_taken; k < lockstep->n_launched; k++) {
    Forward *forward = forward_of(lockstep, k);
    const Tick ticks = has_tokens(lockstep, k) ? forward->ends - forward->begins : 0;
    if (forward->begins > self->now) {
      forward->begins = ticks == 0                       ? free_at
                        : free_at > lockstep->resumes_at ? free_at
                                                         : lockstep->resumes_at;
      forward->ends = forward->begins + ticks;
    } else if (ticks == 0) {
      forward->ends = self->now;
    }
    if (forward->ends > free_at) free_at = forward->ends;
  }
}

/* A step of it that has not begun, whose requests have left, never does: its output is not awaited,
 * and the others do not wait for it. */
static void lose_steps(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  rank->queue[0] = rank->queue[1] = false;
  if (rank->stage == RANK_AWAITS_OUTPUT) rank->stage = RANK_JOINS;
  put_off(self, instance->lockstep);
  mark_all(self, instance->lockstep);
}

/* One that has drained, while others go on, is still in step with them. */
void lockstep_forget(Simulation *self, Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  const bool had_step = instance->scheduler->current != NULL;
  scheduler_lose_memory(self, instance);
  if (!lockstep->failed) {
    if (had_step && !rank_of(instance)->gone) lose_steps(self, instance);
    return;
  }
  for (uint32_t i = 0; i < lockstep->n; i++)
    if (lockstep->first[i].dead) return;
  for (uint32_t i = 0; i < lockstep->n; i++)
    reset_rank(rank_of(&lockstep->first[i]));
  lockstep_reset(lockstep, self->now);
}

void lockstep_shrink(Simulation *self, Lockstep *lockstep) {
  const Tick at = self->now + lockstep->first->pool->rank_recovery + regroup(self, lockstep);
  lockstep->loses = false;
  if (at > lockstep->resumes_at) lockstep->resumes_at = at;
  put_off(self, lockstep);
  mark_all(self, lockstep);
}

/* --- more */

/* One that is still going on, or has come up before. */
static const Rank *another(const Instance *instance) {
  const Lockstep *lockstep = instance->lockstep;
  for (uint32_t i = 0; i < lockstep->n; i++)
    if (&lockstep->first[i] != instance && !rank_of(&lockstep->first[i])->gone)
      return rank_of(&lockstep->first[i]);
  return NULL;
}

void lockstep_return(Instance *instance) {
  Rank *rank = rank_of(instance);
  const Rank *model = another(instance);
  reset_rank(rank);
  rank->n_joined = instance->lockstep->n_launched;
  if (model) rank->counter = model->counter;
  set_gone(instance, false);
}

void lockstep_grow(Simulation *self, Lockstep *lockstep) {
  if (lockstep->too_few) { // all of them have just started
    lockstep->too_few = false;
    expert_balance_restart(lockstep->experts);
  } else {
    Tick at = self->now;
    if (lockstep->n_launched > 0 && forward_of(lockstep, lockstep->n_launched - 1)->ends > at)
      at = forward_of(lockstep, lockstep->n_launched - 1)->ends;
    if (lockstep->resumes_at > at) at = lockstep->resumes_at;
    lockstep->resumes_at = at + lockstep->first->pool->rank_rejoin + regroup(self, lockstep);
  }
  mark_all(self, lockstep);
}
