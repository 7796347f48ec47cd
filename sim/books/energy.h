/* What the instances of a pool draw. */
#ifndef SIM_BOOKS_ENERGY_H
#define SIM_BOOKS_ENERGY_H
#include "sim/core/instance.h"

/* Joules: power in each activity times the time in it, or where the model says its power, that of
 * its GPUs and of the rest of the machine; the rest of `span`, which is of each instance, is idle
 * but where it was off or down, or the GPUs are those of the first shape. */
double energy_of_pool(const PoolSpec *pool, const InstanceTotals *totals, Tick span,
                      bool second_shape);
#endif
