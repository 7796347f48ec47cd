/* Blocks of KV memory: who holds how many, who gives way when they run out; and KV in CPU memory
 * (swapping.c). */
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
/* Takes a running request out of the batch, the tokens it has made and their blocks booked. */
void engine_leave_batch(Engine *self, Machine *machine, RequestIx request);
/* Queues a request whose KV was dropped, to be prefilled again here ahead of the others. */
void engine_requeue(Engine *self, Machine *machine, RequestIx request);
/* Takes a request that waits for decode or decodes on a machine between iterations out of queues
 * and batch; it keeps its KV. */
void engine_suspend(Engine *self, Machine *machine, RequestIx request);
/* Loses the chunks of a prefill that has begun and waits for its next iteration. */
void engine_drop_chunks(Engine *self, Machine *machine, RequestIx request);
/* Has a request that waits for decode or decodes on a machine between iterations give up its blocks
 * there: its KV goes to CPU memory when the tier swaps and there is room, or it is dropped and the
 * request queued again. One between chunks of its prefill, whose transfer has not begun, begins
 * that again in its place. */
void engine_evict(Engine *self, Machine *machine, RequestIx request);

/* Whether a request's KV may go to the machine's CPU memory. */
bool engine_can_swap_out(const Machine *machine, const Request *request);
/* Moves the KV of a request that has left its queue and given up its blocks there. */
void engine_swap_out(Engine *self, Machine *machine, RequestIx request);
/* Takes a request out of `swapped` and blocks for its KV, which returns. */
void engine_swap_in(Engine *self, Machine *machine, RequestIx request);
/* What an iteration that begins now waits for copies, booked, before its `work` ticks. */
Tick engine_await_copies(Engine *self, Machine *machine, Tick work);
static inline Tick engine_stall(Engine *self, Machine *machine, Tick work) {
  return machine->copied_at > self->now ? engine_await_copies(self, machine, work) : 0;
}
#endif
