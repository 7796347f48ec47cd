/* What a machine does next, as its batcher plans it, and what the end of it brings. */
#ifndef SIM_CORE_ITERATION_H
#define SIM_CORE_ITERATION_H
#include "sim/core/state.h"

void engine_handle_iteration(Engine *self, uint32_t target);
/* A machine that has failed does no more of what it is in, which is lost. */
void engine_break_off(Engine *self, Machine *machine);
/* Begins on an idle machine that may do so; cuts the decode run of one that should plan anew. */
void engine_begin(Engine *self, Machine *machine);
#endif
