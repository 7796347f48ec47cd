/* Who plays which role: claims and returns of the mixed pool, the monitor, reports to
 * the router, flips. */
#ifndef SIM_CORE_ROLES_H
#define SIM_CORE_ROLES_H
#include "sim/core/state.h"

/* Routers may pick a machine from now on, the last of its role; no more, if they could. */
void engine_list(Engine *self, Machine *machine);
void engine_unlist(Engine *self, Machine *machine);
/* Gives a machine a role that covers the phase. */
void engine_claim(Engine *self, Machine *machine, Phase phase);
/* Gives the machine the role its pool policy wants after a change of its batch. */
void engine_review_role(Engine *self, Machine *machine);
/* Sets the monitor's first broadcast where a policy wants loads. */
void engine_start_monitor(Engine *self);
void engine_handle_monitor(Engine *self);
/* Has machines report to a router that asks for it, the first time now. */
void engine_start_reports(Engine *self);
void engine_handle_report(Engine *self);
/* Before its router picks: what it knows is brought up to now. */
void engine_see_reports(Engine *self, Deployment *deployment);
/* A machine that has drained for it is away until its flip is over. */
void engine_begin_flip(Engine *self, Machine *machine);
void engine_handle_flip(Engine *self, Machine *machine);
#endif
