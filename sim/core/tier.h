/* What a KV tier that moves KV adds to iterations, and capacity that changes. The first function
 * does what a tier without hooks needs, the others are for those with. */
#ifndef SIM_CORE_TIER_H
#define SIM_CORE_TIER_H
#include "sim/core/state.h"

/* Sets up the instance's tier and capacity. */
void sim_start_tier(Simulation *self, Instance *instance);
/* Has the tier plan the part of the run that begins: its series, and how long that holds. `shape`
 * is of its first iteration. */
void sim_plan_tier(Simulation *self, Instance *instance, const BatchShape *shape);
/* Tells the tier that the present part of the run has ended, which took `ticks`; true when it wants
 * another capacity, which sim_fit_capacity gives once the batch's books are up to date. */
bool sim_advance_tier(Instance *instance, Tick ticks);
/* Brings kv_blocks to what the tier wants as far as that can be done now. */
void sim_fit_capacity(Simulation *self, Instance *instance);
/* Books the time with the present capacity, up to now. */
void sim_book_capacity(const Simulation *self, Instance *instance);
/* Blocks were given back while the tier wants fewer: keeps what is missing. */
void sim_withhold_blocks(Simulation *self, Instance *instance);
#endif
