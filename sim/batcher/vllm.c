/* vLLM 0.33's scheduler: the core decides step by step as it does (sim/deciding.c); here are the
 * engine's own names and defaults of what it can be told, and of what TensorRT-LLM does otherwise
 * (SchedulerConfig: capacity_scheduler_policy, and TorchLlmArgs: enable_chunked_prefill,
 * batch_wait_timeout_iters, batch_wait_max_tokens_ratio). */
#include "sim/batcher/batcher.h"
#include "sim/scheduling.h"

typedef struct Vllm {
  int64_t max_num_batched_tokens, max_num_seqs;
  int64_t long_prefill_token_threshold;
  int64_t batch_wait_timeout_iters;
  double batch_wait_max_tokens_ratio;
  bool async_scheduling, enable_prefix_caching, scheduler_reserve_full_isl, enable_chunked_prefill;
  int policy;                    // POLICY_FCFS or POLICY_PRIORITY
  int capacity_scheduler_policy; // MAX_UTILIZATION or GUARANTEED_NO_EVICT
} Vllm;

enum { MAX_UTILIZATION, GUARANTEED_NO_EVICT };
static const char *const capacity_choices[] = {"max_utilization", "guaranteed_no_evict", NULL};

enum { POLICY_FCFS, POLICY_PRIORITY };
static const char *const policy_choices[] = {"fcfs", "priority", NULL};

static const OptionSpec options[] = {
    {"max_num_batched_tokens", OPTION_INT, offsetof(Vllm, max_num_batched_tokens), "8192", .min = 1,
     .max = 1e9, .help = "tokens of one step, one per decode; prompts are cut to the rest"},
    {"max_num_seqs", OPTION_INT, offsetof(Vllm, max_num_seqs), "1024", .min = 1, .max = 65536,
     .help = "requests that run"},
    {"async_scheduling", OPTION_BOOL, offsetof(Vllm, async_scheduling), "true",
     .help = "a step is decided while the one before it runs"},
    {"enable_prefix_caching", OPTION_BOOL, offsetof(Vllm, enable_prefix_caching), "true",
     .help = "blocks of KV are found again by what is in them"},
    {"long_prefill_token_threshold", OPTION_INT, offsetof(Vllm, long_prefill_token_threshold), "0",
     .max = 1e9, .help = "most tokens of a prompt in one step while others are there; 0: no limit"},
    {"policy", OPTION_CHOICE, offsetof(Vllm, policy), "fcfs", .choices = policy_choices,
     .help = "who is admitted first and preempted last: fcfs, or by priority, less first"},
    {"scheduler_reserve_full_isl", OPTION_BOOL, offsetof(Vllm, scheduler_reserve_full_isl), "true",
     .help = "admit a prompt only where there are blocks for all of it"},
    {"capacity_scheduler_policy", OPTION_CHOICE, offsetof(Vllm, capacity_scheduler_policy),
     "max_utilization", .choices = capacity_choices,
     .help = "guaranteed_no_evict: admit only where all outputs will have blocks, too"},
    {"enable_chunked_prefill", OPTION_BOOL, offsetof(Vllm, enable_chunked_prefill), "true",
     .help = "prompts are cut; false: none but those longer than max_num_batched_tokens"},
    {"batch_wait_timeout_iters", OPTION_INT, offsetof(Vllm, batch_wait_timeout_iters), "0",
     .max = 1e6, .help = "steps that prompts wait beside decodes for more of them; 0: none"},
    {"batch_wait_max_tokens_ratio", OPTION_REAL, offsetof(Vllm, batch_wait_max_tokens_ratio), "0",
     .max = 1, .help = "share of max_num_batched_tokens at which they wait no longer"},
    {0},
};

static int64_t least_whole(double tokens) {
  const int64_t whole = (int64_t)tokens;
  return whole + ((double)whole < tokens);
}

static SchedulerLimits schedules(const void *options_) {
  const Vllm *self = options_;
  return (SchedulerLimits){.max_num_batched_tokens = self->max_num_batched_tokens,
                           .max_num_seqs = self->max_num_seqs,
                           .long_prefill_token_threshold = self->long_prefill_token_threshold,
                           .priority = self->policy == POLICY_PRIORITY,
                           .reserve_full_isl = self->scheduler_reserve_full_isl,
                           .no_evict = self->capacity_scheduler_policy == GUARANTEED_NO_EVICT,
                           .whole_prompts = !self->enable_chunked_prefill,
                           .batch_wait_iters = self->batch_wait_timeout_iters,
                           .batch_wait_tokens = least_whole(self->batch_wait_max_tokens_ratio *
                                                            (double)self->max_num_batched_tokens),
                           .lag = self->async_scheduling};
}

static bool caches(const void *options_) {
  return ((const Vllm *)options_)->enable_prefix_caching;
}

static bool goes_before(const void *options_, const Request *a, const Request *b) {
  if (((const Vllm *)options_)->policy == POLICY_FCFS) return false;
  return a->priority != b->priority ? a->priority < b->priority : a->id < b->id;
}

static bool wake(void *state, void *machine_state, const MachineView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)machine_state;
  return scheduler_wake(view, why, request);
}

const Batcher batcher_vllm = {
    .policy = {.name = "vllm",
               .help = "scheduler of vLLM 0.33: one step ahead, with its prefix cache",
               .state_size = sizeof(Vllm),
               .options = options},
    .schedules = schedules,
    .caches = caches,
    .goes_before = goes_before,
    .wake = wake,
};
