/* Clients that give up: a request whose first or last token has not come by its deadline leaves.
 *
 * The deadlines of the requests in flight, one each, are a heap by (tick, request); the earliest is
 * the one event that is pending for all of them, the last of its tick. So a request whose token
 * comes in that very tick is served. One that ends takes its deadline along. Where nobody is
 * impatient there is no event. */
#ifndef SIM_FEATURE_PATIENCE_H
#define SIM_FEATURE_PATIENCE_H
#include "sim/core/state.h"

/* The next deadline of a request is now what its patience says; it may have none. */
void patience_set(Simulation *self, RequestIx request);
/* It has none any more. */
void patience_drop(Simulation *self, RequestIx request);
/* There is an event at `at` for its sake, whatever it is for. */
void patience_look_again(Simulation *self, RequestIx request, Tick at);
#endif
