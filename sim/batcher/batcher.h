/* Instance-level scheduling: which work makes up the instance's next iteration.
 *
 * The core keeps the queues in order of arrival (prefill_queue, decode_queue, blocked, swapped)
 * and the decode batch; a batcher says what changes. A batcher is asked `wake` when something
 * arrives at or leaves the instance, and `plan` when an iteration with prefill ended or the
 * decode batch may change. */
#ifndef SIM_BATCHER_BATCHER_H
#define SIM_BATCHER_BATCHER_H
#include "sim/core/instance.h"
#include "sim/policy.h"

typedef struct InstanceView {
  Tick now;
  const Instance *instance;
  const Request *requests;     // by slot
  const RequestMemory *memory; // by slot, where content is kept
  bool made_room;              // somebody has given way for the iteration to be planned
} InstanceView;

typedef struct PlanItem {
  RequestIx request;
  int32_t tokens; // of prefill
} PlanItem;

/* What an iteration may hold at most; 0: the batcher has no such limit. The state of every batcher
 * begins with it. */
typedef struct BatchLimits {
  int64_t max_num_batched_tokens; // of one iteration
  int64_t max_num_seqs;           // in the batch
} BatchLimits;

enum { BATCH_TOKENS_MAX = 1000000000, BATCH_SEQS_MAX = 65536 };

/* The options that bind it. */
#define BATCH_LIMIT(field, usual, most, ladder, text)                                              \
  OPTION_OF(BatchLimits, field, OPTION_INT, .fallback = (usual), .min = 1, .max = (most),          \
            .tries = (ladder), .help = (text))
#define BATCH_TOKENS(usual, text)                                                                  \
  BATCH_LIMIT(max_num_batched_tokens, usual, BATCH_TOKENS_MAX,                                     \
              "256 512 1024 2048 4096 8192 16384 32768", text)
#define BATCH_SEQS(usual, text)                                                                    \
  BATCH_LIMIT(max_num_seqs, usual, BATCH_SEQS_MAX, "8 16 32 64 128 256 512 1024 2048", text)

/* The limits of a batcher whose options are bound; none of one whose options were wrong. */
static inline BatchLimits batcher_limits(const PolicyChoice *batcher) {
  return batcher->state ? *(const BatchLimits *)batcher->state : (BatchLimits){0};
}
/* The same batcher with other limits. */
static inline PolicyChoice batcher_limited(PolicyChoice batcher, BatchLimits limits, Arena *arena) {
  if (batcher.state) *(BatchLimits *)(batcher.state = policy_state_copy(&batcher, arena)) = limits;
  return batcher;
}

/* The next iteration as a change to the last: running decodes go on unless preempted. */
typedef struct BatchPlan {
  Arena *arena;
  struct Simulation *simulation;
  Instance *instance;  // that will carry it out; NULL: none
  PlanItem *prefills;  // chunks, in the order in which their ends are handled
  RequestIx *admits;   // from decode_queue, blocked or swapped into the batch
  RequestIx *preempts; // from the batch to the end of `blocked`
  size_t n_prefills, n_admits, n_preempts;
  size_t prefills_capacity, admits_capacity, preempts_capacity;
  BatchShape padding; // computed for nothing
  bool pause_decodes; // the whole batch sits this iteration out, at no cost to the core
} BatchPlan;

/* Prefill the next `tokens` > 0 of a request of prefill_queue; of one that has not begun, after
 * those that the instance's cache has (view_left_tokens), whose blocks it holds from now on. In a
 * group the core leaves out a prompt that the store cannot take, and all after it. The core takes
 * KV blocks for them: view_prefill_blocks must be free. */
void plan_prefill(BatchPlan *plan, RequestIx request, int32_t tokens);
/* Let a request of decode_queue, blocked or swapped run: view_admit_blocks must be free. A plan
 * without prefills may admit more of decode_queue than there are blocks for: as where those that
 * run cannot grow, the tier picks who gives way. */
void plan_admit(BatchPlan *plan, RequestIx request);
/* Charge the iteration, which must have prefills, for `tokens` more, as padded batches and chunks
 * of a fixed size do; `area2` is Σ new·(2·past + new) of the padding. No KV is kept of it. */
void plan_pad(BatchPlan *plan, int64_t tokens, int64_t area2);
/* Charge the decodes that follow for `seqs` sequences and `context` tokens of theirs and of others
 * more, each of which grows by a token per iteration, as batches of one length do. */
void plan_pad_decodes(BatchPlan *plan, int64_t seqs, int64_t context);
/* Leave a running request out; it keeps its KV. */
void plan_preempt(BatchPlan *plan, RequestIx request);

typedef enum Wake {
  WAKE_PREFILL, // a request was queued for prefill
  WAKE_CHAINED, // the request just queued for prefill will be decoded here too
  WAKE_DECODE,  // a request's KV arrived, it was queued for decode
  WAKE_RELEASE, // KV left this instance (`request`, or NONE, is the one it belonged to)
} Wake;

struct Batcher {
  Policy policy;
  size_t instance_state_size; // zeroed, one per instance
  bool reserves_output;       // KV for max_tokens is taken when a decode is first admitted
  bool foresees_outputs;      // or for the output that it will have, as nobody knows outside of a
                              // simulator
  bool reorders;              // takes prompts in another order than that of their queue
  bool owns_queues;           // keeps order by its own books, so nothing may be evicted under it
  bool hears_chained;         // wants to be asked `wake` for WAKE_CHAINED too
  bool goes_on_with_prompts;  // that others have begun (view_left_tokens), ahead of the queue
  bool returns_swapped;       // admits from `swapped` (fcfs_admit_swapped), for tiers that swap
  /* The limits of a batcher that leaves decisions to a scheduler (scheduler.h); it has no `plan`.
   * Optional. */
  struct SchedulerLimits (*schedules)(const void *options);
  /* Whether a request that waits for prefill goes before another. Optional: as they arrive. */
  bool (*goes_before)(const void *options, const Request *a, const Request *b);
  bool keeps_radix;     // its prefix cache is a radix tree (radix.h)
  bool passes_adapters; // over requests whose adapter has no room: it supports adapters
  bool groups_layers;   // that keep different things (kv_groups.h)
  bool fills_pipelines; // one scheduler has all batches of a pipeline in flight (flights.h)
  bool pauses;          // when its engine is told to (core/pausing.c)
  /* Whether it admits by priority though it does not wait so (goes_before). Optional. */
  bool (*sorts_by_priority)(const void *options);
  /* Whether each attention rank has a scheduler of its own (lockstep.h). Optional: none has. */
  bool (*has_ranks)(const void *options);
  /* Whether its instances keep a prefix cache. Optional: they do not. */
  bool (*caches)(const void *options);
  /* Its drafts (speculation.h). Optional: there are none. */
  const struct Speculation *(*speculation)(const void *options);
  /* Before anything else, once per instance. Optional. */
  void (*start)(void *state, void *instance_state, const InstanceView *view, Arena *arena);
  /* Whether the instance should begin an iteration for this: an idle one begins at once, one in a
   * decode run ends it at the next iteration's end. */
  bool (*wake)(void *state, void *instance_state, const InstanceView *view, Wake why,
               RequestIx request);
  void (*plan)(void *state, void *instance_state, const InstanceView *view, BatchPlan *plan);
  /* The iterations, > 0, after which a decode run of the batch as it is now ends even if nothing
   * happens, so that `plan` is asked again. Optional: as many as there may be. */
  int64_t (*review)(void *state, void *instance_state, const InstanceView *view);
  /* Whether the KV of a request may come here, for which memory has room. A refusal stands until an
   * iteration ends here or memory is given back. Optional: it may. */
  bool (*receives)(void *state, void *instance_state, const InstanceView *view, RequestIx request);
  /* A phase of a request ended on this instance. Optional. */
  void (*finish)(void *state, void *instance_state, const InstanceView *view, RequestIx request,
                 Phase phase);
  /* A request leaves this instance that has not finished: its client gave up. Not called of one
   * whose prefill has ended and that is decoded elsewhere. Optional. */
  void (*leave)(void *state, void *instance_state, const InstanceView *view, RequestIx request);
  /* What is wrong with one of the options on the instances of this pool, in a sentence, and which;
   * NULL: nothing. Optional. */
  const char *(*refuse)(const void *state, const PoolSpec *pool, Arena *arena,
                        const char **ret_key);
};

/* Blocks of KV memory that a request holds whose `context` ends with a token just made. That one's
 * KV is written by the next iteration, which takes a block for it if it must (vLLM); a batcher that
 * reserves outputs keeps its place from the start. */
static inline int64_t instance_held_blocks(const Instance *instance, int64_t context) {
  return blocks_of(instance, context - !instance->batcher->reserves_output);
}

/* Those of a request whose prompt has just been prefilled for the first time. */
static inline int64_t instance_prompt_blocks(const Instance *instance, const Request *request) {
  if (instance->kv_groups) return kv_groups_most(instance->kv_groups, request->prompt_tokens);
  return instance_held_blocks(instance, (int64_t)request->prompt_tokens + 1);
}

/* Blocks of a request that waits for its first chunk that the instance's cache has; of those, how
 * many nobody holds. Its last token is computed in any case. */
static inline int64_t view_hit_blocks(const InstanceView *view, RequestIx ix, int64_t *ret_unheld) {
  const Request *request = &view->requests[ix];
  const Instance *instance = view->instance;
  *ret_unheld = 0;
  if (!instance->cache || instance->kv_groups || request->state != REQUEST_WAITS_PREFILL ||
      request->prefilled_tokens > 0)
    return 0;
  const int64_t behind = instance->cache->lookahead > 0 ? instance->cache->lookahead : 1;
  const int64_t tokens = request_prefill_tokens(request) - behind;
  const int64_t most = tokens > 0 ? batch_whole_blocks(&instance->batch, tokens) : 0;
  return prefix_cache_match(instance->cache, &view->memory[ix].content, instance->pool->block_size,
                            most, ret_unheld);
}

/* Tokens of its prefill that have still to be computed. */
static inline int32_t view_left_tokens(const InstanceView *view, RequestIx ix) {
  const Request *request = &view->requests[ix];
  int64_t unheld;
  const int64_t hits = view_hit_blocks(view, ix, &unheld) * view->instance->pool->block_size;
  return request_prefill_tokens(request) - request->prefilled_tokens - (int32_t)hits;
}

/* Blocks of a request whose prefill is done up to `done` tokens. */
static inline int64_t instance_prefill_blocks(const Instance *instance, const Request *request,
                                              int64_t done) {
  const bool last = done == request_prefill_tokens(request); // a token is made
  return last ? instance_held_blocks(instance, done + 1) : blocks_of(instance, done);
}

/* Free blocks that computing the next `tokens` of a request takes, beside those that it holds or
 * that the cache has. */
static inline int64_t view_prefill_blocks(const InstanceView *view, RequestIx ix, int32_t tokens) {
  const Request *request = &view->requests[ix];
  int64_t unheld;
  const int64_t hits = view_hit_blocks(view, ix, &unheld);
  const int64_t done = request->prefilled_tokens + hits * view->instance->pool->block_size + tokens;
  return instance_prefill_blocks(view->instance, request, done) - request->kv_blocks - hits +
         unheld;
}

/* The request of prefill_queue that holds KV of earlier chunks; REQUEST_NONE if there is none. */
static inline RequestIx view_started_prefill(const InstanceView *view) {
  const Instance *instance = view->instance;
  RequestIx ix = instance->n_started > 0 ? instance->prefill_queue.first : REQUEST_NONE;
  while (ix != REQUEST_NONE && view->requests[ix].prefilled_tokens == 0)
    ix = view->requests[ix].next;
  return ix;
}

/* Whether prompts that have not begun wait: for those that are swapped out, and where somebody has
 * just given way, for the decodes this was for, or they would take the memory back at once. */
static inline bool view_prompts_wait(const InstanceView *view) {
  const Instance *instance = view->instance;
  return instance->swapped.count > 0 ||
         (view->made_room && instance->decode_queue.count + instance->blocked.count > 0);
}

/* Blocks of a request in memory that is reserved for it: at most all there are, so that each has
 * its turn. */
static inline int64_t instance_reserved_blocks(const Instance *instance, const Request *request) {
  const int64_t output =
      instance->batcher->foresees_outputs ? request->output_tokens : request->max_tokens;
  const int64_t blocks = blocks_of(instance, request->prompt_tokens + output);
  return blocks < instance->kv_blocks ? blocks : instance->kv_blocks;
}

/* Blocks that admitting a decode takes beyond those it holds: for its newest token, which the next
 * iteration computes, or all that a batcher reserves. */
static inline int64_t view_admit_blocks(const InstanceView *view, RequestIx ix,
                                        bool reserves_output) {
  const Request *request = &view->requests[ix];
  const int64_t blocks = reserves_output ? instance_reserved_blocks(view->instance, request)
                                         : blocks_of(view->instance, request_tokens(request));
  const int64_t more = blocks - request->kv_blocks;
  return more > 0 ? more : 0;
}
#endif
