/* See lockstep.h. */
#include "sim/core/lockstep.h"
#include "sim/core/connector.h"
#include "sim/core/counting.h"
#include "sim/core/decode_run.h"
#include "sim/core/forward_time.h"
#include "sim/core/iteration.h"
#include "sim/core/lifecycle.h"
#include "sim/core/loop.h"
#include "sim/core/scheduling.h"
#include "sim/core/step_listing.h"
#include <assert.h>

enum { VAIN_FORWARDS = 64 }; // after which nothing comes of those that follow

static Rank *rank_of(const Instance *instance) {
  return instance->scheduler->rank;
}

static Forward *forward_of(Lockstep *self, uint64_t number) {
  return &self->forwards[number % FORWARDS_ALIVE];
}

static bool is_launched(const Lockstep *self, uint64_t number) {
  return number < self->n_launched;
}

/* --- what there is to do */

static int64_t n_messages_of_requests(const Rank *self) {
  int64_t n = 0;
  for (size_t i = 0; i < self->n_messages; i++)
    n += self->box[i].request != REQUEST_NONE;
  return n;
}

/* Requests that wait, of those taken in. */
static int64_t n_waiting(const Instance *instance) {
  return instance->prefill_queue.count + instance->decode_queue.count -
         n_messages_of_requests(rank_of(instance));
}

static bool has_unfinished(const Instance *instance) {
  return instance_works(instance) && instance->running.count + n_waiting(instance) > 0;
}

/* Whether the engine has anything to decide: requests that ended are to be told of, too. */
bool lockstep_has_work(const Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  return has_unfinished(instance) ||
         (instance_works(instance) && (scheduler->untold || scheduler->n_pauses > 0));
}

Tick lockstep_end_of(const Instance *instance) {
  const DecodeRun *run = &instance->run;
  return instance->activity == ACTIVITY_PREFILL ? run->ends_at
                                                : run->part_began_at + series_sum(run->series, 1);
}

/* Whether a rank goes on from its stage now. */
static bool is_due(const Simulation *self, const Instance *instance) {
  const Rank *rank = rank_of(instance);
  const Lockstep *lockstep = rank->lockstep;
  switch (rank->stage) {
  case RANK_TAKES_IN:
    return rank->n_messages > 0 || rank->runs || rank->n_queued > 0 || lockstep_has_work(instance);
  case RANK_AWAITS_OUTPUT:
    return instance->activity != ACTIVITY_IDLE && lockstep_end_of(instance) <= self->now;
  case RANK_RESTS:
    return rank->until <= self->now;
  case RANK_AWAITS_LAUNCH:
    return is_launched(lockstep, rank->n_joined - 1);
  case RANK_AWAITS_VOTES:
    return lockstep->n_votes >= rank->n_votes;
  case RANK_DECIDES:
  case RANK_JOINS:
  case RANK_COUNTS:
    break;
  }
  return true;
}

/* --- messages */

/* Counts are told if they have changed. */
static void tell(const Simulation *self, const Instance *instance) {
  Rank *rank = rank_of(instance);
  const int64_t waiting = n_waiting(instance), running = instance->running.count;
  if (waiting == rank->told_waiting && running == rank->told_running) return;
  rank->told_waiting = waiting;
  rank->told_running = running;
  const double free_share = (double)instance->free_blocks / (double)instance->kv_blocks;
  rank_front_tell(&rank->lockstep->front, self->now, rank->number, rank->wave, rank->counter,
                  (RankCounts){waiting, running, 1.0 - free_share});
}

static void send(Simulation *self, Rank *rank, RankMessage message) {
  ARENA_RESERVE(self->arena, rank->box, rank->box_capacity, rank->n_messages + 1);
  rank->box[rank->n_messages++] = message;
}

static void begin_wave(Simulation *self, const Rank *rank, int64_t wave) {
  Lockstep *lockstep = rank->lockstep;
  if (!rank_front_begin_wave(&lockstep->front, self->now, wave)) return;
  for (uint32_t i = 0; i < lockstep->n; i++)
    if (i != rank->number)
      send(self, rank_of(&lockstep->first[i]), (RankMessage){REQUEST_NONE, wave});
}

void lockstep_hear(Simulation *self, Instance *instance, RequestIx request) {
  Rank *rank = rank_of(instance);
  send(self, rank, (RankMessage){request, rank->lockstep->front.seen_wave});
}

void lockstep_drop(const Instance *instance, RequestIx request) {
  Rank *rank = rank_of(instance);
  size_t n = 0;
  for (size_t i = 0; i < rank->n_messages; i++)
    if (rank->box[i].request != request) rank->box[n++] = rank->box[i];
  rank->n_messages = n;
}

/* --- forwards */

/* The step of a rank that is in a forward; NULL: a dummy batch is. */
static const Step *step_in(const Scheduler *self, uint64_t number) {
  if (self->current && self->current->forward == number) return self->current;
  return self->has_next && self->next->forward == number ? self->next : NULL;
}

/* What the forward takes, of what all have in it. */
static Tick forward_ticks(const Simulation *self, Lockstep *lockstep, uint64_t number) {
  ForwardTime time = {0};
  Tick executed = 1;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    const Instance *instance = &lockstep->first[i];
    const Step *step = step_in(instance->scheduler, number);
    if (rank_of(instance)->gone) continue;
    if (!self->config->executor) {
      forward_time_add(&time, instance, step);
      continue;
    }
    const Tick ticks = step ? step->executed : self->config->executor->dummy;
    if (ticks > executed) executed = ticks;
  }
  if (self->config->executor) return executed;
  forward_of(lockstep, number)->extrapolation = time.whole.extrapolation;
  return forward_time_ticks(&time, lockstep->first->pool, lockstep->experts);
}

/* Experts move before a forward, which begins later by what is returned. */
static Tick rearrange(Simulation *self, const Lockstep *lockstep) {
  const ExpertSpec *spec = lockstep->experts->spec;
  const Rearrangement made = expert_balance_begin(lockstep->experts, self->now);
  if (!made.happens) return 0;
  ExpertBooks *books = &sim_present_books(self)->experts;
  books->rearrangements++;
  books->moved_bytes += (Total)made.n_moved * spec->expert_bytes;
  books->move_ticks += made.ticks;
  sim_log(self, OUTCOME_REARRANGEMENT, NULL, lockstep->first->ix, made.n_moved, made.ticks);
  return spec->use_async ? 0 : made.ticks;
}

static void book_experts(Simulation *self, const Lockstep *lockstep, Tick ticks) {
  ExpertBooks *books = &sim_present_books(self)->experts;
  books->ticks += ticks;
  books->imbalance += (Total)ticks * lockstep->experts->imbalance;
}

/* Whether KV is on its way to requests that wait for it: it comes, however many forwards are
 * vain. */
static bool awaits_kv(const Simulation *self, const Lockstep *lockstep) {
  const Request *slots = self->requests.slots;
  for (uint32_t i = 0; i < lockstep->n; i++)
    for (RequestIx ix = lockstep->first[i].prefill_queue.first;
         ix != REQUEST_NONE && slots[ix].loading; ix = slots[ix].next)
      if (slots[ix].loading == LOADING_RUNS) return true;
  return false;
}

static void launch(Simulation *self, Lockstep *lockstep) {
  const uint64_t number = lockstep->n_launched;
  Forward *forward = forward_of(lockstep, number);
  const Tick free_at = number > 0 ? forward_of(lockstep, number - 1)->ends : 0;
  forward->launched_at = self->now;
  forward->begins = free_at > self->now ? free_at : self->now;
  if (forward->begins < lockstep->resumes_at) forward->begins = lockstep->resumes_at;
  const bool follows = lockstep->experts && !self->config->executor;
  if (follows) forward->begins += rearrange(self, lockstep);
  forward->ends = forward->begins + forward_ticks(self, lockstep, number);
  if (follows) book_experts(self, lockstep, forward->ends - forward->begins);
  lockstep->n_vain = forward->vain && !awaits_kv(self, lockstep) ? lockstep->n_vain + 1 : 0;
  lockstep->n_launched++;
  *forward_of(lockstep, number + 2) = (Forward){.launched_at = -1, .vain = true};
}

/* A rank has come to its next forward; its number. */
uint64_t lockstep_join(Simulation *self, Rank *rank, bool vain) {
  Lockstep *lockstep = rank->lockstep;
  const uint64_t number = rank->n_joined++;
  Forward *forward = forward_of(lockstep, number);
  forward->vain &= vain;
  if (++forward->n_joined == lockstep->n_alive) launch(self, lockstep);
  return number;
}

Tick lockstep_execute(Simulation *self, Instance *instance, Step *step) {
  Scheduler *scheduler = instance->scheduler;
  Step *present = scheduler->current;
  scheduler->current = step; // whose sequences are listed
  const Tick ticks = sim_execute(self, instance, &step->shape, 0);
  scheduler->current = present;
  self->failed |= ticks < 0;
  return ticks;
}

/* What is told of a step: the forward that it was in. */
void lockstep_tell_step(Simulation *self, const Instance *instance, Step *step) {
  const Forward *forward = forward_of(rank_of(instance)->lockstep, step->forward);
  if (!self->config->on_step) return;
  step->launched_at = forward->launched_at;
  step->begins = forward->begins;
  sim_tell_step(self, instance, step, forward->ends);
}

Tick lockstep_ticks(const Simulation *self, const Instance *instance,
                    Extrapolation *ret_extrapolation) {
  const Forward *forward = forward_of(instance->lockstep, instance->scheduler->current->forward);
  *ret_extrapolation = forward->extrapolation;
  return forward->ends > self->now ? forward->ends - self->now : 0;
}

Tick lockstep_begins_at(const Instance *instance) {
  const Step *step = instance->scheduler->current;
  Lockstep *lockstep = instance->lockstep;
  return step && is_launched(lockstep, step->forward) ? forward_of(lockstep, step->forward)->begins
                                                      : TICK_MAX;
}

/* Whether the forward of its oldest step has begun, and it does not compute that yet. */
bool lockstep_begins(const Simulation *self, const Instance *instance) {
  return instance->activity == ACTIVITY_IDLE && lockstep_begins_at(instance) <= self->now;
}

void lockstep_begin_step(Simulation *self, Instance *instance) {
  sim_book_idleness(self, instance, false);
  scheduler_tell_of_beginnings(self, instance, instance->scheduler->current);
  scheduler_begin_step(self, instance);
}

/* --- a round */

static void enter(Rank *rank, RankStage stage) {
  rank->stage = stage;
  if (stage == RANK_TAKES_IN) rank->ran_then = rank->runs;
}

/* One comes into a rank that idles: the wave begins. */
static void take_request_in(Simulation *self, Rank *rank, int64_t wave) {
  if (wave > rank->wave) rank->wave = wave;
  if (rank->runs) return;
  rank->runs = true;
  begin_wave(self, rank, rank->wave);
}

static void take_in(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  for (size_t i = 0; i < rank->n_messages; i++) {
    const RankMessage *message = &rank->box[i];
    if (message->request != REQUEST_NONE) {
      take_request_in(self, rank, message->wave);
    } else if (message->wave >= rank->wave) {
      rank->wave = message->wave;
      rank->runs = true;
    }
  }
  rank->n_messages = 0;
  if (has_unfinished(instance)) take_request_in(self, rank, rank->wave); // it came in an outage
  if (rank->runs || rank->n_queued > 0 || lockstep_has_work(instance)) enter(rank, RANK_DECIDES);
}

/* Decides a step; whether it has tokens. */
static bool decide(Simulation *self, Instance *instance) {
  Scheduler *scheduler = instance->scheduler;
  Rank *rank = rank_of(instance);
  Step *step = scheduler->next;
  scheduler->limits.rules->decide(self, instance, step);
  scheduler->untold = step->dummy = false;
  if (step_is_empty(step)) return false;
  if (self->config->executor) step->executed = lockstep_execute(self, instance, step);
  step->wave = rank->wave;
  step->counter = rank->counter;
  step->forward = rank->n_joined;
  if (scheduler->current) {
    scheduler->has_next = true;
  } else {
    scheduler->current = step;
    scheduler->next = &scheduler->steps[step == &scheduler->steps[0]];
  }
  lockstep_join(self, rank, false);
  return true;
}

/* Takes the oldest step out; whether it had tokens. */
static bool pop(Rank *rank) {
  const bool has_tokens = rank->queue[0];
  rank->queue[0] = rank->queue[1];
  rank->n_queued--;
  return has_tokens;
}

/* The output is taken, if one was awaited. */
static void rest(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  const bool sleeps = !rank->ran && lockstep_has_work(instance);
  if (sleeps && !instance->scheduler->current && scheduler_gives_way(self, instance))
    rank->lockstep->n_vain = 0;
  rank->until = self->now + (sleeps ? instance->scheduler->limits.idle_sleep : 0);
  enter(rank, sleeps ? RANK_RESTS : RANK_JOINS);
}

static void begin_round(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  tell(self, instance);
  rank->ran = rank->decided = false;
  bool pops = rank->n_queued > 0;
  if (lockstep_has_work(instance)) {
    rank->decided = true;
    rank->ran = decide(self, instance);
    rank->queue[rank->n_queued++] = rank->ran;
    pops = rank->n_queued == rank->most_queued || !(rank->ran || lockstep_has_work(instance));
  }
  if (pops && pop(rank))
    enter(rank, RANK_AWAITS_OUTPUT);
  else
    rest(self, instance);
}

/* What it has when it comes to a forward without tokens, for who wants to know; those that have
 * given way in the round are listed already. */
void lockstep_list_dummy(Simulation *self, const Instance *instance, Step *step) {
  const Rank *rank = rank_of(instance);
  step->shape = (BatchShape){0};
  step->dummy = true;
  step->decided_at = self->now;
  step->wave = rank->wave;
  step->counter = rank->counter;
  if (!rank->decided) sim_begin_listing(self, step);
  if (step->listing) step->listing->n_running = 0;
  sim_list_step(self, instance, step);
  if (step->listing) step->listing->n_waiting = n_waiting(instance);
}

/* Comes to the next forward with a dummy batch if it has no step in it, while the wave runs. */
static void go_along(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  tell(self, instance);
  if (rank->ran) {
    enter(rank, RANK_COUNTS);
    return;
  }
  if (!rank->runs && !has_unfinished(instance)) {
    enter(rank, RANK_TAKES_IN);
    return;
  }
  Step *step = instance->scheduler->next;
  lockstep_list_dummy(self, instance, step);
  step->forward = lockstep_join(self, rank, true);
  enter(rank, RANK_AWAITS_LAUNCH);
}

static void vote(const Simulation *self, const Instance *instance) {
  Rank *rank = rank_of(instance);
  Lockstep *lockstep = rank->lockstep;
  (void)self;
  rank->n_votes++;
  lockstep->unfinished |= has_unfinished(instance);
  if (++lockstep->n_voted < lockstep->n_alive) return;
  lockstep->goes_on = lockstep->unfinished;
  lockstep->unfinished = false;
  lockstep->n_voted = 0;
  lockstep->n_votes++;
}

/* The round is over, and whether the wave goes on is known. */
static void end_round(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  if (!rank->runs) {
    if (rank->number == 0) rank_front_end_wave(&rank->lockstep->front, self->now, rank->wave);
    rank->wave++;
    rank->counter = 0;
  } else if (!rank->ran_then && rank->number == 0) {
    begin_wave(self, rank, rank->wave);
  }
  enter(rank, RANK_TAKES_IN);
}

static void count_round(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  rank->runs = true;
  rank->counter++;
  if (rank->counter == 1 || rank->counter % instance->scheduler->limits.sync_interval == 0) {
    vote(self, instance);
    enter(rank, RANK_AWAITS_VOTES);
  } else {
    end_round(self, instance);
  }
}

/* Goes on from where it is, which is due. */
static void go_on(Simulation *self, Instance *instance) {
  Rank *rank = rank_of(instance);
  switch (rank->stage) {
  case RANK_TAKES_IN:
    take_in(self, instance);
    break;
  case RANK_DECIDES:
    begin_round(self, instance);
    break;
  case RANK_AWAITS_OUTPUT:
    sim_end_iteration(self, instance);
    rest(self, instance);
    break;
  case RANK_RESTS:
    enter(rank, RANK_JOINS);
    break;
  case RANK_JOINS:
    go_along(self, instance);
    break;
  case RANK_AWAITS_LAUNCH:
    lockstep_tell_step(self, instance, instance->scheduler->next);
    enter(rank, RANK_COUNTS);
    break;
  case RANK_COUNTS:
    count_round(self, instance);
    break;
  case RANK_AWAITS_VOTES:
    rank->runs = rank->lockstep->goes_on;
    end_round(self, instance);
    break;
  }
}

/* --- the loop */

/* Whether nothing comes of further forwards until something happens. */
static bool stands_still(const Lockstep *self) {
  return self->failed || self->n_vain > VAIN_FORWARDS;
}

/* The next that goes on now, the first first; NULL: none does. */
static Instance *next_due(const Simulation *self, const Lockstep *lockstep) {
  for (uint32_t i = 0; i < lockstep->n && !stands_still(lockstep); i++) {
    Instance *instance = &lockstep->first[i];
    if (lockstep_begins(self, instance) || is_due(self, instance)) return instance;
  }
  return NULL;
}

/* When an idle rank goes on by itself; TICK_MAX: it does not. */
static Tick next_at(const Instance *instance) {
  const Rank *rank = rank_of(instance);
  if (stands_still(instance->lockstep)) return TICK_MAX;
  const Tick at = rank->stage == RANK_RESTS ? rank->until : TICK_MAX;
  const Tick begins = lockstep_begins_at(instance);
  return begins < at ? begins : at;
}

void lockstep_awaits_copies(Simulation *self, Instance *instance) {
  const Scheduler *scheduler = instance->scheduler;
  if (scheduler->connector && !scheduler->current && instance_works(instance))
    connector_idles(self, instance);
}

static void set_timer(Simulation *self, Instance *instance) {
  const bool idle = instance->activity == ACTIVITY_IDLE;
  sim_book_idleness(self, instance, idle);
  if (!idle) return; // it is the end of what it computes
  lockstep_awaits_copies(self, instance);
  const Tick at = next_at(instance);
  const Event *pending = agenda_find(&self->agenda, EVENT_ITERATION, instance->ix);
  if (at == TICK_MAX)
    agenda_clear(&self->agenda, EVENT_ITERATION, instance->ix);
  else if (!pending || pending->at != at)
    agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, at);
}

bool lockstep_go_on(Simulation *self, Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  Instance *due;
  while (!self->failed && (due = next_due(self, lockstep))) {
    if (lockstep_begins(self, due))
      lockstep_begin_step(self, due);
    else
      go_on(self, due);
  }
  for (uint32_t i = 0; i < lockstep->n; i++)
    set_timer(self, &lockstep->first[i]);
  return true;
}

void lockstep_begin(Simulation *self, Instance *instance) {
  Lockstep *lockstep = instance->lockstep;
  sim_book_idleness(self, instance, true);
  lockstep->n_vain = 0;
  if (lockstep->failed || !is_due(self, instance)) return;
  agenda_set(&self->agenda, EVENT_ITERATION, instance->ix, self->now);
}

bool lockstep_end(Simulation *self, Instance *instance, bool prefills) {
  Scheduler *scheduler = instance->scheduler;
  Step *step = scheduler->current;
  (void)prefills;
  lockstep_tell_step(self, instance, step);
  const bool changes = scheduler_end_step(self, instance);
  rank_of(instance)->ended_at = self->now;
  if (!scheduler->has_next) return changes;
  scheduler->current = scheduler->next;
  scheduler->next = step;
  scheduler->has_next = false;
  return changes;
}

/* --- the beginning */

void lockstep_init(Lockstep *self, Instance *first, uint32_t n, Arena *arena) {
  *self = (Lockstep){.first = first,
                     .n = n,
                     .n_alive = n,
                     .own = ARENA_ARRAY(arena, int64_t, n),
                     .figures = ARENA_ARRAY(arena, int64_t, n),
                     .may = ARENA_ARRAY(arena, bool, n)};
  rank_front_init(&self->front, n, arena);
  lockstep_reset(self, 0);
}

void lockstep_start(Simulation *self, Instance *instance) {
  scheduler_start(self, instance, 2);
  Rank *rank = instance->scheduler->rank = ARENA_NEW(self->arena, Rank);
  *rank = (Rank){.lockstep = instance->lockstep,
                 .number = (uint32_t)(instance - instance->lockstep->first),
                 .most_queued = 1 + (size_t)instance->lag};
}

void lockstep_audit(const Simulation *self, const Instance *instance) {
  const Lockstep *lockstep = instance->lockstep;
  uint32_t n_joined[2] = {0, 0}, n_voted = 0, n_alive = 0;
  (void)self;
  if (lockstep->experts) expert_balance_audit(lockstep->experts);
  if (lockstep->failed) return;
  for (uint32_t i = 0; i < lockstep->n; i++) {
    const Instance *member = &lockstep->first[i];
    const Rank *rank = rank_of(member);
    assert(rank->gone == (member->pool->shrinks && member->availability >= INSTANCE_DOWN));
    n_alive += !rank->gone;
    if (rank->gone) continue;
    assert(rank->n_joined >= lockstep->n_launched && rank->n_joined <= lockstep->n_launched + 2);
    for (uint64_t k = 0; k < 2; k++)
      n_joined[k] += rank->n_joined > lockstep->n_launched + k;
    n_voted += rank->n_votes > lockstep->n_votes;
    assert(rank->n_votes - lockstep->n_votes <= 1 && rank->n_queued <= rank->most_queued);
    for (size_t m = 0; m < rank->n_messages; m++) {
      const RequestIx ix = rank->box[m].request;
      if (ix != REQUEST_NONE) assert(life_instance(self, &self->requests.slots[ix]) == member->ix);
    }
  }
  for (uint64_t k = 0; k < 2; k++)
    assert(lockstep->forwards[(lockstep->n_launched + k) % FORWARDS_ALIVE].n_joined == n_joined[k]);
  assert(n_voted == lockstep->n_voted && lockstep->n_voted < lockstep->n);
  assert(n_alive == lockstep->n_alive && !lockstep->loses);
}
