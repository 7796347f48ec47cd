/* Who plays which role: the lists of instances that routers pick from, claims and returns of the
 * mixed pool. */
#ifndef SIM_CORE_ROLES_H
#define SIM_CORE_ROLES_H
#include "sim/core/state.h"

/* Routers may pick an instance from now on, the last of its role; no more, if they could. */
void sim_list(Simulation *self, Instance *instance);
void sim_unlist(Simulation *self, Instance *instance);
/* Gives an instance a role that covers the phase. */
void sim_claim(Simulation *self, Instance *instance, Phase phase);
/* Gives the instance the role its pool policy wants after a change of its batch. */
void sim_review_role(Simulation *self, Instance *instance);
#endif
