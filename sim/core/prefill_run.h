/* The iteration with prefill in progress on an instance: how long it lasts. Decodes may take
 * part. */
#ifndef SIM_CORE_PREFILL_RUN_H
#define SIM_CORE_PREFILL_RUN_H
#include "sim/core/state.h"

/* Begins one, which lasts the ticks that it returns. */
Tick sim_begin_prefills(Simulation *self, Instance *instance, const BatchShape *shape);
/* It lasts until then, which is later. */
void sim_stretch_prefills(Instance *instance, Tick until);
/* It has ended. */
void sim_end_prefills(Simulation *self, Instance *instance);
/* The instance has failed: what was booked ahead of it is not to come. */
void sim_break_off_prefills(Simulation *self, Instance *instance);
#endif
