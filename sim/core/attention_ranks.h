/* The chunks of one iteration on the ranks of attention data parallelism. A chunk is one rank's: in
 * the order of the iteration each goes to the rank that has the fewest tokens of it so far, the
 * first of several. What that has no room for goes on to the next: tokens of all ranks together are
 * cut elsewhere than each rank would cut its own.
 *
 * Where prompts are whole (TensorRT-LLM) a request is on one rank from the first decision on that
 * sees it wait: the one with the fewest requests, the first of several. Each rank then has
 * max_num_batched_tokens of its own. */
#ifndef SIM_CORE_ATTENTION_RANKS_H
#define SIM_CORE_ATTENTION_RANKS_H
#include "perfmodel/perfmodel.h"

/* Requests on a rank. */
typedef struct RankCount {
  int64_t all, decodes, waiting; // waiting: whose prompts have not begun
} RankCount;

typedef struct Ranks {
  RankShare *loads;
  RankCount *counts;
  size_t capacity, counts_capacity;
  int64_t n, most;
} Ranks;

/* An iteration on `n` ranks of `most` tokens at most, without chunks. */
void ranks_begin(Ranks *self, int64_t n, int64_t most, Arena *arena);
void ranks_add(Ranks *self, int64_t tokens, int64_t area2);
/* What the busiest has, the most of each. */
RankShare ranks_busiest(const Ranks *self);

struct Instance;
struct Request;
struct Step;

/* Whether requests of the instance, which is scheduled step by step, are on one rank each. */
bool ranks_hold_requests(const struct Instance *instance);
/* Begins a decision of such an instance: those that wait without a rank get one. */
void ranks_place(Ranks *self, const struct Instance *instance, struct Request *slots, Arena *arena);
/* Whether prompts wait until each rank has one to compute, so that no rank idles beside another
 * (PyExecutor, _balance_adp_requests): while all ranks decode, and not in every
 * rank_wait_iters-th iteration since prompts were last let in. */
bool ranks_wait(const Ranks *self, const struct Instance *instance);
/* What those iterations are counted by: nobody is in the batch of one that speculates. */
int64_t ranks_clock(const struct Instance *instance);
/* Tokens that the rank of a request has left in the step. */
int64_t ranks_room(const Ranks *self, const struct Request *request);
/* The step has a chunk of it. */
void ranks_take(Ranks *self, const struct Request *request, int64_t tokens);

/* Of an instance that is scheduled step by step: the tokens of a step, on all ranks, and those of
 * one prompt in it, which its rank may compute. */
int64_t ranks_tokens(const struct Instance *instance);
int64_t ranks_budget(const struct Instance *instance);
/* From the chunks of a step to Step.busiest. */
void ranks_spread_step(Ranks *self, const struct Instance *instance, const struct Request *slots,
                       struct Step *step, Arena *arena);
#endif
