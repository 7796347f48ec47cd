/* The start of a run that is simulated and not counted: until the first request arrives that is not
 * of SimConfig.warm_up, without one until the first of all. Its requests are booked apart for as
 * long as they live; what machines did before it ended is left out when all is summed up. Outcomes
 * know nothing of it. */
#ifndef SIM_FEATURE_WARM_UP_H
#define SIM_FEATURE_WARM_UP_H
#include "sim/core/state.h"

static inline bool engine_counts(const Engine *self, const Request *request) {
  return request->id >= self->first_counted;
}

/* Sequences of the batch that are counted. */
int64_t engine_counted_seqs(const Engine *self, const Machine *machine);
/* The books of a session that ends: those where its first turn was. */
Metrics *engine_session_books(Engine *self, const Request *request);
/* It has not ended, and a row is pending: before the event at `next` it ends where that row is
 * counted and arrives before, though it reaches the router later: when all events of the tick of
 * its arrival have happened. */
void engine_look_for_start(Engine *self, Tick next);
/* From the next request on they are counted. */
void engine_end_warm_up(Engine *self);
#endif
