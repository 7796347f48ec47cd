/* Continuous batching as vLLM had it in 2023 (Splitwise Fig. 2b): an iteration is prefill or
 * decode, prefill first; decodes stand still while prompts wait and fit. */
#include "sim/batcher/fcfs.h"

static void plan(void *state, void *machine_state, const MachineView *view, BatchPlan *plan) {
  (void)machine_state;
  const FcfsLimits *self = state;
  const Machine *machine = view->machine;
  Budget budget = {.tokens = self->max_num_batched_tokens,
                   .seqs = self->max_num_seqs - (int64_t)machine->batch.n_seqs,
                   .blocks = machine->free_blocks};
  fcfs_prefills(view, plan, &budget);
  plan->pause_decodes = plan->n_prefills > 0;
  if (plan->pause_decodes) return;
  budget.tokens = self->max_num_seqs;
  fcfs_admits(view, &machine->decode_queue, false, plan, &budget);
}

const Batcher batcher_continuous = {
    .policy = {.name = "continuous",
               .help = "prefill or decode iterations, prefill first (vLLM 2023)",
               .state_size = sizeof(FcfsLimits),
               .options = fcfs_options},
    .wake = fcfs_limits_wake,
    .plan = plan,
};
