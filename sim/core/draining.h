/* Instances that drain: they take no new requests, which routers learn at once, and finish those
 * they have or are to get; what they go for (Drain) is said as they begin to. */
#ifndef SIM_CORE_DRAINING_H
#define SIM_CORE_DRAINING_H
#include "sim/core/state.h"

/* Whether it has nothing and is to get nothing. */
bool sim_is_drained(const Simulation *self, const Instance *instance);
/* One that is up begins to drain. */
void sim_drain(Simulation *self, Instance *instance, Drain purpose);
/* One that drains goes, if it has nothing left. */
void sim_leave_drained(Simulation *self, Instance *instance);
/* One that drained for maintenance or to stop takes requests as before. */
void sim_stop_draining(Simulation *self, Instance *instance);
#endif
