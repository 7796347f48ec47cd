/* Request-level (static) batching (Splitwise Fig. 2a): a batch of requests is prefilled together
 * and decoded to its last token before the next is taken. Memory for whole outputs is taken
 * beforehand. */
#include "sim/batcher/fcfs.h"

typedef struct State {
  int64_t max_num_seqs;
} State;

static bool occupied(const Machine *machine) {
  return machine->batch.n_seqs > 0 || machine->activity != ACTIVITY_IDLE;
}

static bool wake(void *state, void *machine_state, const MachineView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)machine_state, (void)request;
  return why != WAKE_CHAINED && !occupied(view->machine);
}

/* Whole requests: prompts with the outputs they will have, where those are decoded here. */
static void plan_prompts(const State *self, const MachineView *view, BatchPlan *plan) {
  const Machine *machine = view->machine;
  int64_t seqs = self->max_num_seqs, blocks = machine->free_blocks;
  for (RequestIx ix = machine->prefill_queue.first; ix != REQUEST_NONE && seqs > 0;
       ix = view->requests[ix].next, seqs--) {
    const Request *request = &view->requests[ix];
    const bool decoded_here = request->decode_machine == machine->ix;
    const int64_t output = decoded_here ? request->output_tokens : 1;
    blocks -= blocks_of(machine, request->prompt_tokens + output);
    if (blocks < 0) return;
    plan_prefill(plan, ix, request->prefill_tokens);
  }
}

static void plan(void *state, void *machine_state, const MachineView *view, BatchPlan *plan) {
  (void)machine_state;
  const State *self = state;
  const Machine *machine = view->machine;
  if (machine->batch.n_seqs > 0) return;
  Budget budget = {
      .tokens = self->max_num_seqs, .seqs = self->max_num_seqs, .blocks = machine->free_blocks};
  fcfs_admits(view, &machine->decode_queue, true, plan, &budget);
  if (plan->n_admits == 0) plan_prompts(self, view, plan);
}

static const OptionSpec options[] = {
    {"max_num_seqs", OPTION_INT, offsetof(State, max_num_seqs), "64", .min = 1, .max = 65536,
     .help = "requests in a batch"},
    {0},
};

const Batcher batcher_request_level = {
    .policy = {.name = "request_level",
               .help = "static batches, each run to its last token",
               .state_size = sizeof(State),
               .options = options},
    .reserves_output = true,
    .wake = wake,
    .plan = plan,
};
