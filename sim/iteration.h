/* What a machine does next, and what the end of it brings; planning.c carries out what the batcher
 * has planned. */
#ifndef SIM_ITERATION_H
#define SIM_ITERATION_H
#include "sim/state.h"

void engine_handle_iteration(Engine *self, Machine *machine);
/* Begins on an idle machine that may do so; cuts the decode run of one that should plan anew. */
void engine_begin(Engine *self, Machine *machine);
/* Carries out self->plan on a machine between iterations, as far as a group's store has room;
 * returns whether anybody was evicted. */
bool engine_carry_out(Engine *self, Machine *machine);
#endif
