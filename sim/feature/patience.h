/* Clients that give up: a request whose first or last token has not come by its deadline leaves.
 *
 * The deadlines of the requests in flight, one each, are a heap by (tick, request); the earliest is
 * the one event that is pending for all of them, the last of its tick. So a request whose token
 * comes in that very tick is served. One that ends takes its deadline along. Where nobody is
 * impatient there is no event.
 */
#ifndef SIM_FEATURE_PATIENCE_H
#define SIM_FEATURE_PATIENCE_H
#include "sim/core/state.h"

/* The next deadline of a request is now what its patience says; it may have none. */
void engine_set_deadline(Engine *self, RequestIx request);
/* It has none any more. */
void engine_drop_deadline(Engine *self, RequestIx request);
/* There is an event at `at` for its sake, whatever it is for. */
void engine_look_again(Engine *self, RequestIx request, Tick at);
/* Whether anybody may still give up. */
static inline bool engine_has_deadlines(const Engine *self) {
  return self->n_deadlines > 0;
}
/* All whose deadline is now give up. */
void engine_handle_patience(Engine *self);
/* Asserts that heap, requests and the pending event agree. */
void engine_audit_deadlines(const Engine *self);
#endif
