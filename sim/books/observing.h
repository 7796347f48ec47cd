/* What an observer is told (observer.h). Where nobody watches, `Simulation.watched` is NULL and
 * these return at once. */
#ifndef SIM_BOOKS_OBSERVING_H
#define SIM_BOOKS_OBSERVING_H
#include "sim/core/state.h"

void sim_start_observing(Simulation *self);
/* An iteration of `shape`, or a run of them, begins; before anything is booked of it. */
void sim_observe_begin(Simulation *self, const Instance *instance, const BatchShape *shape,
                       bool goes_on);
/* It has ended. */
void sim_observe_end(Simulation *self, const Instance *instance, int64_t n_iterations);
/* A transfer ends now, of which `bytes` have moved. */
void sim_observe_transfer(const Simulation *self, const Transfer *transfer, int64_t bytes,
                          bool arrived);
/* A copy is queued from `begin` to `end`. */
void sim_observe_copy(const Simulation *self, const Instance *instance, LinkDirection direction,
                      Tick begin, Tick end, int64_t bytes);
#endif
