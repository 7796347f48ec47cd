/* First come, first served within a budget: what the batchers share. */
#ifndef SIM_BATCHER_FCFS_H
#define SIM_BATCHER_FCFS_H
#include "sim/batcher/batcher.h"

/* The limits that vLLM's batchers have, and their options. */
typedef struct FcfsLimits {
  BatchLimits limits;
  bool enable_prefix_caching;
} FcfsLimits;

/* Their rows, of a state that begins with FcfsLimits. */
#define FCFS_BATCHED_TOKENS(text) BATCH_TOKENS("2048", text)
#define FCFS_SEQS                 BATCH_SEQS("256", "Maximum number of sequences in a batch.")
#define FCFS_CACHING                                                                               \
  {                                                                                                \
    "enable_prefix_caching", OPTION_BOOL, offsetof(FcfsLimits, enable_prefix_caching), "false",    \
        .tries = "false true", .help = "Reuse KV blocks with the same content (prefix cache)."     \
  }

/* As Batcher.caches, of a state that begins with FcfsLimits. */
bool fcfs_caches(const void *options);

extern const OptionSpec fcfs_options[]; // of a state that is FcfsLimits

/* What an iteration may still take. */
typedef struct Budget {
  int64_t tokens;      // new tokens of the iteration
  int64_t seqs;        // sequences in the batch
  int64_t blocks;      // KV blocks
  Tick arrived_before; // of prompts that are known of; 0: all that are here
} Budget;

/* Plans whole prompts from the head of prefill_queue until one does not fit, and takes them off the
 * budget, or is not known of. The first prompt of an iteration may exceed the tokens, or a long one
 * would never run. None while view_prompts_wait. */
void fcfs_prefills(const InstanceView *view, BatchPlan *plan, Budget *budget);
/* Plans decodes from the head of `queue` (blocked or decode_queue) until one does not fit, each for
 * one token, and takes them off the budget. */
void fcfs_admits(const InstanceView *view, const RequestQueue *queue, bool reserves_output,
                 BatchPlan *plan, Budget *budget);
/* Plans those of decode_queue that the budget has tokens and sequences for, and takes them off it.
 * As in vLLM they are among the running once they are prefilled, whoever needs a block, and where
 * there are too few the newest of all gives way. The budget's blocks are then below 0, and nothing
 * else fits. */
void fcfs_admit_prefilled(const InstanceView *view, BatchPlan *plan, Budget *budget);

/* private: fcfs_admit_swapped */
void fcfs_admit_some_swapped(const InstanceView *view, BatchPlan *plan, Budget *budget);
/* Plans the return of swapped requests, oldest first, until one does not fit, and takes them off
 * the budget as fcfs_admits does. One fits when its whole context and the next token do, beside
 * the margin of those that run (batch.h; vLLM keeps a share of all blocks free for that).
 *
 * A batcher with `returns_swapped` calls it after it has admitted those that hold their KV
 * (blocked, decode_queue), which vLLM counts among the running. While instance->swapped is not
 * empty it begins no prompt, not even in the iteration in which the last of them returns
 * (fcfs_prefills does not); one whose first chunk has been prefilled goes on. */
static inline void fcfs_admit_swapped(const InstanceView *view, BatchPlan *plan, Budget *budget) {
  if (view->instance->swapped.count > 0) fcfs_admit_some_swapped(view, plan, budget);
}

/* The most tokens of a request's next prefill, at most `most`, that `blocks` have room for. */
int64_t fcfs_fitting_tokens(const InstanceView *view, RequestIx request, int64_t most,
                            int64_t blocks);

/* The answer to `wake` of a batcher that takes requests in order of arrival: an idle instance
 * always looks; a decode run is cut short only for a request that is next in line, when there is a
 * sequence and memory for it. */
bool fcfs_wake(const InstanceView *view, Wake why, int64_t max_num_seqs);
/* Its part for decodes: a decode that is next in line, or a swapped request that may return. */
bool fcfs_wake_decodes(const InstanceView *view, Wake why);
/* The same as a hook of a batcher whose state begins with FcfsLimits and which uses
 * fcfs_admit_prefilled: a decode needs no more than a sequence. */
bool fcfs_limits_wake(void *state, void *instance_state, const InstanceView *view, Wake why,
                      RequestIx request);
#endif
