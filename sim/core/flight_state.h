/* What an instance keeps of steps in the stages of a pipeline (flights.h), and of rounds that are
 * planned (flight_plan.h). */
#ifndef SIM_CORE_FLIGHT_STATE_H
#define SIM_CORE_FLIGHT_STATE_H
#include "sim/core/scheduler.h"

/* Requests of each S-th step. */
typedef struct Microbatch {
  ScheduledItem *items; // those of its newest step
  size_t n;
  int64_t n_counted; // of them, that are
  int64_t context;   // of its next step
  /* What the steps of a piece of the performance model take. */
  DecodeStages stages;
  Extrapolation extrapolation;
  int64_t left; // steps of the piece
  bool rests;   // none of its steps is in flight while the engine sleeps, and no token `ahead`
  Tick send;
  /* As the state is brought up to date. */
  Tick last_token_at, first_end;
  Tick ticks;             // that its steps took
  uint64_t microseconds;  // that ended meanwhile
  int64_t n_ended, n_new; // of its steps, and that were decided
} Microbatch;

typedef struct PlannedStep {
  Tick end, decided_at;
  int64_t context, seqs; // 0 of them: it is empty
  Extrapolation extrapolation;
} PlannedStep;

/* Steps are numbered from the oldest that was in flight as it was made. */
typedef struct FlightPlan {
  size_t n, done;     // rounds; of those, that the state of the instance has; n = 0: there is none
  bool ended;         // it has the end of the oldest step of the next too, after which that sleeps
  Tick began_at;      // the present step of the state
  PlannedStep *steps; // of rounds to come too
  Tick *at;           // [n] when the oldest step of each round ended
  Tick *free_at;      // [n][n_stages] Pipeline.free_at after each
  size_t steps_capacity, at_capacity, free_at_capacity;
  Microbatch *batches;   // [n_stages]
  ScheduledItem **items; // [n_places] of the steps, and room in each
  size_t *items_capacity;
  uint32_t number; // of the first step
  size_t first;    // its place
  bool apart;      // the newest step then has more than the requests of the oldest
  bool closed;     // no round can be planned behind the last
  size_t horizon;  // as many rounds are planned at most
} FlightPlan;

typedef struct Flights {
  size_t first, n, most; // in flight: of Scheduler.steps, a ring
  int64_t n_stages;
  Tick *sampled_at; // [n_stages] by number of the decision: when its step, which makes tokens,
                    // leaves the last stage; 0: it makes none
  uint32_t landed;  // number of the newest step whose output was taken
  bool ran;         // the present round decided a step with tokens
  bool sleeps;      // the engine does, until its event
  bool tired;       // it will, before it does anything else
  size_t n_vain;    // times that it slept since a step with tokens was decided
  Tick polled_at;   // the newest round, where those that follow find nothing either; -1: none
  int64_t repeats;  // rounds that are regular, from now on (flight_plan.h)
  FlightPlan plan;  // of them
} Flights;
#endif
