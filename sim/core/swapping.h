/* KV between an instance's HBM and its CPU memory, for tiers that swap: synchronous, as vLLM does
 * it, all blocks of a request in one transfer. Copies follow each other on the host link, whichever
 * way they go, from the moment of the plan that wants them; the iteration that the plan begins does
 * its work when they are across. Who swaps when is in lifecycle.c. */
#ifndef SIM_CORE_SWAPPING_H
#define SIM_CORE_SWAPPING_H
#include "sim/core/state.h"

/* Whether the KV of a request that has given up its blocks may go to the instance's CPU memory. */
bool sim_can_swap_out(const Instance *instance, const Request *request);
/* It goes there, or returns; its blocks, for the caller to book on the GPUs. */
int64_t sim_swap(Simulation *self, Instance *instance, const Request *request,
                 LinkDirection direction);
/* It leaves, its client having given up: its place in CPU memory is free. */
void sim_drop_swapped(Instance *instance, const Request *request);
#endif
