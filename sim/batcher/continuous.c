/* Continuous batching as vLLM had it in 2023 (Splitwise Fig. 2b): an iteration is prefill or
 * decode, prefill first; decodes stand still while prompts wait and fit. */
#include "sim/batcher/fcfs.h"

typedef struct State {
  int64_t max_num_batched_tokens, max_num_seqs;
} State;

static bool wake(void *state, void *machine_state, const MachineView *view, Wake why,
                 RequestIx request) {
  (void)machine_state, (void)request;
  return fcfs_wake(view, why, ((State *)state)->max_num_seqs, false);
}

static void plan(void *state, void *machine_state, const MachineView *view, BatchPlan *plan) {
  (void)machine_state;
  const State *self = state;
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

static const OptionSpec options[] = {
    {"max_num_batched_tokens", OPTION_INT, offsetof(State, max_num_batched_tokens), "2048",
     .min = 1, .max = 1e9,
     .help = "prompt tokens of one prefill iteration; a longer prompt runs alone"},
    {"max_num_seqs", OPTION_INT, offsetof(State, max_num_seqs), "256", .min = 1, .max = 65536,
     .help = "sequences in the batch"},
    {0},
};

const Batcher batcher_continuous = {
    .policy = {.name = "continuous",
               .help = "prefill or decode iterations, prefill first (vLLM 2023)",
               .state_size = sizeof(State),
               .options = options},
    .wake = wake,
    .plan = plan,
};
