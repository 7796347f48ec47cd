/* See fcfs.h. */
#include "sim/batcher/fcfs.h"

const OptionSpec fcfs_options[] = {
    {"max_num_batched_tokens", OPTION_INT, offsetof(FcfsLimits, max_num_batched_tokens), "2048",
     .min = 1, .max = 1e9, .help = "new tokens of one iteration; a longer prompt is taken alone"},
    {"max_num_seqs", OPTION_INT, offsetof(FcfsLimits, max_num_seqs), "256", .min = 1, .max = 65536,
     .help = "sequences in the batch"},
    {0},
};

void fcfs_prefills(const MachineView *view, BatchPlan *plan, Budget *budget) {
  const Request *requests = view->requests;
  for (RequestIx ix = view->machine->prefill_queue.first; ix != REQUEST_NONE;
       ix = requests[ix].next) {
    const int32_t tokens = requests[ix].prefill_tokens - requests[ix].prefilled_tokens;
    const int64_t blocks = view_prefill_blocks(view, ix, tokens);
    if (budget->seqs < 1 || blocks > budget->blocks) return;
    if (tokens > budget->tokens && plan->n_prefills > 0) return;
    plan_prefill(plan, ix, tokens);
    budget->tokens -= tokens;
    budget->seqs--;
    budget->blocks -= blocks;
  }
}

void fcfs_admits(const MachineView *view, const RequestQueue *queue, bool reserves_output,
                 BatchPlan *plan, Budget *budget) {
  for (RequestIx ix = queue->first; ix != REQUEST_NONE; ix = view->requests[ix].next) {
    const int64_t blocks = view_admit_blocks(view, ix, reserves_output);
    if (budget->tokens < 1 || budget->seqs < 1 || blocks > budget->blocks) return;
    plan_admit(plan, ix);
    budget->tokens--;
    budget->seqs--;
    budget->blocks -= blocks;
  }
}

bool fcfs_wake(const MachineView *view, Wake why, int64_t max_num_seqs) {
  const Machine *machine = view->machine;
  if (machine->activity == ACTIVITY_IDLE) return why != WAKE_CHAINED;
  if ((int64_t)machine->batch.n_seqs >= max_num_seqs) return false;
  const RequestIx prefill = machine->prefill_queue.first, decode = machine->decode_queue.first;
  if ((why == WAKE_PREFILL && machine->prefill_queue.count == 1) ||
      (why == WAKE_RELEASE && prefill != REQUEST_NONE))
    return view_prefill_blocks(view, prefill, view->requests[prefill].prefill_tokens) <=
           machine->free_blocks;
  if ((why == WAKE_DECODE && machine->decode_queue.count == 1) ||
      (why == WAKE_RELEASE && decode != REQUEST_NONE))
    return view_admit_blocks(view, decode, false) <= machine->free_blocks;
  return false;
}

bool fcfs_limits_wake(void *state, void *machine_state, const MachineView *view, Wake why,
                      RequestIx request) {
  (void)machine_state, (void)request;
  return fcfs_wake(view, why, ((const FcfsLimits *)state)->max_num_seqs);
}
