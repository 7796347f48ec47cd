/* Which attention rank of an instance a request goes to (RULES.md, "Ranks in lockstep", "Ranks in
 * one round"). */
#ifndef SIM_CORE_RANK_SPREAD_H
#define SIM_CORE_RANK_SPREAD_H
#include "sim/core/lockstep.h"

/* The rank that a request goes to, of those of an instance's that may take it. */
InstanceIx rank_spread_pick(Simulation *self, const Instance *instance, RequestIx request);
/* A request goes to this rank, which the router has chosen. */
void rank_spread_send(const Simulation *self, const Instance *instance);
#endif
