/* What a machine does next, as its batcher plans it, and what the end of it brings. */
#ifndef SIM_CORE_ITERATION_H
#define SIM_CORE_ITERATION_H
#include "sim/core/state.h"

void engine_handle_iteration(Engine *self, Machine *machine);
/* A machine that has failed does no more of what it is in, which is lost. */
void engine_break_off(Engine *self, Machine *machine);
/* Begins on an idle machine that may do so; cuts the decode run of one that should plan anew. */
void engine_begin(Engine *self, Machine *machine);
/* Begins an iteration with prefill in it, which lasts the ticks that it returns. */
Tick engine_begin_prefills(Engine *self, Machine *machine, const BatchShape *shape);
/* A machine is idle from now on, or no more; it may be so already. */
void engine_book_idleness(Engine *self, Machine *machine, bool idle);
#endif
