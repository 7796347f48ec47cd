/* Chunked prefill mixed with decodes (Sarathi; vLLM 0.5.4 with chunked prefill): all decodes run in
 * every iteration, and what they leave of the token budget goes to prompts in order of arrival, the
 * last of which may be cut anywhere. So one prompt at most has begun and not ended; it goes on
 * before any other begins. A prompt begins when memory has room for all of it.
 *
 * With `tbt` the budget is no more than the tokens of the next prompt with which an iteration keeps
 * to that time beside the decodes that run: batches by an SLO, as DynaServe's local scheduler makes
 * them (arXiv 2504.09285, abstract; how is ours). */
#include "sim/batcher/fcfs.h"

typedef struct State {
  FcfsLimits fcfs;
  Tick tbt; // 0: no limit
} State;

/* The tokens of a prompt that join the iteration; 0: it waits. */
static int64_t joining_tokens(const InstanceView *view, RequestIx ix, const Budget *budget) {
  const Request *request = &view->requests[ix];
  const int64_t rest = view_left_tokens(view, ix);
  if (request->prefilled_tokens > 0)
    return fcfs_fitting_tokens(view, ix, rest < budget->tokens ? rest : budget->tokens,
                               budget->blocks);
  const bool begins = budget->seqs > 0 && !view_prompts_wait(view) &&
                      view_prefill_blocks(view, ix, (int32_t)rest) <= budget->blocks;
  return !begins ? 0 : rest < budget->tokens ? rest : budget->tokens;
}

static RequestIx next_prompt(const InstanceView *view) {
  const RequestIx started = view_started_prefill(view);
  return started != REQUEST_NONE ? started : view->instance->prefill_queue.first;
}

/* How long an iteration lasts with so many tokens of a prompt of which `past` are done. */
static Tick iteration_ticks(const Instance *instance, int64_t tokens, int64_t past) {
  const Batch *batch = &instance->batch;
  const BatchShape shape = {.prefill_tokens = tokens,
                            .prefill_area2 = tokens * (2 * past + tokens),
                            .decode_seqs = (int64_t)batch->n_seqs,
                            .context_tokens = batch->context_tokens,
                            .logit_seqs = (int64_t)batch->n_seqs};
  return perfmodel_iteration(instance->pool->perfmodel, &shape, NULL);
}

/* The most of `tokens` with which the decodes that run keep to their time; a binary search. */
static int64_t tokens_in_time(Tick tbt, const InstanceView *view, int64_t tokens) {
  const RequestIx prompt = next_prompt(view);
  if (view->instance->batch.n_seqs == 0 || prompt == REQUEST_NONE) return tokens;
  const int64_t past = view->requests[prompt].prefilled_tokens;
  int64_t low = 0;
  while (low < tokens) {
    const int64_t middle = tokens - (tokens - low) / 2;
    if (iteration_ticks(view->instance, middle, past) <= tbt)
      low = middle;
    else
      tokens = middle - 1;
  }
  return low;
}

/* What prompts may take of the next iteration; the place of the one that has begun is taken. */
static Budget budget_of(const State *self, const InstanceView *view) {
  const Instance *instance = view->instance;
  const BatchLimits *limits = &self->fcfs.limits;
  const int64_t running = (int64_t)instance->batch.n_seqs;
  return (Budget){.tokens = limits->max_num_batched_tokens - running,
                  .seqs = limits->max_num_seqs - running - instance->n_started,
                  .blocks = instance->free_blocks - batch_growth(&instance->batch, 1)};
}

/* Returns whether all of the prompt is in the plan. */
static bool join(const InstanceView *view, RequestIx ix, BatchPlan *plan, Budget *budget) {
  const Request *request = &view->requests[ix];
  const int64_t tokens = budget->tokens > 0 ? joining_tokens(view, ix, budget) : 0;
  if (tokens == 0) return false;
  const int64_t left = view_left_tokens(view, ix);
  budget->tokens -= tokens;
  budget->blocks -= view_prefill_blocks(view, ix, (int32_t)tokens);
  budget->seqs -= request->prefilled_tokens == 0;
  plan_prefill(plan, ix, (int32_t)tokens);
  return tokens == left;
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  (void)instance_state;
  const Instance *instance = view->instance;
  const State *self = state;
  Budget budget = budget_of(self, view);
  fcfs_admit_prefilled(view, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
  if (self->tbt > 0) budget.tokens = tokens_in_time(self->tbt, view, budget.tokens);
  const RequestIx started = view_started_prefill(view);
  if (started != REQUEST_NONE && !join(view, started, plan, &budget)) return;
  RequestIx ix = instance->prefill_queue.first;
  while (ix != REQUEST_NONE && (ix == started || join(view, ix, plan, &budget)))
    ix = view->requests[ix].next;
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)instance_state;
  const State *self = state;
  const Instance *instance = view->instance;
  if (instance->activity == ACTIVITY_IDLE) return true;
  Budget budget = budget_of(self, view);
  const RequestIx prompt = next_prompt(view);
  const bool first =
      instance->prefill_queue.count == 1 ||
      (prompt != REQUEST_NONE && prompt == request && view->requests[request].prefilled_tokens > 0);
  if (self->tbt > 0) budget.tokens = tokens_in_time(self->tbt, view, budget.tokens);
  const bool prompt_may =
      (why == WAKE_PREFILL && first) || (why == WAKE_RELEASE && prompt != REQUEST_NONE);
  if (prompt_may && budget.tokens > 0 && joining_tokens(view, prompt, &budget) > 0) return true;
  return budget.seqs > 0 && (why == WAKE_DECODE || fcfs_wake_decodes(view, why));
}

static const OptionSpec options[] = {
    FCFS_BATCHED_TOKENS("Maximum number of tokens in an iteration, one per decode. Chunks of "
                        "prompts take the rest."),
    FCFS_SEQS,
    FCFS_CACHING,
    {"tbt", OPTION_TICKS, offsetof(State, tbt), .min = 1e-6, .max = 3600,
     .help = "Time that an iteration with running decodes is to keep to. Chunks of prompts are no "
             "longer than that leaves; there is none where decodes alone take as long.",
     .absent = "chunks take what max_num_batched_tokens leaves"},
    {0},
};

const Batcher batcher_sarathi = {
    .policy = {.name = "sarathi",
               .help = "Adds chunks of prompts to the running decodes (Sarathi, vLLM 0.5.4).",
               .state_size = sizeof(State),
               .options = options},
    .goes_on_with_prompts = true,
    .returns_swapped = true,
    .caches = fcfs_caches,
    .wake = wake,
    .plan = plan,
};
