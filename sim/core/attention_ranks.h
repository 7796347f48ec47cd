/* The chunks of one iteration on the ranks of attention data parallelism. A chunk is one rank's: in
 * the order of the iteration each goes to the rank that has the fewest tokens of it so far, the
 * first of several. What that has no room for goes on to the next: tokens of all ranks together are
 * cut elsewhere than each rank would cut its own. */
#ifndef SIM_CORE_ATTENTION_RANKS_H
#define SIM_CORE_ATTENTION_RANKS_H
#include "perfmodel/perfmodel.h"

typedef struct Ranks {
  RankShare *loads;
  size_t capacity;
  int64_t n, most;
} Ranks;

/* An iteration on `n` ranks of `most` tokens at most, without chunks. */
void ranks_begin(Ranks *self, int64_t n, int64_t most, Arena *arena);
void ranks_add(Ranks *self, int64_t tokens, int64_t area2);
/* What the busiest has, the most of each. */
RankShare ranks_busiest(const Ranks *self);

struct Instance;
struct Step;

/* Of an instance that is scheduled step by step: the tokens of one prompt in a step, those that its
 * rank may compute. */
int64_t ranks_budget(const struct Instance *instance);
/* From the chunks of a step to Step.busiest. */
void ranks_spread_step(Ranks *self, const struct Instance *instance, struct Step *step,
                       Arena *arena);
#endif
