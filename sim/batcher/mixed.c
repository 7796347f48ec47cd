/* Mixed batching (Splitwise Fig. 2c): decodes go on in every iteration, and prompts join them
 * within the token budget. */
#include "sim/batcher/fcfs.h"

static void plan(void *state, void *machine_state, const MachineView *view, BatchPlan *plan) {
  (void)machine_state;
  const FcfsLimits *self = state;
  const Machine *machine = view->machine;
  const int64_t running = (int64_t)machine->batch.n_seqs;
  const int64_t growth = batch_growth(&machine->batch, 1);
  Budget budget = {.tokens = self->max_num_batched_tokens - running,
                   .seqs = self->max_num_seqs - running,
                   .blocks = machine->free_blocks - growth};
  fcfs_admit_prefilled(view, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
  fcfs_prefills(view, plan, &budget);
}

const Batcher batcher_mixed = {
    .policy = {.name = "mixed",
               .help = "whole prompts join the running decodes within a token budget",
               .state_size = sizeof(FcfsLimits),
               .options = fcfs_options},
    .returns_swapped = true,
    .caches = fcfs_caches,
    .wake = fcfs_limits_wake,
    .plan = plan,
};
