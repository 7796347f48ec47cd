/* Drives the loop of an instance (loop.h): the iteration or decode run in progress begins, ends or
 * is broken off. */
#ifndef SIM_CORE_ITERATION_H
#define SIM_CORE_ITERATION_H
#include "sim/core/state.h"

void sim_handle_iteration(Simulation *self, uint32_t target);
/* The iteration or run in progress may have come to its end now. */
void sim_end_iteration(Simulation *self, Instance *instance);
/* An instance that has failed does no more of what it is in, which is lost. */
void sim_break_off(Simulation *self, Instance *instance);
/* Begins on an idle instance that may do so; cuts the decode run of one that should plan anew. */
void sim_begin(Simulation *self, Instance *instance);
#endif
