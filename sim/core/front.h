/* Requests in front of the cluster (REQUEST_AWAITS) that nobody is up to take, a queue for each
 * model. Whoever is impatient may leave. */
#ifndef SIM_CORE_FRONT_H
#define SIM_CORE_FRONT_H
#include "sim/core/state.h"

/* Whether the router has somebody for both phases of a request. */
bool front_is_open(const Deployment *deployment);
/* Whether the request can be placed now. */
bool front_takes(const Simulation *self, const Request *request);
/* A request that waits in front, or has been held, is placed; or it waits for that. */
void front_take(Simulation *self, RequestIx request);
/* A new arrival waits for that. */
void front_hold(Simulation *self, RequestIx request);
/* An instance takes requests again: all are placed that waited for one of its model. */
void front_open(Simulation *self, Deployment *deployment);
#endif
