/* Batchers learn of what happens on their instances between plans. */
#ifndef SIM_CORE_WAKING_H
#define SIM_CORE_WAKING_H
#include "sim/core/state.h"

/* Tells the batcher what happened on an instance and marks that if it wants an iteration: an idle
 * one begins, one in a decode run ends it at the next iteration's end. */
void sim_wake(Simulation *self, Instance *instance, Wake why, RequestIx request);
#endif
