/* `tandem plan --gpus N`: the highest rate that so many GPUs hold, in three searches: all designs
 * of few GPUs, on one seed; the best of those at the number that is asked; and the best of them
 * with an instance more. */
#ifndef EXPERIMENTS_COMMANDS_PLAN_RATE_H
#define EXPERIMENTS_COMMANDS_PLAN_RATE_H
#include "experiments/commands/study.h"

/* Threads and memory, as given. */
typedef struct RateSearch {
  int64_t jobs, memory;
  Arena *arena;
  Diag *diag;
} RateSearch;

/* Searches a question as a study of its own, without ranges and a database. `study` is closed by
 * the caller in any case. -1 with entries. */
int rate_search(const RateSearch *self, const Question *question, Plan *plan, Study *study);
/* The question with the designs that are worth a search and the rate where it may begin; as it is
 * where none meets the limits. -1 with entries. */
int rate_narrow(const RateSearch *self, const Question *asked, Question *ret_narrowed);
/* What one more instance of the best design holds, of a study that was searched. -1 with entries.
 */
int rate_next(const RateSearch *self, const Question *narrowed, const Study *study,
              MoreGpus *ret_more);
/* How long the answer of a study that was searched holds a load that grows, and what that takes
 * `until` then. `growth` has `share` and `until`; fills in the rest. -1 with entries. */
int rate_growth(const RateSearch *self, const Question *asked, const Study *study, Growth *growth);
#endif
