/* One design on one seed: the space that is searched, what was run in it, and what follows. */
#ifndef EXPERIMENTS_PROVISION_REPLICATE_H
#define EXPERIMENTS_PROVISION_REPLICATE_H
#include "experiments/provision/probe.h"

typedef struct Replicate {
  const Design *design;
  int seed;
  int place;          // among those of its design, the first of which is searched first
  double error_shift; // as in ConfigChanges
  SearchSpace space;
  bool ready; // the space is set
  SearchResult result;
  ProbeRun **runs; // [n_runs] begun
  size_t n_runs, capacity;
} Replicate;

/* The run of a probe; NULL when it has not begun. */
ProbeRun *replicate_find(const Replicate *self, const Probe *probe);
/* Sets the space up; `likely` (NULL: none) is an answer to begin with. */
void replicate_begin(const Provision *study, Replicate *self, const Answer *likely, Arena *arena);
/* What the finished search says. */
Answer replicate_answer(const Provision *study, const Replicate *self);
/* All that is known of a design from its replicates: [study->n_seeds] with times as they are, then
 * those with times that are moved, `n_replicates` in all. */
void outcome_fill(const Provision *study, const Design *design, const Replicate *replicates,
                  int n_replicates, DesignOutcome *ret_outcome, Arena *arena);
#endif
