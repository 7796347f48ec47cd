/* What an observer is told (observer.h). Where nobody watches, `Engine.watched` is NULL and these
 * return at once. */
#ifndef SIM_BOOKS_OBSERVING_H
#define SIM_BOOKS_OBSERVING_H
#include "sim/core/state.h"

void engine_start_observing(Engine *self);
/* An iteration of `shape`, or a run of them, begins; before anything is booked of it. */
void engine_observe_begin(Engine *self, const Machine *machine, const BatchShape *shape,
                          bool goes_on);
/* It has ended. */
void engine_observe_end(Engine *self, const Machine *machine, int64_t n_iterations);
/* A transfer ends now, of which `bytes` have moved. */
void engine_observe_transfer(const Engine *self, const Transfer *transfer, int64_t bytes,
                             bool arrived);
/* A copy is queued from `begin` to `end`. */
void engine_observe_copy(const Engine *self, const Machine *machine, LinkDirection direction,
                         Tick begin, Tick end, int64_t bytes);
#endif
