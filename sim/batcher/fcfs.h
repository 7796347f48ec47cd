/* First come, first served within a budget: what the batchers share. */
#ifndef SIM_BATCHER_FCFS_H
#define SIM_BATCHER_FCFS_H
#include "sim/batcher/batcher.h"

/* The limits that vLLM's batchers have, and their options. */
typedef struct FcfsLimits {
  int64_t max_num_batched_tokens; // of one iteration
  int64_t max_num_seqs;           // in the batch
} FcfsLimits;

extern const OptionSpec fcfs_options[]; // of a state that is FcfsLimits

/* What an iteration may still take. */
typedef struct Budget {
  int64_t tokens; // new tokens of the iteration
  int64_t seqs;   // sequences in the batch
  int64_t blocks; // KV blocks
} Budget;

/* Plans whole prompts from the head of prefill_queue until one does not fit, and takes them off the
 * budget. The first prompt of an iteration may exceed the tokens, or a long one would never run. */
void fcfs_prefills(const MachineView *view, BatchPlan *plan, Budget *budget);
/* Plans decodes from the head of `queue` (blocked or decode_queue) until one does not fit, each for
 * one token, and takes them off the budget. */
void fcfs_admits(const MachineView *view, const RequestQueue *queue, bool reserves_output,
                 BatchPlan *plan, Budget *budget);

/* The answer to `wake` of a batcher that takes requests in order of arrival: an idle machine always
 * looks; a decode run is cut short only for a request that is next in line, when there is a
 * sequence and memory for it. */
bool fcfs_wake(const MachineView *view, Wake why, int64_t max_num_seqs);
/* The same as a hook of a batcher whose state is FcfsLimits. */
bool fcfs_limits_wake(void *state, void *machine_state, const MachineView *view, Wake why,
                      RequestIx request);
#endif
