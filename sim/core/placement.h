/* Routing: the instances that a request goes to. */
#ifndef SIM_CORE_PLACEMENT_H
#define SIM_CORE_PLACEMENT_H
#include "sim/core/state.h"

/* Why nobody can ever serve a request that has arrived. */
Rejection placement_rejection(const Simulation *self, const Request *request);
/* Whether an instance that is up, or will be, has the room for each phase. */
bool placement_fits(const Simulation *self, const Request *request);
/* Places it on the instances of the router's choice; sim_wake_placed follows. */
void sim_place(Simulation *self, RequestIx request);
/* Its instance learns of it. */
void sim_wake_placed(Simulation *self, RequestIx request);
/* Another instance to prefill a request that waits for that, with the fewest pending tokens, and
 * one to decode it; prefill INSTANCE_NONE: there is none. */
Placement sim_other_placement(Simulation *self, RequestIx request);
/* Places and wakes it on instances that somebody else than the router has chosen. */
void sim_place_on(Simulation *self, RequestIx request, const Placement *placement);
/* Whether what a request has made could be a part of its prompt: an instance that prefills has room
 * for that, and every store. */
bool sim_can_resume(const Simulation *self, const Request *request);
/* Chooses where a request that is being prefilled will be decoded, when that was left open. */
void sim_dispatch(Simulation *self, RequestIx request);
/* Of a deployment's instances the one whose role is to serve the phase and that has the most room;
 * INSTANCE_NONE if none is there at present. */
InstanceIx deployment_roomiest(Deployment *self, Phase phase);
/* An instance that could decode a request in the place of the one that was to and is gone: the
 * dispatcher's pick, or that with the fewest pending tokens; never the one that prefills it.
 * INSTANCE_NONE: there is none, or the router keeps books of its own on who decodes what. */
InstanceIx sim_other_decode(Simulation *self, RequestIx request);
#endif
