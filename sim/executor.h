/* Another clock than the performance models. */
#ifndef SIM_EXECUTOR_H
#define SIM_EXECUTOR_H
#include "sim/state.h"

/* Has the configuration's executor run an iteration, `done` iterations of a decode run beyond those
 * that the batch knows of. Its ticks, or negative when it failed. */
Tick engine_execute(Engine *self, const Machine *machine, const BatchShape *shape, int64_t done);
#endif
