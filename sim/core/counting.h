/* What is counted: requests from the first that is no longer of the warm-up on, and what happens
 * from its arrival on (feature/warm_up.c says when that is). All else is booked apart. */
#ifndef SIM_CORE_COUNTING_H
#define SIM_CORE_COUNTING_H
#include "sim/core/state.h"

static inline bool sim_counts(const Simulation *self, const Request *request) {
  return request->id >= self->first_counted;
}

/* Whether no request is counted yet. */
static inline bool sim_warms_up(const Simulation *self) {
  return self->first_counted == UINT64_MAX;
}

/* Where what happens to a request is booked. */
static inline Metrics *sim_books(Simulation *self, const Request *request) {
  return sim_counts(self, request) ? &self->metrics : &self->warm_up_metrics;
}

/* Where what happens now, to no request, is booked. */
static inline Metrics *sim_present_books(Simulation *self) {
  return sim_warms_up(self) ? &self->warm_up_metrics : &self->metrics;
}

/* The books of a session that ends: those where its first turn was. Those that began in the tick of
 * the last arrival before the warm-up ended are not counted either. */
static inline Metrics *sim_session_books(Simulation *self, const Request *request) {
  return request->session_began_at <= self->warmed_up_at ? &self->warm_up_metrics : &self->metrics;
}

/* Sequences of the batch that are counted. */
int64_t sim_counted_seqs(const Simulation *self, const Instance *instance);
#endif
