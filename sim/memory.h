/* Blocks of KV memory: who holds how many, what the iterations of a run take. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H
#include "sim/state.h"

/* Blocks free right now, the growth of a run in progress taken off. */
int64_t engine_free_blocks(const Engine *self, const Machine *machine);
/* Books the first `n` iterations of the run in progress in its batch and in free_blocks; those that
 * are booked already among them. */
void engine_book_iterations(Engine *self, Machine *machine, int64_t n);
/* Books all that have begun, before a policy looks at a machine that may be in an iteration. */
void engine_catch_up(Engine *self, Machine *machine);
/* Whether `n` blocks are free right now. */
bool engine_has_blocks(const Engine *self, const Machine *machine, int64_t n);
/* Whether KV of `n` blocks may come in: beside the margin of those that run (batch.h). */
bool engine_has_room(const Engine *self, const Machine *machine, int64_t n);
/* Takes (n > 0) or gives back (n < 0) blocks. */
void engine_take_blocks(Engine *self, Machine *machine, int64_t n);
/* Books blocks for a request placed on a machine its KV has not reached, and their end. */
void engine_promise_blocks(Engine *self, Machine *machine, int64_t n);
#endif
