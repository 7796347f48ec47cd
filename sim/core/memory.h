/* Blocks of KV memory: who holds how many, what the iterations of a run take. */
#ifndef SIM_CORE_MEMORY_H
#define SIM_CORE_MEMORY_H
#include "sim/core/state.h"

/* Blocks free right now, the growth of a run in progress taken off. */
int64_t sim_free_blocks(const Simulation *self, const Instance *instance);
/* Books the first `n` iterations of the run in progress in its batch and in free_blocks; those that
 * are booked already among them. */
void sim_book_iterations(Simulation *self, Instance *instance, int64_t n);
/* Books all that have begun, before a policy looks at an instance that may be in an iteration. */
void sim_catch_up(Simulation *self, Instance *instance);
/* The same where blocks are cached, whose order is that in which they were taken, given back and
 * registered: before KV that is no part of the iteration comes or goes. */
void sim_catch_up_cache(Simulation *self, Instance *instance);
/* Whether `n` blocks are free right now. */
bool sim_has_blocks(const Simulation *self, const Instance *instance, int64_t n);
/* Whether KV of `n` blocks may come in: beside the margin of those that run (batch.h). */
bool sim_has_room(const Simulation *self, const Instance *instance, int64_t n);
/* Takes (n > 0) or gives back (n < 0) blocks. */
void sim_take_blocks(Simulation *self, Instance *instance, int64_t n);
/* Takes blocks out of an instance's cache; free_blocks is the caller's. */
void sim_take_cached(Instance *instance, HeldBlocks *held, int64_t n);
/* Free blocks that a request needs for a step, beyond those it holds. */
int64_t sim_needed_blocks(const Simulation *self, const Instance *instance, RequestIx request,
                          const KvReach *reach);
/* It takes them. */
void sim_hold_reach(Simulation *self, Instance *instance, RequestIx request, const KvReach *reach);
/* Gives back what its layers need no more once `computed` tokens of it surely are. */
void sim_slide_blocks(Simulation *self, Instance *instance, RequestIx request, int64_t computed);
/* A request takes `n` >= 0 blocks more; gives all that it holds back. */
void sim_hold_blocks(Simulation *self, Instance *instance, RequestIx request, int64_t n);
void sim_release_blocks(Simulation *self, Instance *instance, RequestIx request);
/* A request without blocks holds the first `tokens` of its prompt, which its instance's cache
 * has. */
void sim_hit_blocks(Simulation *self, Instance *instance, RequestIx request, int64_t tokens);
/* As they take them in decode steps that are planned (flight_plan.h): one takes one more; blocks
 * that several hold more, of an instance without cache. */
void sim_hold_block_of_run(Simulation *self, Instance *instance, RequestIx request);
void sim_take_blocks_of_run(Simulation *self, Instance *instance, int64_t n);
/* Its first `tokens` can be found by others, where there is a cache. */
void sim_register_blocks(Simulation *self, Instance *instance, RequestIx request, int64_t tokens);

/* Where the keeper is a radix tree: what is computed of a request, up to `tokens`, can be found by
 * others. `chunk`: not with the last chunk of its prompt. */
void sim_insert_radix(Simulation *self, Instance *instance, RequestIx request, int64_t tokens,
                      bool chunk);

/* Blocks that the batch needs for its next iteration, and one of it does. */
int64_t sim_batch_needs(const Simulation *self, const Instance *instance);
int64_t sim_needed_in_batch(const Simulation *self, const Instance *instance, RequestIx request);
/* The batch takes the blocks of its next iteration; those of it whose blocks that fills follow in
 * order of admission, up to any time: then they can be found. Where layers are in groups these take
 * and give back their blocks then, too. */
typedef struct BatchGrowth {
  RequestIx next; // to be registered
} BatchGrowth;
BatchGrowth sim_begin_growth(Simulation *self, Instance *instance);
void sim_grow_until(Simulation *self, Instance *instance, BatchGrowth *growth, uint32_t admission);
/* The same of one in the batch alone. */
void sim_grow_one(Simulation *self, Instance *instance, RequestIx request);
/* Where layers are in groups, one of the batch first gives back what its layers need no more. */
void sim_slide_in_batch(Simulation *self, Instance *instance, RequestIx request);
/* Books blocks for a request placed on an instance its KV has not reached, and their end. */
void sim_promise_blocks(Simulation *self, Instance *instance, int64_t n);
#endif
