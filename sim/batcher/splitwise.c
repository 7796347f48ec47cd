/* Splitwise's instance-level scheduler (Splitwise §IV-B). Prefill: prompts first come, first
 * served, up to 2048 tokens together. Decode: first come, first served until memory is nearly full.
 * Mixed: prompts go first, decodes fill what is left of the token budget, and those left out are
 * preempted and keep their KV. A decode grows in priority with age: one that was left out of
 * `max_preemptions` iterations is never left out again, and prompts make room for it. */
#include "sim/batcher/fcfs.h"

typedef struct State {
  BatchLimits limits;
  int64_t max_preemptions;
  double memory_reserve;
} State;

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)instance_state, (void)request;
  return fcfs_wake(view, why, ((State *)state)->limits.max_num_seqs);
}

static bool is_old(const State *self, const InstanceView *view, RequestIx ix) {
  return view->requests[ix].preemptions >= self->max_preemptions;
}

/* Running decodes that may not be left out any more. */
static int64_t count_old(const State *self, const InstanceView *view) {
  const Batch *batch = &view->instance->batch;
  int64_t n = 0;
  for (size_t i = 0; i < batch->n_seqs; i++)
    n += is_old(self, view, batch->entries[i].request);
  return n;
}

/* Those of the running decodes which may be left out that arrived last, `n` of them, the last
 * first. */
static void leave_out(const State *self, const InstanceView *view, BatchPlan *plan, int64_t n) {
  const Batch *batch = &view->instance->batch;
  const Request *requests = view->requests;
  for (size_t i = 0; i < batch->n_seqs; i++) {
    const RequestIx ix = batch->entries[i].request;
    const bool all = (int64_t)plan->n_preempts == n;
    if (is_old(self, view, ix) || (all && requests[ix].id < requests[plan->preempts[n - 1]].id))
      continue;
    if (!all) plan_preempt(plan, ix);
    size_t at = plan->n_preempts - 1;
    for (; at > 0 && requests[plan->preempts[at - 1]].id < requests[ix].id; at--)
      plan->preempts[at] = plan->preempts[at - 1];
    plan->preempts[at] = ix;
  }
}

/* Blocked decodes, oldest first: those that are due, or the others. They count among max_num_seqs
 * already. */
static void resume(const State *self, const InstanceView *view, bool due, BatchPlan *plan,
                   Budget *budget) {
  const Request *requests = view->requests;
  for (RequestIx ix = view->instance->blocked.first; ix != REQUEST_NONE; ix = requests[ix].next) {
    if (is_old(self, view, ix) != due) continue;
    const int64_t blocks = view_admit_blocks(view, ix, false);
    if (blocks > budget->blocks || (!due && budget->tokens < 1)) return;
    plan_admit(plan, ix);
    budget->tokens--;
    budget->blocks -= blocks;
  }
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  (void)instance_state;
  const State *self = state;
  const Instance *instance = view->instance;
  const int64_t running = (int64_t)instance->batch.n_seqs;
  const double reserve = running > 0 ? self->memory_reserve : 0; // for those that grow
  const int64_t free_blocks = instance->free_blocks - batch_next_growth(&instance->batch);
  const bool crowded = instance->prefill_queue.count > 0 && running > 0;
  const int64_t old = crowded ? count_old(self, view) : 0;
  Budget budget = {.tokens = self->limits.max_num_batched_tokens - old,
                   .seqs = self->limits.max_num_seqs - running - instance->blocked.count,
                   .blocks = free_blocks - (int64_t)(reserve * (double)instance->kv_blocks)};
  if (instance->blocked.count > 0) resume(self, view, true, plan, &budget);
  fcfs_prefills(view, plan, &budget);
  const int64_t left_out = plan->n_prefills > 0 ? running - old - budget.tokens : 0;
  if (left_out > 0) {
    leave_out(self, view, plan, left_out);
    return;
  }
  budget.tokens -= running - old;
  if (instance->blocked.count > 0) resume(self, view, false, plan, &budget);
  fcfs_admits(view, &instance->decode_queue, false, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
}

static const OptionSpec options[] = {
    BATCH_TOKENS(
        "2048",
        "Maximum number of tokens in an iteration, one per decode. A longer prompt runs alone."),
    BATCH_SEQS("512", "Maximum number of sequences in a batch."),
    {"max_preemptions", OPTION_INT, offsetof(State, max_preemptions), "4", .min = 0, .max = 1e6,
     .tries = "0 1 4 16", .help = "Maximum number of iterations that a decode may be left out of."},
    {"memory_reserve", OPTION_REAL, offsetof(State, memory_reserve), "0.01", .min = 0, .max = 0.9,
     .help = "Share of the KV memory that stays free for the growth of running decodes."},
    {0},
};

const Batcher batcher_splitwise = {
    .policy = {.name = "splitwise",
               .help = "Takes prompts first; decodes may be left out of a limited number of "
                       "iterations (Splitwise).",
               .state_size = sizeof(State),
               .options = options},
    .returns_swapped = true,
    .wake = wake,
    .plan = plan,
};
