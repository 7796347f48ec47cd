/* Mixed batching (Splitwise Fig. 2c): decodes go on in every iteration, and prompts join them
 * within the token budget. */
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
  const int64_t running = (int64_t)machine->batch.n_seqs;
  const int64_t growth = batch_growth(&machine->batch, 1);
  Budget budget = {.tokens = self->max_num_batched_tokens - running,
                   .seqs = self->max_num_seqs - running,
                   .blocks = machine->free_blocks - growth};
  fcfs_admits(view, &machine->decode_queue, false, plan, &budget);
  fcfs_prefills(view, plan, &budget);
}

static const OptionSpec options[] = {
    {"max_num_batched_tokens", OPTION_INT, offsetof(State, max_num_batched_tokens), "2048",
     .min = 1, .max = 1e9,
     .help = "tokens of one iteration, one per decode; a longer prompt joins alone"},
    {"max_num_seqs", OPTION_INT, offsetof(State, max_num_seqs), "256", .min = 1, .max = 65536,
     .help = "sequences in the batch"},
    {0},
};

const Batcher batcher_mixed = {
    .policy = {.name = "mixed",
               .help = "prompts join the running decodes within a token budget",
               .state_size = sizeof(State),
               .options = options},
    .wake = wake,
    .plan = plan,
};
