/* Continuous batching as vLLM had it in 2023 (Splitwise Fig. 2b): an iteration is prefill or
 * decode, prefill first; decodes stand still while prompts wait and fit. TetriInfer's baseline
 * prefills at most 16 prompts together and pads each to the longest (TetriInfer §5.2.1); as in
 * vLLM, padding counts among the batched tokens. SGLang schedules so, too, and there what has come
 * from clients may be taken in at each n-th iteration of decodes only (managers/scheduler_recv_
 * skipper.py; an iteration with prefill, or none, is always followed by a look). */
#include "sim/batcher/fcfs.h"

typedef struct State {
  FcfsLimits fcfs;
  int64_t max_num_prefill_seqs; // 0: no limit
  int64_t scheduler_recv_interval;
  bool pad_prefills;
} State;

/* When an instance last took in what had come. */
typedef struct Intake {
  Tick looked_at;
  int64_t looked_after; // iterations of decodes since the beginning
  bool prefills;        // the newest iteration does
} Intake;

static int64_t decodes_since(const Intake *self, const Instance *instance) {
  return instance->totals.decode_iterations - self->looked_after;
}

/* Before when prompts must have arrived that the next iteration may have; those of the very tick in
 * which the instance looked came after that. */
static Tick take_in(Intake *self, const State *state, const InstanceView *view) {
  const Instance *instance = view->instance;
  if (state->scheduler_recv_interval <= 1 || instance->batch.n_seqs == 0 || self->prefills ||
      decodes_since(self, instance) >= state->scheduler_recv_interval) {
    self->looked_at = view->now;
    self->looked_after = instance->totals.decode_iterations;
    return 0;
  }
  return self->looked_at > 0 ? self->looked_at : 1;
}

static int32_t max_tokens(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/* Leaves out the prompts that, padded, are too many tokens; never the first. */
static int32_t cut_to_padded(const State *self, BatchPlan *plan) {
  int32_t longest = 0;
  for (size_t i = 0; i < plan->n_prefills; i++) {
    const int32_t with_this = max_tokens(longest, plan->prefills[i].tokens);
    if (i > 0 && (int64_t)(i + 1) * with_this > self->fcfs.limits.max_num_batched_tokens)
      plan->n_prefills = i;
    else
      longest = with_this;
  }
  return longest;
}

static void pad(const State *self, const InstanceView *view, BatchPlan *plan) {
  const int64_t longest = cut_to_padded(self, plan);
  for (size_t i = 0; i < plan->n_prefills; i++) {
    const int64_t tokens = plan->prefills[i].tokens;
    const int64_t past = view->requests[plan->prefills[i].request].prefilled_tokens;
    plan_pad(plan, longest - tokens, longest * (2 * past + longest) - tokens * (2 * past + tokens));
  }
}

static void plan(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan) {
  const State *self = state;
  const Instance *instance = view->instance;
  Intake *intake = instance_state;
  const int64_t seqs = self->fcfs.limits.max_num_seqs - (int64_t)instance->batch.n_seqs;
  // a prompt's sequence runs from its prefill on, though others' prefills may keep it waiting
  const int64_t unpromised = seqs - (int64_t)instance->decode_queue.count;
  const int64_t prompts = self->max_num_prefill_seqs;
  Budget budget = {.tokens = self->fcfs.limits.max_num_batched_tokens,
                   .seqs = prompts > 0 && prompts < unpromised ? prompts : unpromised,
                   .blocks = instance->free_blocks,
                   .arrived_before = take_in(intake, self, view)};
  fcfs_prefills(view, plan, &budget);
  intake->prefills = plan->pause_decodes = plan->n_prefills > 0;
  if (self->pad_prefills) pad(self, view, plan);
  if (plan->pause_decodes) return;
  budget.tokens = self->fcfs.limits.max_num_seqs;
  budget.seqs = seqs;
  budget.blocks -= batch_growth(&instance->batch, 1);
  fcfs_admit_prefilled(view, plan, &budget);
  fcfs_admit_swapped(view, plan, &budget);
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  const bool waits = ((const State *)state)->scheduler_recv_interval > 1;
  if (waits && why == WAKE_PREFILL && view->instance->activity == ACTIVITY_DECODE) return false;
  return fcfs_limits_wake(state, instance_state, view, why, request);
}

static int64_t review(void *state, void *instance_state, const InstanceView *view) {
  const State *self = state;
  if (self->scheduler_recv_interval <= 1) return INT64_MAX;
  const int64_t left =
      self->scheduler_recv_interval - decodes_since(instance_state, view->instance);
  return left > 1 ? left : 1;
}

static const OptionSpec options[] = {
    FCFS_BATCHED_TOKENS(
        "Maximum number of new tokens in an iteration. A longer prompt is prefilled alone."),
    FCFS_SEQS,
    FCFS_CACHING,
    {"max_num_prefill_seqs", OPTION_INT, offsetof(State, max_num_prefill_seqs), "0", .min = 0,
     .max = 65536, .tries = "0 1 2 4 8 16",
     .help = "Maximum number of prompts that are prefilled together. 0 means no limit."},
    {"scheduler_recv_interval", OPTION_INT, offsetof(State, scheduler_recv_interval), "1", .min = 1,
     .max = 1e6, .tries = "1 2 4 8",
     .help = "Number of decode iterations after which new prompts are received (SGLang "
             "scheduler_recv_interval)."},
    {"pad_prefills", OPTION_BOOL, offsetof(State, pad_prefills), "false",
     .help = "Pad prompts that are prefilled together to the longest one. Padding counts among the "
             "batched tokens."},
    {0},
};

const Batcher batcher_continuous = {
    .policy = {.name = "continuous",
               .help = "Runs prefill and decode in separate iterations, prefill first (vLLM 2023).",
               .state_size = sizeof(State),
               .options = options},
    .instance_state_size = sizeof(Intake),
    .goes_on_with_prompts = true,
    .returns_swapped = true,
    .caches = fcfs_caches,
    .wake = wake,
    .plan = plan,
    .review = review,
};
