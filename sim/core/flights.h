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
#include "sim/core/flight_state.h"
#include "sim/core/state.h"

/* As Loop has them. */
void flights_start(Simulation *self, Instance *instance);
void flights_begin(Simulation *self, Instance *instance);
bool flights_go_on(Simulation *self, Instance *instance);
bool flights_end(Simulation *self, Instance *instance, bool prefills);
void flights_forget(Simulation *self, Instance *instance);

/* What the instance computes lasts at least until now, if the engine sleeps over its end. */
void flights_catch_up(Simulation *self, Instance *instance);

/* Ticks until the present step has left the stages; 0: it has. */
Tick flights_ticks(const Simulation *self, const Instance *instance,
                   Extrapolation *ret_extrapolation);

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
