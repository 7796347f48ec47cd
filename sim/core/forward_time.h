/* How long a step of all attention ranks takes: of all their batches, or of these cut in two
 * (perfmodel/two_batches.h), with the loads of experts that there are (expert_balance.h). */
#ifndef SIM_CORE_FORWARD_TIME_H
#define SIM_CORE_FORWARD_TIME_H
#include "perfmodel/two_batches.h"
#include "sim/core/expert_balance.h"
#include "sim/core/state.h"

/* Begins as zeroes. */
typedef struct ForwardTime {
  RanksTime whole;
  TwoBatches two; // of pools that cut batches
} ForwardTime;

/* The step of a further rank; NULL: a dummy batch. */
void forward_time_add(ForwardTime *self, const Instance *instance, const Step *step);
/* Of all that were added, ranks of `pool`; `experts` is NULL where their loads are not followed. */
Tick forward_time_ticks(const ForwardTime *self, const PoolSpec *pool, ExpertBalance *experts);
#endif
