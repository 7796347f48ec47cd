/* Request-level (static) batching (Splitwise Fig. 2a): a batch of requests is prefilled together
 * and decoded to its last token before the next is taken. Memory for whole outputs is taken
 * beforehand.
 *
 * With `padded` all sequences of a batch are as long as the longest, and none leaves it before its
 * last does (FlexGen, as Pie §5.7 has it: prompts padded to the longest of the data set). The batch
 * ends with its longest output. */
#include "sim/batcher/fcfs.h"

typedef struct State {
  BatchLimits limits;
  bool padded;
  int64_t padded_prompt_tokens, padded_output_tokens; // at least
} State;

/* The padded batch that decodes. */
typedef struct InstanceState {
  int64_t seqs, iterations; // at its beginning; iterations are the instance's
  int64_t context;          // of each sequence then
} InstanceState;

static bool occupied(const Instance *instance) {
  return instance->batch.n_seqs > 0 || instance->activity != ACTIVITY_IDLE;
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)instance_state, (void)why, (void)request;
  return !occupied(view->instance);
}

static int64_t longer(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Blocks of a padded request; at most those of the instance, so that each has its turn. */
static int64_t padded_blocks(const State *self, const Instance *instance, int64_t blocks) {
  if (!self->padded) return blocks;
  const int64_t padded =
      blocks_of(instance, self->padded_prompt_tokens + self->padded_output_tokens);
  return longer(blocks, padded < instance->kv_blocks ? padded : instance->kv_blocks);
}

static void pad_prompts(const State *self, const InstanceView *view, BatchPlan *plan) {
  int64_t longest = self->padded_prompt_tokens, tokens = 0, area2 = 0;
  for (size_t i = 0; i < plan->n_prefills; i++)
    longest = longer(longest, request_prefill_tokens(&view->requests[plan->prefills[i].request]));
  for (size_t i = 0; i < plan->n_prefills; i++) {
    const int64_t own = request_prefill_tokens(&view->requests[plan->prefills[i].request]);
    tokens += longest - own;
    area2 += longest * longest - own * own;
  }
  plan_pad(plan, tokens, area2);
}

/* Whole requests: prompts with the outputs they may have, where those are decoded here. */
static void plan_prompts(const State *self, const InstanceView *view, BatchPlan *plan) {
  const Instance *instance = view->instance;
  int64_t seqs = self->limits.max_num_seqs, blocks = instance->free_blocks;
  for (RequestIx ix = instance->prefill_queue.first; ix != REQUEST_NONE && seqs > 0;
       ix = view->requests[ix].next, seqs--) {
    const Request *request = &view->requests[ix];
    const bool decoded_here = request->decode_instance == instance->ix;
    const int64_t own = decoded_here ? instance_reserved_blocks(instance, request)
                                     : blocks_of(instance, request->prompt_tokens + 1);
    blocks -= padded_blocks(self, instance, own);
    if (blocks < 0) break;
    plan_prefill(plan, ix, request_prefill_tokens(request));
  }
  if (self->padded && plan->n_prefills > 0) pad_prompts(self, view, plan);
}

/* What the batch that decodes has beyond its sequences; `seqs` of `context` tokens are in it. */
static void pad_decodes(const InstanceState *batch, const Instance *instance, int64_t seqs,
                        int64_t context, BatchPlan *plan) {
  const int64_t each = batch->context + instance->batch.iterations - batch->iterations;
  plan_pad_decodes(plan, batch->seqs - seqs, batch->seqs * each - context);
}

static void begin_padded(const State *self, InstanceState *batch, const InstanceView *view,
                         BatchPlan *plan) {
  int64_t context = 0;
  *batch = (InstanceState){.seqs = (int64_t)plan->n_admits,
                           .iterations = view->instance->batch.iterations};
  for (size_t i = 0; i < plan->n_admits; i++) {
    const Request *request = &view->requests[plan->admits[i]];
    context += request_tokens(request);
    const int64_t prompt = longer(request->prompt_tokens, self->padded_prompt_tokens);
    batch->context = longer(batch->context, prompt + request->generated_tokens);
  }
  pad_decodes(batch, view->instance, batch->seqs, context, plan);
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  const State *self = state;
  const Instance *instance = view->instance;
  const Batch *batch = &instance->batch;
  if (batch->n_seqs > 0) {
    if (self->padded)
      pad_decodes(instance_state, instance, (int64_t)batch->n_seqs, batch->context_tokens, plan);
    return;
  }
  Budget budget = {.tokens = self->limits.max_num_seqs,
                   .seqs = self->limits.max_num_seqs,
                   .blocks = instance->free_blocks};
  fcfs_admits(view, &instance->decode_queue, true, plan, &budget);
  if (plan->n_admits == 0)
    plan_prompts(self, view, plan);
  else if (self->padded)
    begin_padded(self, instance_state, view, plan);
}

static const OptionSpec options[] = {
    BATCH_SEQS("64", "Maximum number of requests in a batch."),
    {"padded", OPTION_BOOL, offsetof(State, padded), "false",
     .help = "Pad all sequences of a batch to the longest one."},
    {"padded_prompt_tokens", OPTION_INT, offsetof(State, padded_prompt_tokens), "0", .max = 1e6,
     .help = "Minimum length of padded prompts in tokens. It applies to padded: true."},
    {"padded_output_tokens", OPTION_INT, offsetof(State, padded_output_tokens), "0", .max = 1e6,
     .help = "Output tokens for which each request reserves memory at least. It applies to padded: "
             "true."},
    {0},
};

const Batcher batcher_request_level = {
    .policy = {.name = "request_level",
               .help = "Runs static batches, each to its last token.",
               .state_size = sizeof(State),
               .options = options},
    .instance_state_size = sizeof(InstanceState),
    .reserves_output = true,
    .wake = wake,
    .plan = plan,
};
