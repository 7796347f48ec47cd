/* Copies between the GPUs of an instance and its CPU memory (host_link.h). */
#ifndef SIM_CORE_COPYING_H
#define SIM_CORE_COPYING_H
#include "sim/core/state.h"

/* Queues a copy of `bytes` > 0 between the instance's GPUs and its CPU memory, which can begin at
 * `from`, not before now. When it ends; now, if that is past the end of simulated time. */
Tick sim_copy(Simulation *self, Instance *instance, LinkDirection direction, int64_t bytes,
              Tick from);
#endif
