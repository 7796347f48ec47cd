/* For how long so many instances of a pool were up, where any may fail. */
#ifndef SIM_FEATURE_UPTIME_H
#define SIM_FEATURE_UPTIME_H
#include "sim/core/state.h"

/* It has been down or off, and takes requests again. */
void uptime_comes_up(Simulation *self, Instance *instance);
#endif
