/* Requests that would not be served in time are rejected as they arrive (early_rejection.c). */
#ifndef SIM_FEATURE_EARLY_REJECTION_H
#define SIM_FEATURE_EARLY_REJECTION_H
#include "sim/core/state.h"

/* Whether it is; false where the run rejects nobody early. */
bool early_rejection_refuses(Simulation *self, RequestIx request);
#endif
