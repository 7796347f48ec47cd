/* See fcfs.h. */
#include "sim/batcher/fcfs.h"

const OptionSpec fcfs_options[] = {
    FCFS_BATCHED_TOKENS("Maximum number of tokens in an iteration, one per decode. A longer prompt "
                        "is the only one in its iteration."),
    FCFS_SEQS,
    FCFS_CACHING,
    {0},
};

bool fcfs_caches(const void *options) {
  return ((const FcfsLimits *)options)->enable_prefix_caching;
}

void fcfs_prefills(const InstanceView *view, BatchPlan *plan, Budget *budget) {
  const Request *requests = view->requests;
  if (view_prompts_wait(view)) return;
  for (RequestIx ix = view->instance->prefill_queue.first; ix != REQUEST_NONE;
       ix = requests[ix].next) {
    if (budget->arrived_before > 0 && requests[ix].arrived_at >= budget->arrived_before) return;
    const int32_t tokens = view_left_tokens(view, ix);
    const int64_t blocks = view_prefill_blocks(view, ix, tokens);
    if (budget->seqs < 1 || blocks > budget->blocks) return;
    if (tokens > budget->tokens && plan->n_prefills > 0) return;
    plan_prefill(plan, ix, tokens);
    budget->tokens -= tokens;
    budget->seqs--;
    budget->blocks -= blocks;
  }
}

void fcfs_admits(const InstanceView *view, const RequestQueue *queue, bool reserves_output,
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

void fcfs_admit_prefilled(const InstanceView *view, BatchPlan *plan, Budget *budget) {
  RequestIx ix = view->instance->decode_queue.first;
  for (; ix != REQUEST_NONE && budget->tokens > 0 && budget->seqs > 0;
       ix = view->requests[ix].next) {
    plan_admit(plan, ix);
    budget->tokens--;
    budget->seqs--;
    budget->blocks -= view_admit_blocks(view, ix, false);
  }
}

/* Blocks that must be free for a swapped request to return. */
static int64_t return_blocks(const InstanceView *view, RequestIx ix, size_t n_joining) {
  return view_admit_blocks(view, ix, false) + batch_margin(&view->instance->batch, 0, n_joining);
}

void fcfs_admit_some_swapped(const InstanceView *view, BatchPlan *plan, Budget *budget) {
  const Instance *instance = view->instance;
  for (RequestIx ix = instance->swapped.first; ix != REQUEST_NONE; ix = view->requests[ix].next) {
    if (budget->tokens < 1 || budget->seqs < 1 ||
        return_blocks(view, ix, plan->n_admits) > budget->blocks)
      return;
    plan_admit(plan, ix);
    budget->tokens--;
    budget->seqs--;
    budget->blocks -= view_admit_blocks(view, ix, false);
  }
}

int64_t fcfs_fitting_tokens(const InstanceView *view, RequestIx ix, int64_t most, int64_t blocks) {
  const Request *request = &view->requests[ix];
  const int64_t block_size = view->instance->pool->block_size;
  const int64_t room = (request->kv_blocks + blocks) * block_size - request->prefilled_tokens;
  return room < 0 ? 0 : room < most ? room : most;
}

bool fcfs_wake_decodes(const InstanceView *view, Wake why) {
  const Instance *instance = view->instance;
  const RequestIx decode = instance->decode_queue.first, swapped = instance->swapped.first;
  if ((why == WAKE_DECODE && instance->decode_queue.count == 1) ||
      (why == WAKE_RELEASE && decode != REQUEST_NONE))
    return view_admit_blocks(view, decode, false) <= instance->free_blocks;
  return why == WAKE_RELEASE && swapped != REQUEST_NONE &&
         return_blocks(view, swapped, 0) <= instance->free_blocks;
}

bool fcfs_wake(const InstanceView *view, Wake why, int64_t max_num_seqs) {
  const Instance *instance = view->instance;
  if (instance->activity == ACTIVITY_IDLE) return true;
  if ((int64_t)instance->batch.n_seqs >= max_num_seqs) return false;
  const RequestIx prefill = instance->prefill_queue.first;
  if (instance->swapped.count == 0 &&
      ((why == WAKE_PREFILL && instance->prefill_queue.count == 1) ||
       (why == WAKE_RELEASE && prefill != REQUEST_NONE)))
    return view_prefill_blocks(view, prefill, view_left_tokens(view, prefill)) <=
           instance->free_blocks;
  return fcfs_wake_decodes(view, why);
}

bool fcfs_limits_wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                      RequestIx request) {
  (void)instance_state, (void)request;
  const int64_t max_num_seqs = ((const FcfsLimits *)state)->limits.max_num_seqs;
  const bool joins = why == WAKE_DECODE && (int64_t)view->instance->batch.n_seqs < max_num_seqs;
  return joins || fcfs_wake(view, why, max_num_seqs);
}
