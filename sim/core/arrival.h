/* Rows of the trace become requests. */
#ifndef SIM_CORE_ARRIVAL_H
#define SIM_CORE_ARRIVAL_H
#include "sim/core/state.h"

/* Pulls the next row and sets the arrival timer. */
void sim_pull(Simulation *self);
/* The same after ends that the source was told of: the pending row is handed back first, since the
 * source may have answered with an earlier one. */
void sim_pull_again(Simulation *self);
void sim_handle_arrival(Simulation *self, uint32_t target);
#endif
