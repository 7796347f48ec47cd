/* What an instance does next, as its batcher plans it, and what the end of it brings. */
#ifndef SIM_CORE_ITERATION_H
#define SIM_CORE_ITERATION_H
#include "sim/core/state.h"

void sim_handle_iteration(Simulation *self, uint32_t target);
/* An instance that has failed does no more of what it is in, which is lost. */
void sim_break_off(Simulation *self, Instance *instance);
/* Begins on an idle instance that may do so; cuts the decode run of one that should plan anew. */
void sim_begin(Simulation *self, Instance *instance);
#endif
