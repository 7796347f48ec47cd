/* What a run may take: memory, simulated time, and the patience of its user. What passes a limit
 * fails the run, in a sentence. */
#ifndef SIM_LIMITS_H
#define SIM_LIMITS_H
#include "sim/state.h"

/* Whether the machines alone fit in the memory that a run may take; else an entry in `diag`. */
bool limits_allow_machines(const SimConfig *config, const Arena *arena, Diag *diag);
/* Whether the run may hold `growth` bytes more than it does; that it may not stops it. */
bool engine_has_memory(Engine *self, size_t growth);
/* Whether `ticks` from now lie past the end of simulated time, 106 days; that stops the run. */
bool engine_passes_the_end(Engine *self, double ticks);
/* Whether the user wants the run to end; that stops it. */
bool engine_is_interrupted(Engine *self);
#endif
