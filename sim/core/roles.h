/* Who plays which role: the lists of machines that routers pick from, claims and returns of the
 * mixed pool. */
#ifndef SIM_CORE_ROLES_H
#define SIM_CORE_ROLES_H
#include "sim/core/state.h"

/* Routers may pick a machine from now on, the last of its role; no more, if they could. */
void sim_list(Simulation *self, Machine *machine);
void sim_unlist(Simulation *self, Machine *machine);
/* Gives a machine a role that covers the phase. */
void sim_claim(Simulation *self, Machine *machine, Phase phase);
/* Gives the machine the role its pool policy wants after a change of its batch. */
void sim_review_role(Simulation *self, Machine *machine);
#endif
