/* How a request leaves the instances before its last token: its client has given up (patience.h),
 * or one of them has failed (faults.h). When it goes hangs on its state (RequestStateRow.leaves):
 * at once where it waits, with the iteration that it is in, or when its KV is across. */
#ifndef SIM_CORE_LEAVING_H
#define SIM_CORE_LEAVING_H
#include "sim/core/state.h"

/* One whose `gives_up` or `lost` has just been set leaves as soon as it can. */
void sim_leave(Simulation *self, RequestIx request);
#endif
