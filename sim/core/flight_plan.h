/* Decode steps in the stages of a pipeline with one scheduler, planned together (flights.h).
 *
 * Step c has the requests of step c - S again, S stages later, so long as all that is in flight are
 * decodes: those of each S-th step are a microbatch. Then a round is regular: the oldest step ends,
 * of which nothing comes but a token for each, and the step that is decided has the requests of the
 * one S before. A microbatch may be empty: then so are its steps, and the engine sleeps after each.
 * Rows of requests that ended meanwhile are part of a step in flight, and of none that is decided.
 * How many rounds will be is known where steps wait for the oldest (`Flights.repeats`): until the
 * first request makes its last token or is left out for it, or blocks may not suffice.
 *
 * With coalescing, regular rounds are gone through at once, without events, and what comes of them
 * is kept in a plan. The state of the instance is that of a moment before; `flights_catch_up`
 * brings it up to now, for whoever reads it. `flights_cut` has what else happens to the instance
 * come between two rounds, or while the engine sleeps in one: what is planned is forgotten, and the
 * next round is looked at by itself.
 * In --step mode each round is an event, which keeps its place among events of one time while
 * rounds are regular. */
#ifndef SIM_CORE_FLIGHT_PLAN_H
#define SIM_CORE_FLIGHT_PLAN_H
#include "sim/core/flight_state.h"
#include "sim/core/state.h"

void flight_plan_init(FlightPlan *self, int64_t n_stages, size_t n_places, Arena *arena);

/* In flight: the `i`-th from the oldest on. */
static inline Step *flights_step(const Scheduler *self, size_t i) {
  return &self->steps[(self->flights->first + i) % self->n_places];
}
static inline size_t flights_stages(const Instance *instance) {
  return (size_t)instance->scheduler->flights->n_stages;
}
/* Whether a step has decodes of `live` requests alone, and of those that ended meanwhile. */
static inline bool step_decodes_alone(const Step *self, int64_t live) {
  const int64_t thrown = self->n_thrown[0] + self->n_thrown[1];
  return self->shape.prefill_tokens == 0 && self->shape.decode_seqs == live + thrown;
}
/* Tokens of a request whose KV there is once its newest step has ended. */
static inline int64_t flights_decided_tokens(const Instance *instance, const Request *request) {
  return request_kv_tokens(request) + (instance->lag > 0 ? request->ahead : 1);
}

/* Rounds that are regular if nothing else happens, from now on, where the engine waits for the
 * oldest step. In flight_rounds.c. */
int64_t flights_regular_rounds(const Simulation *self, const Instance *instance);
/* Plans so many of them, or the first; its event, of that insertion number, is set. False: none is
 * planned. */
bool flights_plan(Simulation *self, Instance *instance, int64_t rounds, uint64_t seq);
/* The event after what is planned has come: plans rounds behind that, the first of which is the
 * present one, so that the instance need not be brought up to now. False: none is planned. */
bool flights_plan_on(Simulation *self, Instance *instance, uint64_t seq);
/* Brings the instance up to now. */
void flights_catch_up_plan(Simulation *self, Instance *instance);
/* All that is planned has happened: it is forgotten. Whether there was any. */
bool flights_end_plan(Simulation *self, Instance *instance);
/* What happens now comes between two rounds; the event of the instance is that of the next. */
void flights_cut(Simulation *self, Instance *instance);
/* Blocks that decisions until now took which the instance does not know of. */
int64_t flights_growth(const Simulation *self, const Instance *instance);
#endif
