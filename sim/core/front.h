/* Requests in front of the cluster (REQUEST_AWAITS): those that were lost with a machine and are to
 * be tried again at their time, a heap, and those that nobody is up to take, a queue for each
 * model.
 *
 * A request that is lost begins anew, as its first attempt did, after a back-off that doubles with
 * every attempt; one that has had all its attempts is rejected. Whoever is impatient may leave. */
#ifndef SIM_CORE_FRONT_H
#define SIM_CORE_FRONT_H
#include "sim/core/state.h"

/* Whether the router has somebody for both phases of a request. */
bool front_is_open(const Deployment *deployment);
/* A request that waits in front, or has been held, is placed; or it waits for that. */
void front_take(Engine *self, RequestIx request);
/* A new arrival waits for that. */
void front_hold(Engine *self, RequestIx request);
/* One that was lost: tried again later, or rejected. */
void front_return(Engine *self, RequestIx request);
/* One that waits here leaves. */
void front_leave(Engine *self, RequestIx request);
/* Those whose time has come are placed. */
void engine_handle_retry(Engine *self);
/* A machine takes requests again: all are placed that waited for one of its model. */
void front_open(Engine *self, Deployment *deployment);
#endif
