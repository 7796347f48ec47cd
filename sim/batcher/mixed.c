/* Mixed batching (Splitwise Fig. 2c): decodes go on in every iteration, and prompts join them
 * within the token budget. */
#include "sim/batcher/fcfs.h"

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  (void)instance_state;
  const FcfsLimits *self = state;
  const Instance *instance = view->instance;
  const int64_t running = (int64_t)instance->batch.n_seqs;
  const int64_t growth = batch_growth(&instance->batch, 1);
  Budget budget = {.tokens = self->limits.max_num_batched_tokens - running,
                   .seqs = self->limits.max_num_seqs - running,
                   .blocks = instance->free_blocks - growth};
  fcfs_admit_prefilled(view, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
  fcfs_prefills(view, plan, &budget);
}

const Batcher batcher_mixed = {
    .policy = {.name = "mixed",
               .help = "Adds whole prompts to the running decodes within a token budget.",
               .state_size = sizeof(FcfsLimits),
               .options = fcfs_options},
    .goes_on_with_prompts = true,
    .returns_swapped = true,
    .caches = fcfs_caches,
    .wake = fcfs_limits_wake,
    .plan = plan,
};
