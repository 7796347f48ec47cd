/* Hedged requests (Dean and Barroso, "The Tail at Scale", CACM 2013): one that has waited `after`
 * since it was placed, and is still in line for its prefill or in it, is sent to another machine as
 * well. The copy whose first token is made first is the request from then on; the other leaves as
 * if its client had given it up, and what was computed of it was for nothing.
 *
 * A copy has a slot of its own, with the number of the request, and is in the books of machines as
 * any; in those of the run there is one request, whose deadline and place in its class one of the
 * two has. A copy that is lost with a machine is not tried again while the other is left. */
#ifndef SIM_FEATURE_HEDGING_H
#define SIM_FEATURE_HEDGING_H
#include "sim/core/state.h"

static inline bool engine_hedges(const Engine *self) {
  return self->config->hedge.after > 0;
}
/* It has been placed: a copy is due. */
void hedging_expect(Engine *self, RequestIx request);
/* The earliest copies are due. */
void engine_handle_hedge(Engine *self);
/* No request is left: none is due. */
void hedging_end(Engine *self);
/* It is the request from now on, its first token made, or its client has given up: the other copy,
 * if there is one, leaves. */
void hedging_decide(Engine *self, RequestIx request);
/* It leaves: whether another copy is left, which is the request from now on. */
bool hedging_leaves_other(Engine *self, RequestIx request);
/* Asserts that pairs agree, and how many copies there are beside requests. */
void hedging_audit(const Engine *self);
#endif
