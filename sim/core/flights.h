/* Steps in the stages of a pipeline: several of one scheduler are in flight, as in vLLM V1
 * (RULES.md, "Pipelines").
 *
 * The engine goes from round to round. A round decides a step and sends it into the stages, even an
 * empty one; then it waits for the output of the oldest step, if as many are in flight as may be or
 * nobody is here. After a round that decided nothing it sleeps. Nobody is in the batch of such an
 * instance; each request is scheduled alone.
 *
 * What the instance computes is, in the books, the oldest step that has tokens: from when that is
 * the oldest until its output is taken. Its event is the end of what the engine waits for. */
#ifndef SIM_CORE_FLIGHTS_H
#define SIM_CORE_FLIGHTS_H
#include "sim/core/scheduler.h"
#include "sim/core/state.h"

typedef struct Flights {
  size_t first, n, most; // in flight: of Scheduler.steps, a ring
  int64_t n_stages;
  Tick *sampled_at; // [n_stages] by number of the decision: when its step, which makes tokens,
                    // leaves the last stage; 0: it makes none
  uint32_t landed;  // number of the newest step whose output was taken
  bool ran;         // the present round decided a step with tokens
  bool sleeps;      // the engine does, until its event
  bool tired;       // it will, before it does anything else
  bool untold;      // requests have ended since the newest decision
  size_t n_vain;    // times that it slept since a step with tokens was decided
  Tick polled_at;   // the newest round, where those that follow find nothing either; -1: none
} Flights;

/* As Loop has them. */
void flights_start(Simulation *self, Instance *instance);
void flights_begin(Simulation *self, Instance *instance);
bool flights_go_on(Simulation *self, Instance *instance);
bool flights_end(Simulation *self, Instance *instance, bool prefills);
void flights_forget(Simulation *self, Instance *instance);

/* What the instance computes lasts at least until now, if the engine sleeps over its end. */
void flights_catch_up(const Simulation *self, Instance *instance);

/* Ticks until the present step has left the stages; 0: it has. */
Tick flights_ticks(const Simulation *self, const Instance *instance,
                   Extrapolation *ret_extrapolation);

/* A request has left the scheduler. */
static inline void flights_note_left(const Scheduler *self) {
  if (self->flights) self->flights->untold = true;
}

/* Whether a step in flight has tokens of a request. */
static inline bool flights_have(const Scheduler *self, const Request *request) {
  return self->flights && request->decided_step > self->flights->landed;
}

/* Whether one that decodes gets nothing: its token is in flight, or with async scheduling fewer
 * decisions than there are stages have been made since the newest with one of it. */
static inline bool flights_hold(const Scheduler *self, const Request *request) {
  if (self->limits.lag == 0) return flights_have(self, request);
  return self->number < request->decided_step + (uint32_t)self->flights->n_stages;
}

/* The step that is decided will not have it after all. */
void flights_take_out(const Scheduler *self, RequestIx ix, Request *request);
#endif
