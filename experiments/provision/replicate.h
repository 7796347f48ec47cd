/* One design on one seed: the space that is searched, what was run in it, and what follows. */
#ifndef EXPERIMENTS_PROVISION_REPLICATE_H
#define EXPERIMENTS_PROVISION_REPLICATE_H
#include "experiments/provision/probe.h"

typedef struct Replicate {
  const Design *design;
  int seed;
  int place;             // among those of its design, the first of which is searched first
  int direction;         // of moved times: -1 shorter, 1 longer; 0: of one of the seeds
  bool alone;            // the answer of the first one is run with one group of terms moved
  bool given_up;         // as many designs as are wanted are better
  bool first_seed_alone; // as in DesignOutcome
  MovedTerms moved;      // by what, once it is ready
  SearchSpace space;
  bool ready; // the space is set
  SearchResult result;
  ProbeRun **runs; // [n_runs] begun
  size_t n_runs, capacity;
} Replicate;

/* The run of a probe with this one of its domains down, where any must be survived, else 0; NULL
 * when it has not begun. */
ProbeRun *replicate_run(const Replicate *self, const Probe *probe, int domain);
/* Of these runs the first that fails, else the one with the least margin, once all have begun; NULL
 * before. */
ProbeRun *replicate_find(const Replicate *self, const Probe *probe);
/* Sets the space up; `likely` (NULL: none) is an answer to begin with. */
void replicate_begin(const Provision *study, Replicate *self, const Answer *likely, Arena *arena);
/* Of one that runs the answer of another alone. */
void replicate_begin_alone(Replicate *self, const Probe *answer);
/* From what the answer of `first` is, and from those that ran it alone with one group of terms
 * longer each, [TERM_SCREENS], to what its terms are moved by. */
MovedTerms replicate_moved(const Replicate *first, const Replicate *screens,
                           const double error[TERM_MOVES]);
/* What the finished search says. */
Answer replicate_answer(const Provision *study, const Replicate *self);
/* All that is known of a design from its replicates, one for each seed. */
void outcome_fill(const Provision *study, const Design *design, const Replicate *replicates,
                  DesignOutcome *ret_outcome, Arena *arena);
/* And from those of the first seed with times moved: [TERM_SCREENS] alone, and [MOVES]. */
void outcome_fill_moved(const Provision *study, const Replicate *moved, DesignOutcome *outcome);
#endif
