/* vLLM 0.33's scheduler: the core decides step by step as it does (sim/core/deciding.c,
 * admitting.c); here are the engine's own names and defaults of what it can be told, and of what
 * TensorRT-LLM does otherwise (SchedulerConfig: capacity_scheduler_policy, and TorchLlmArgs:
 * enable_chunked_prefill, batch_wait_timeout_iters, batch_wait_max_tokens_ratio,
 * attention_dp_config). */
#include "sim/batcher/batcher.h"
#include "sim/batcher/connector.h"
#include "sim/batcher/speculative.h"
#include "sim/core/scheduling.h"
#include "sim/proposal/proposal.h"

typedef struct Vllm {
  BatchLimits limits;
  int64_t max_num_scheduled_tokens, max_num_active_seqs, long_prefill_token_threshold;
  int64_t prefill_schedule_interval, batch_wait_timeout_iters;
  int64_t attention_dp_timeout_iters, attention_dp_batching_wait_iters;
  int64_t prefix_cache_retention_interval;
  int64_t max_num_encoder_input_tokens, encoder_cache_size;
  Tick encoder_time_per_token;
  double watermark;
  double batch_wait_max_tokens_ratio;
  Tick idle_sleep;
  int64_t dp_sync_interval;
  int rank_scheduling; // RANKS_OWN, RANKS_TOGETHER or RANKS_SHARED
  int first_token;     // FIRST_PREFILL or FIRST_DECODE
  bool async_scheduling, enable_prefix_caching, scheduler_reserve_full_isl, enable_chunked_prefill;
  bool long_prefill_token_threshold_adaptive, self_preemption_ends_step;
  const Node *speculative;
  const Node *kv_connector;
  const Node *proposal;
  Speculation speculation;
  ConnectorOptions connector;
  ProposalChoice proposed;
  int policy;                    // POLICY_FCFS or POLICY_PRIORITY
  int capacity_scheduler_policy; // MAX_UTILIZATION or GUARANTEED_NO_EVICT
} Vllm;

enum { MAX_UTILIZATION, GUARANTEED_NO_EVICT };
static const char *const capacity_choices[] = {"max_utilization", "guaranteed_no_evict", NULL};

enum { FIRST_PREFILL, FIRST_DECODE };
static const char *const first_choices[] = {"prefill", "decode", NULL};

enum { RANKS_OWN, RANKS_TOGETHER, RANKS_SHARED };
static const char *const rank_choices[] = {"own", "together", "shared", NULL};

enum { POLICY_FCFS, POLICY_PRIORITY };
static const char *const policy_choices[] = {"fcfs", "priority", NULL};

static const OptionSpec options[] = {
    BATCH_TOKENS(
        "8192", "Maximum number of tokens in a step (TensorRT-LLM max_num_tokens), one per decode. "
                "Chunks of prompts take the rest."),
    BATCH_SEQS("1024", "Maximum number of running requests (TensorRT-LLM max_batch_size)."),
    {"max_num_scheduled_tokens", OPTION_INT, offsetof(Vllm, max_num_scheduled_tokens), "0",
     .max = 1e9,
     .help = "Maximum number of tokens that a step schedules, where it is less than "
             "max_num_batched_tokens. 0 means no limit."},
    {"max_num_active_seqs", OPTION_INT, offsetof(Vllm, max_num_active_seqs), "0", .max = 1e6,
     .help = "Number of running requests from which on none is admitted, where it is less than "
             "max_num_seqs. 0 means no limit."},
    {"async_scheduling", OPTION_BOOL, offsetof(Vllm, async_scheduling), "true",
     .tries = "false true", .help = "Decide each step while the step before it runs."},
    {"enable_prefix_caching", OPTION_BOOL, offsetof(Vllm, enable_prefix_caching), "true",
     .tries = "false true", .help = "Reuse KV blocks with the same content (prefix cache)."},
    {"prefix_cache_retention_interval", OPTION_INT, offsetof(Vllm, prefix_cache_retention_interval),
     "0", .min = KV_KEEPS_ALL, .max = 1e9,
     .help =
         "Tokens between the places of a prompt where sliding windows and states are kept in the "
         "prefix cache, besides the end of the prompt and shared prefixes. 0 keeps them only "
         "there; -1 (null in vLLM) keeps them everywhere."},
    {"long_prefill_token_threshold", OPTION_INT, offsetof(Vllm, long_prefill_token_threshold), "0",
     .max = 1e9, .tries = "0 512 1024 2048 4096",
     .help = "Maximum number of tokens of one prompt in a step while there are other requests. 0 "
             "means no limit."},
    {"long_prefill_token_threshold_adaptive", OPTION_BOOL,
     offsetof(Vllm, long_prefill_token_threshold_adaptive), "false",
     .help = "Raise long_prefill_token_threshold to max_num_batched_tokens over the number of "
             "requests that run or wait."},
    {"prefill_schedule_interval", OPTION_INT, offsetof(Vllm, prefill_schedule_interval), "1",
     .min = 1, .max = 1e6, .tries = "1 2 4 8 16",
     .help = "Minimum number of steps from one with prefill to the next while decodes run, unless "
             "the last step that could admit left requests waiting."},
    {"watermark", OPTION_REAL, offsetof(Vllm, watermark), "0", .max = 1, .tries = "0 0.01 0.05",
     .help = "Share of the KV blocks that stays free when a request is admitted while others run."},
    {"policy", OPTION_CHOICE, offsetof(Vllm, policy), "fcfs", .choices = policy_choices,
     .help = "Order in which requests are admitted, and preempted last: by arrival (fcfs) or by "
             "priority, lower values first."},
    {"self_preemption_ends_step", OPTION_BOOL, offsetof(Vllm, self_preemption_ends_step), "false",
     .help = "With policy: priority, a request that is preempted for want of its own blocks ends "
             "the scheduling of running requests, as in vLLM 0.32."},
    {"scheduler_reserve_full_isl", OPTION_BOOL, offsetof(Vllm, scheduler_reserve_full_isl), "true",
     .tries = "false true",
     .help = "Admit a prompt only if there are free KV blocks for all of it."},
    {"capacity_scheduler_policy", OPTION_CHOICE, offsetof(Vllm, capacity_scheduler_policy),
     "max_utilization", .choices = capacity_choices, .tries = "max_utilization guaranteed_no_evict",
     .help = "Rule of admission (TensorRT-LLM). With guaranteed_no_evict a request is admitted "
             "only if there are KV blocks for its whole output too."},
    {"enable_chunked_prefill", OPTION_BOOL, offsetof(Vllm, enable_chunked_prefill), "true",
     .tries = "false true",
     .help = "Cut prompts into chunks. With false only prompts longer than max_num_batched_tokens "
             "are cut."},
    {"batch_wait_timeout_iters", OPTION_INT, offsetof(Vllm, batch_wait_timeout_iters), "0",
     .max = 1e6, .tries = "0 2 4 8 16",
     .help = "Maximum number of steps that prompts wait for further prompts while decodes run "
             "(TensorRT-LLM)."},
    {"batch_wait_max_tokens_ratio", OPTION_REAL, offsetof(Vllm, batch_wait_max_tokens_ratio), "0",
     .max = 1, .tries = "0 0.25 0.5 0.75",
     .help = "Share of max_num_batched_tokens at which prompts stop waiting for others "
             "(TensorRT-LLM)."},
    {"attention_dp_timeout_iters", OPTION_INT, offsetof(Vllm, attention_dp_timeout_iters), "0",
     .max = 1e6,
     .help = "Maximum number of steps that prompts wait, while all attention ranks decode, until "
             "each rank has one (TensorRT-LLM attention_dp_config: timeout_iters, with "
             "enable_balance). 0 means that they do not wait."},
    {"first_token", OPTION_CHOICE, offsetof(Vllm, first_token), "prefill", .choices = first_choices,
     .help =
         "Instance whose first token the client gets where a request is decoded on another one: "
         "prefill (Splitwise, TetriInfer), or decode, which makes it again from the last token "
         "of the prompt (vLLM behind llm-d or Dynamo)."},
    {"idle_sleep", OPTION_TICKS, offsetof(Vllm, idle_sleep), "1 ms", .max = 10,
     .help = "Time that the engine of a pipeline, or of an attention rank, sleeps after a step "
             "without tokens."},
    {"rank_scheduling", OPTION_CHOICE, offsetof(Vllm, rank_scheduling), "own",
     .choices = rank_choices,
     .help = "Schedulers of attention ranks: each has its own and its own KV memory, and their "
             "steps begin together (own, vLLM) or are decided together too (together, "
             "TensorRT-LLM), or one gives prompts to all (shared). Ranks of a pipeline always "
             "share one."},
    {"dp_sync_interval", OPTION_INT, offsetof(Vllm, dp_sync_interval), "16", .min = 1, .max = 1e6,
     .help = "Number of steps after which attention ranks find out whether any of them has "
             "unfinished requests. Until then those without run dummy steps."},
    {"max_num_encoder_input_tokens", OPTION_INT, offsetof(Vllm, max_num_encoder_input_tokens), "0",
     .max = 1e9,
     .help = "Maximum number of tokens of images that a step encodes. 0 means "
             "max_num_batched_tokens."},
    {"encoder_cache_size", OPTION_INT, offsetof(Vllm, encoder_cache_size), "0", .max = 1e9,
     .help = "Tokens of images whose encoder outputs are kept for prompts. 0 means "
             "max_num_encoder_input_tokens."},
    {"encoder_time_per_token", OPTION_TICKS, offsetof(Vllm, encoder_time_per_token), "0 s",
     .max = 1e-3,
     .help = "Time that the encoder adds to a step for each token that it encodes. No performance "
             "model has it: with 0 images are encoded in no time."},
    {"speculative", OPTION_NODE, offsetof(Vllm, speculative), .absent = "no speculation",
     .help = "Speculative decoding: {method, num_speculative_tokens, acceptance, "
             "acceptance_error, drafter_time, mtp_modules}."},
    {"kv_connector", OPTION_NODE, offsetof(Vllm, kv_connector), .absent = "no connector",
     .help = "KV connector: {name: offloading, cpu_bytes_to_use} keeps the KV of prompts in CPU "
             "memory, {name: offloading, tiers, recompute} in CPU memory, SSDs and a remote "
             "store, {name: nixl, kv_role, overhead} moves it from or to other engines."},
    {"proposal", OPTION_NODE, offsetof(Vllm, proposal), .absent = "none", .listed = "proposals",
     .help = "A scheduling idea that vLLM does not have: its name, or a map of `name` and the keys "
             "of that proposal."},
    {"attention_dp_batching_wait_iters", OPTION_INT,
     offsetof(Vllm, attention_dp_batching_wait_iters), "0", .max = 1e6,
     .help = "Number of steps that prompts wait for more once each rank has one (TensorRT-LLM "
             "attention_dp_config: batching_wait_iters), with rank_scheduling: together."},
    {0},
};

/* The lesser of a limit and a further one, of which 0 is none. */
static int64_t least(int64_t limit, int64_t further) {
  return further > 0 && further < limit ? further : limit;
}

/* The first that is not 0. */
static int64_t either(int64_t limit, int64_t otherwise) {
  return limit > 0 ? limit : otherwise;
}

/* A request that a step has no room for would wait for ever. */
static int check_drafts(const Vllm *self, Diag *diag) {
  const Speculation *speculation = &self->speculation;
  if (speculation->num_speculative_tokens == 0) return 0;
  const int64_t drafted = 1 + speculation->num_speculative_tokens + speculation->draft_slots;
  const int64_t tokens = least(self->limits.max_num_batched_tokens, self->max_num_scheduled_tokens);
  if (tokens < drafted)
    return diag_error(diag, self->speculative->at,
                      "a step of %lld tokens has no room for a request and its drafts, %lld tokens",
                      (long long)tokens, (long long)drafted);
  if (least(speculation->prefill_lookahead, self->long_prefill_token_threshold) <
      speculation->prefill_lookahead)
    return diag_error(
        diag, self->speculative->at,
        "the %lld tokens of 'long_prefill_token_threshold' are fewer than the %d that "
        "the drafter needs of a prompt",
        (long long)self->long_prefill_token_threshold, (int)speculation->prefill_lookahead);
  return 0;
}

/* A step has room for what it must have of a prompt, or nobody would get on. */
static int check_proposal(const Vllm *self, Diag *diag) {
  const Proposal *proposal = self->proposed.proposal;
  if (!proposal) return 0;
  if (proposal->rank && self->policy == POLICY_PRIORITY)
    return diag_error(diag, self->proposal->at, "'%s' orders requests, as 'policy: priority' does",
                      proposal->policy.name);
  if (proposal->prefill_tokens && (self->speculative || !self->enable_chunked_prefill))
    return diag_error(diag, self->proposal->at,
                      "'%s' cuts prompts into chunks, and cannot be used with %s",
                      proposal->policy.name,
                      self->speculative ? "'speculative'" : "'enable_chunked_prefill: false'");
  return 0;
}

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  Vllm *self = state;
  (void)map;
  if (speculative_bind(&self->speculation, self->speculative, owner, arena, diag)) return -1;
  if (connector_bind(&self->connector, self->kv_connector, owner, diag)) return -1;
  if (self->connector.kind == CONNECTOR_HICACHE)
    return diag_error(diag, self->kv_connector->at, "name: hicache needs batcher 'sglang'");
  if (self->kv_connector && self->speculative)
    return diag_error(diag, self->kv_connector->at,
                      "'kv_connector' and 'speculative' cannot be used together");
  if (proposal_bind(&self->proposed, self->proposal, arena, diag)) return -1;
  return check_proposal(self, diag) | check_drafts(self, diag);
}

static int64_t least_whole(double tokens) {
  const int64_t whole = (int64_t)tokens;
  return whole + ((double)whole < tokens);
}

static SchedulerLimits schedules(const void *options_) {
  const Vllm *self = options_;
  const int64_t encoder_tokens =
      either(self->max_num_encoder_input_tokens, self->limits.max_num_batched_tokens);
  return (SchedulerLimits){
      .rules = &scheduler_rules_vllm,
      .max_num_batched_tokens = self->limits.max_num_batched_tokens,
      .max_tokens = least(self->limits.max_num_batched_tokens, self->max_num_scheduled_tokens),
      .max_num_seqs = least(self->limits.max_num_seqs, self->max_num_active_seqs),
      .long_prefill_token_threshold = self->long_prefill_token_threshold,
      .adaptive_threshold = self->long_prefill_token_threshold_adaptive,
      .prefill_interval = self->prefill_schedule_interval,
      .watermark = self->watermark,
      .self_preemption_ends_step = self->self_preemption_ends_step,
      .priority = self->policy == POLICY_PRIORITY,
      .reserve_full_isl = self->scheduler_reserve_full_isl,
      .no_evict = self->capacity_scheduler_policy == GUARANTEED_NO_EVICT,
      .whole_prompts = !self->enable_chunked_prefill,
      .batch_wait_iters = self->batch_wait_timeout_iters,
      .batch_wait_tokens = least_whole(self->batch_wait_max_tokens_ratio *
                                       (double)self->limits.max_num_batched_tokens),
      .rank_wait_iters = self->attention_dp_timeout_iters,
      .rank_batch_iters = self->attention_dp_batching_wait_iters,
      .rank_spread = self->rank_scheduling == RANKS_TOGETHER ? RANKS_BALANCED : RANKS_BY_FRONT,
      .one_round = self->rank_scheduling == RANKS_TOGETHER,
      .lag = self->async_scheduling,
      .retention = self->prefix_cache_retention_interval,
      .makes_first = self->first_token == FIRST_DECODE,
      .idle_sleep = self->idle_sleep,
      .sync_interval = self->dp_sync_interval,
      .speculation = self->speculation,
      .connector = self->connector,
      .proposal = self->proposed,
      .encoder_tokens = encoder_tokens,
      .encoder_cache_size = either(self->encoder_cache_size, encoder_tokens),
      .encoder_time = self->encoder_time_per_token};
}

static const char *refuse(const void *state, const PoolSpec *pool, Arena *arena,
                          const char **ret_key) {
  const Speculation *speculation = &((const Vllm *)state)->speculation;
  (void)arena;
  *ret_key = "encoder_time_per_token";
  if (((const Vllm *)state)->encoder_time_per_token > 0 && pool->pipeline_stages > 1)
    return "'encoder_time_per_token' cannot be used with pipelines";
  *ret_key = "proposal";
  const Proposal *proposal = ((const Vllm *)state)->proposed.proposal;
  if (proposal && proposal->prefill_tokens && pool->layout)
    return "a proposal that cuts prompts into chunks cannot be used with a model that has "
           "sliding windows or states";
  *ret_key = "kv_connector";
  const ConnectorOptions *connector = &((const Vllm *)state)->connector;
  if (connector->kind != CONNECTOR_NONE)
    return connector_refuse(connector, pool, ((const Vllm *)state)->enable_prefix_caching);
  *ret_key = "speculative";
  if (speculation->num_speculative_tokens == 0) return NULL;
  if (pool->pipeline_stages > 1) return "'speculative' cannot be used with pipelines";
  if (pool->perfmodel->form != PERF_COMPOSED)
    return "iteration times of the form 'splitwise-sim' say nothing of verified drafts";
  if (speculation->mtp && pool->num_nextn_predict_layers == 0)
    return "'method: mtp' needs a model that has layers for it ('num_nextn_predict_layers')";
  return NULL;
}

static bool has_ranks(const void *options_) {
  return ((const Vllm *)options_)->rank_scheduling != RANKS_SHARED;
}

static bool caches(const void *options_) {
  return ((const Vllm *)options_)->enable_prefix_caching;
}

static const Speculation *speculation(const void *options_) {
  return &((const Vllm *)options_)->speculation;
}

static bool goes_before(const void *options_, const Request *a, const Request *b) {
  if (((const Vllm *)options_)->policy == POLICY_FCFS) return false;
  return a->priority != b->priority ? a->priority < b->priority : a->arrived_at < b->arrived_at;
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)instance_state;
  return scheduler_wake(view, why, request);
}

static bool draws(const void *options_) {
  return speculation_draws(&((const Vllm *)options_)->speculation);
}

const Batcher batcher_vllm = {
    .policy =
        {.name = "vllm",
         .help =
             "Schedules step by step, one step ahead, as vLLM 0.33 does, with its prefix cache.",
         .state_size = sizeof(Vllm),
         .options = options,
         .check = check,
         .draws = draws},
    .passes_adapters = true,
    .groups_layers = true,
    .fills_pipelines = true,
    .pauses = true,
    .refuse = refuse,
    .schedules = schedules,
    .has_ranks = has_ranks,
    .caches = caches,
    .speculation = speculation,
    .goes_before = goes_before,
    .wake = wake,
};
