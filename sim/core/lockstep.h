/* Ranks of attention data parallelism whose steps begin together, as in vLLM 0.33 (RULES.md, "Ranks
 * in lockstep").
 *
 * An instance of R ranks is R values of type Instance, each with its own scheduler and KV memory.
 * The k-th *forward* of all ranks is one: it is launched when the last rank has come to it, begins
 * when the one before has ended too, and lasts as long as the performance model says of the batches
 * of all. A rank whose round decides nothing comes with a dummy batch while the wave runs.
 *
 * What a rank computes is, in the books, its oldest step that has tokens, from when its forward
 * begins until that ends; its event is that end, or the time at which the rank goes on by itself.
 * Whatever rank an event is of, all ranks go on as far as they can then, the first first. */
#ifndef SIM_CORE_LOCKSTEP_H
#define SIM_CORE_LOCKSTEP_H
#include "sim/core/expert_balance.h"
#include "sim/core/rank_front.h"
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

enum { FORWARDS_ALIVE = 4 }; // a rank is at most two ahead of another

typedef struct Forward {
  uint32_t n_joined;
  Tick launched_at, begins, ends; // launched_at -1: not all have come to it
  Extrapolation extrapolation;
  bool vain; // so far nobody has tokens in it
} Forward;

typedef struct Lockstep {
  Instance *first; // of `n`
  uint32_t n;
  RankFront front;
  Forward forwards[FORWARDS_ALIVE]; // by number
  uint64_t n_launched;              // the next that is launched has this number
  uint32_t n_voted;                 // in the vote that goes on
  bool unfinished;                  // one of them has unfinished requests
  bool goes_on;                     // of the last vote that is over: the wave does
  int64_t n_votes;                  // that are over
  int64_t n_vain;                   // forwards since the newest with tokens, or since anything
                                    // happened
  bool failed;                      // and what its ranks had is not lost yet
  uint32_t n_alive;                 // of `n`, that come to forwards
  bool loses;                       // one of them does not any more, which is to be seen to
  bool too_few;                     // are without faults to have all experts: none works
  Tick resumes_at;                  // no forward begins before
  ExpertBalance *experts;           // NULL: their loads are as the model's times have them
  /* Of those whose rounds are one (rank_rounds.h). */
  uint64_t n_taken;        // forwards whose output is
  bool empty;              // the newest round was, while a forward is in progress
  bool rests;              // nothing is to be decided until something happens
  int64_t n_waits, n_held; // rounds since prompts last joined, and held for more of them
  uint32_t turn;           // whose the next request is, where they go round
  int64_t *own, *figures;  // [n] reused
  bool *may;               // [n] reused
} Lockstep;

/* Where a rank's loop is. */
typedef enum RankStage {
  RANK_TAKES_IN, // what has come; where nothing is to be done, until something has
  RANK_DECIDES,
  RANK_AWAITS_OUTPUT, // of its oldest step
  RANK_RESTS,         // after a round without tokens
  RANK_JOINS,         // the next forward, if it has no step in it
  RANK_AWAITS_LAUNCH, // of that
  RANK_COUNTS,        // the round
  RANK_AWAITS_VOTES,
} RankStage;

/* A request, or REQUEST_NONE: the wave has begun. */
typedef struct RankMessage {
  RequestIx request;
  int64_t wave;
} RankMessage;

typedef struct Rank {
  Lockstep *lockstep;
  uint32_t number;
  RankStage stage;
  Tick until;          // RANK_RESTS
  Tick ended_at;       // the newest step with tokens
  bool runs, ran_then; // the wave does; as the round began
  bool gone;           // it has failed, and the others go on (PoolSpec.shrinks)
  bool decided, ran;   // the round has a step; with tokens
  uint64_t n_joined;   // forwards
  int64_t wave, counter, n_votes;
  bool queue[2]; // steps without output, the oldest first: whether they have tokens
  size_t n_queued, most_queued;
  RankMessage *box;
  size_t n_messages, box_capacity;
  int64_t told_waiting, told_running;
} Rank;

/* Of a pool with ranks. */
void lockstep_init(Lockstep *self, Instance *first, uint32_t n, Arena *arena);
/* As Loop has them. */
void lockstep_hear(Simulation *self, Instance *instance, RequestIx request);
void lockstep_fail(Instance *instance);
void lockstep_start(Simulation *self, Instance *instance);
void lockstep_begin(Simulation *self, Instance *instance);
bool lockstep_go_on(Simulation *self, Instance *instance);
bool lockstep_end(Simulation *self, Instance *instance, bool prefills);
void lockstep_forget(Simulation *self, Instance *instance);
Tick lockstep_ticks(const Simulation *self, const Instance *instance,
                    Extrapolation *ret_extrapolation);

/* It is as the instance starts. */
void lockstep_reset(Lockstep *self, Tick now);

/* Of pools that shrink. So many ranks have a place for each expert. */
bool lockstep_fits(const Lockstep *self, uint32_t n_ranks);
/* Ranks have failed, which the others go on without: they wait, then have their experts. */
void lockstep_shrink(Simulation *self, Lockstep *lockstep);
/* A rank comes up; all that do now have: experts are placed anew. */
void lockstep_return(Instance *instance);
void lockstep_grow(Simulation *self, Lockstep *lockstep);

/* What loops of ranks share. The engine of a rank has something to decide. */
bool lockstep_has_work(const Instance *instance);
/* When what a rank computes ends. */
Tick lockstep_end_of(const Instance *instance);
/* The forward of its oldest step has begun, and it does not compute that yet; it does. */
bool lockstep_begins(const Simulation *self, const Instance *instance);
/* When that forward begins; TICK_MAX: it is not launched, or there is no such step. */
Tick lockstep_begins_at(const Instance *instance);
/* A rank without a step hears of copies that its connector makes when they end. */
void lockstep_awaits_copies(Simulation *self, Instance *instance);
void lockstep_begin_step(Simulation *self, Instance *instance);
/* A rank has come to its next forward, whose number is returned; the last one launches it. */
uint64_t lockstep_join(Simulation *self, Rank *rank, bool vain);
/* The ticks of a step by the run's executor. */
Tick lockstep_execute(Simulation *self, Instance *instance, Step *step);
/* Who wants to know of steps is told of one, or of what a rank has that comes without tokens. */
void lockstep_tell_step(Simulation *self, const Instance *instance, Step *step);
void lockstep_list_dummy(Simulation *self, const Instance *instance, Step *step);

/* A request that leaves is in no message any more. */
void lockstep_drop(const Instance *instance, RequestIx request);

/* The invariants of an instance's ranks; `instance` is the first. */
void lockstep_audit(const Simulation *self, const Instance *instance);
#endif
