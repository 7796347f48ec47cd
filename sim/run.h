/* The run as a whole: set-up (setup.c), the loop over events (run.c), and the summing up
 * (result.c). */
#ifndef SIM_RUN_H
#define SIM_RUN_H
#include "sim/core/state.h"

/* Sets up a run, its first arrival pending. */
void sim_init(Simulation *self, const SimConfig *config, Arena *arena, Diag *diag);
/* Handles the next event; false when none is left or the run has failed. */
bool sim_step(Simulation *self);
/* The pass over what the handling of an event has marked (marks.h). Instances, in the order of
 * their marks: a run is fitted to free blocks that changed, an iteration begun or a run cut, one
 * that drains let go; then the shapes of groups. */
void sim_settle(Simulation *self);
/* What came of a run that is over. */
void sim_sum_up(Simulation *self, SimResult *ret_result);
#endif
