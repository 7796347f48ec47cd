/* Groups of GPUs that change their shape (core/group.h), as failures concern them. */
#ifndef SIM_FEATURE_GROUPS_H
#define SIM_FEATURE_GROUPS_H
#include "sim/core/state.h"

/* Its instances have failed: it is in no shape from now on. */
void groups_stop(Simulation *self, Group *group);
/* What a failed group was copying comes to nothing; its link is taken until it would have ended. */
void groups_drop_copies(Group *group);
/* The instances of a failed group have started: it is in its first shape. */
void groups_restart(Simulation *self, Group *group);
/* One that leaves decode has no store to leave to: it goes on. */
void groups_stay_in_decode(Simulation *self, Group *group);
#endif
