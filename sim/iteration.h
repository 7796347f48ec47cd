/* What a machine does next, and what the end of it brings; planning.c carries out what the batcher
 * has planned. */
#ifndef SIM_ITERATION_H
#define SIM_ITERATION_H
#include "sim/state.h"

void engine_handle_iteration(Engine *self, Machine *machine);
/* Tells the batcher what happened on a machine and begins an iteration if it wants one: now on an
 * idle machine, at the next iteration's end in a decode run. */
void engine_wake(Engine *self, Machine *machine, Wake why, RequestIx request);
/* Begins on a machine that may do so again. */
void engine_begin(Engine *self, Machine *machine);
/* Begins on the machines woken while arrivals were gathered. */
void engine_begin_woken(Engine *self);
/* Carries out self->plan on a machine between iterations, as far as a group's store has room;
 * returns whether anybody was evicted. */
bool engine_carry_out(Engine *self, Machine *machine);
#endif
