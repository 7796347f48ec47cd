/* SGLang 0.5's scheduler: the core decides round by round as it does (sim/core/rounds.h); here are
 * its options and their defaults. */
#include "sim/batcher/batcher.h"
#include "sim/batcher/connector.h"
#include "sim/core/rounds.h"

static const char *const schedule_choices[] = {"fcfs", "lpm", NULL};

enum { RANKS_OWN, RANKS_SHARED };
static const char *const rank_choices[] = {"own", "shared", NULL};

static const char *const balance_choices[] = {
    "auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens", NULL};
static const RankSpread spreads[] = {RANKS_AUTO, RANKS_IN_TURN, RANKS_BY_ROOM, RANKS_BY_REQUESTS,
                                     RANKS_BY_TOKENS};

typedef struct Sglang {
  RoundOptions rounds; // first: the core knows no more of it
  const Node *kv_connector;
  ConnectorOptions connector;
} Sglang;

#define ROUNDS(key, type, ...) OPTION_OF(RoundOptions, key, type, __VA_ARGS__)

static const OptionSpec options[] = {
    BATCH_TOKENS("8192", "Maximum number of prompt tokens in a step (SGLang chunked_prefill_size). "
                         "The last prompt is cut to what is left."),
    BATCH_SEQS("2048", "Maximum number of running requests (SGLang max_running_requests)."),
    ROUNDS(enable_chunked_prefill, OPTION_BOOL, .fallback = "true", .tries = "false true",
           .help = "Cut prompts into chunks. With false max_num_batched_tokens has no effect."),
    ROUNDS(max_prefill_tokens, OPTION_INT, .fallback = "16384", .min = 1, .max = BATCH_TOKENS_MAX,
           .tries = "4096 8192 16384 32768 65536",
           .help = "Number of prompt tokens in a step at which no further prompt joins it."),
    ROUNDS(prefill_max_requests, OPTION_INT, .fallback = "0", .max = BATCH_SEQS_MAX,
           .tries = "0 1 4 16", .help = "Maximum number of prompts in a step. 0 means no limit."),
    ROUNDS(enable_mixed_chunk, OPTION_BOOL, .fallback = "false", .tries = "false true",
           .help = "Let decodes take part in steps with prompts."),
    ROUNDS(enable_overlap_schedule, OPTION_BOOL, .fallback = "true", .tries = "false true",
           .help = "Decide each step while the step before it runs."),
    ROUNDS(enable_prefix_caching, OPTION_BOOL, .fallback = "true", .tries = "false true",
           .help = "Reuse KV of prompts and outputs with equal beginnings (radix cache)."),
    ROUNDS(schedule_policy, OPTION_CHOICE, .fallback = "fcfs", .choices = schedule_choices,
           .tries = "fcfs lpm",
           .help = "Order in which requests are admitted: by arrival (fcfs) or longest cached "
                   "prefix first (lpm)."),
    ROUNDS(schedule_conservativeness, OPTION_REAL, .fallback = "1", .min = 0.001, .max = 100,
           .tries = "0.3 0.5 0.7 1 1.3",
           .help = "Factor on the share of max_tokens that is reserved for running requests."),
    ROUNDS(scheduler_recv_interval, OPTION_INT, .fallback = "1", .min = 1, .max = 1e6,
           .tries = "1 2 4 8",
           .help = "Number of decode steps after which new requests are received."),
    ROUNDS(prefill_decode_interval, OPTION_INT, .fallback = "0", .max = 1e6,
           .tries = "0 1 2 4 8 16",
           .help = "Number of steps after one with prompts in which none are admitted."),
    ROUNDS(prefill_decode_interval_min_bs, OPTION_INT, .fallback = "0", .max = BATCH_SEQS_MAX,
           .help = "Number of running requests below which prefill_decode_interval has no effect."),
    ROUNDS(enable_priority_scheduling, OPTION_BOOL, .fallback = "false",
           .help = "Admit requests by their priority."),
    ROUNDS(schedule_low_priority_values_first, OPTION_BOOL, .fallback = "true",
           .help = "Admit lower values of the priority first (SGLang's default is false)."),
    ROUNDS(disable_priority_preemption, OPTION_BOOL, .fallback = "false",
           .help = "Do not preempt running requests for others of a better priority."),
    ROUNDS(priority_scheduling_preemption_threshold, OPTION_INT, .fallback = "10", .max = 1e9,
           .help = "Difference of priorities above which a running request is preempted."),
    ROUNDS(rank_scheduling, OPTION_CHOICE, .fallback = "own", .choices = rank_choices,
           .help = "Schedulers of attention ranks: each has its own and its own KV memory, and all "
                   "decide together (own, SGLang), or one gives prompts to all (shared). Ranks of "
                   "a pipeline always share one."),
    ROUNDS(load_balance_method, OPTION_CHOICE, .fallback = "auto", .choices = balance_choices,
           .help = "Attention rank of a request: in turn (round_robin), drawn by the router "
                   "(follow_bootstrap_room), that with the fewest requests (total_requests) or the "
                   "least KV memory in use (total_tokens). Auto is follow_bootstrap_room on "
                   "instances that only prefill, else round_robin."),
    OPTION_OF(Sglang, kv_connector, OPTION_NODE, .absent = "no tiers",
              .help = "CPU memory under the radix cache, and storage under that, as SGLang's "
                      "HiCache: {name: hicache, hicache_ratio, cpu_bytes_to_use, tiers, "
                      "load_back_threshold, prefetch_policy, prefetch_threshold, "
                      "prefetch_timeout_base, prefetch_timeout_per_ki_token}."),
    {0},
};

static int check(void *state, const Node *map, Place owner, Arena *arena, Diag *diag) {
  Sglang *self = state;
  (void)map, (void)arena;
  if (connector_bind(&self->connector, self->kv_connector, owner, diag)) return -1;
  if (self->connector.kind != CONNECTOR_NONE && self->connector.kind != CONNECTOR_HICACHE)
    return diag_error(diag, self->kv_connector->at,
                      "'kv_connector' of batcher 'sglang' has name: hicache");
  return 0;
}

static const char *refuse(const void *state, const PoolSpec *pool, Arena *arena,
                          const char **ret_key) {
  const Sglang *self = state;
  (void)arena;
  *ret_key = "kv_connector";
  if (self->connector.kind == CONNECTOR_NONE) return NULL;
  return connector_refuse(&self->connector, pool, self->rounds.enable_prefix_caching);
}

static SchedulerLimits schedules(const void *options_) {
  const RoundOptions *self = options_;
  return (SchedulerLimits){.rules = &scheduler_rules_sglang,
                           .max_num_batched_tokens = self->limits.max_num_batched_tokens,
                           .max_tokens = self->limits.max_num_batched_tokens,
                           .max_num_seqs = self->limits.max_num_seqs,
                           .rank_spread = spreads[self->load_balance_method],
                           .one_round = true,
                           .connector = ((const Sglang *)options_)->connector,
                           .lag = self->enable_overlap_schedule};
}

static bool has_ranks(const void *options_) {
  return ((const RoundOptions *)options_)->rank_scheduling == RANKS_OWN;
}

static bool caches(const void *options_) {
  return ((const RoundOptions *)options_)->enable_prefix_caching;
}

static bool sorts_by_priority(const void *options_) {
  return ((const RoundOptions *)options_)->enable_priority_scheduling;
}

static bool wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                 RequestIx request) {
  (void)state, (void)instance_state, (void)request;
  return rounds_wake(view, why);
}

const Batcher batcher_sglang = {
    .policy = {.name = "sglang",
               .help = "Schedules round by round, one step ahead, as SGLang 0.5 does, with its "
                       "radix cache.",
               .state_size = sizeof(Sglang),
               .options = options,
               .check = check},
    .keeps_radix = true,
    .refuse = refuse,
    .sorts_by_priority = sorts_by_priority,
    .schedules = schedules,
    .has_ranks = has_ranks,
    .caches = caches,
    .wake = wake,
};
