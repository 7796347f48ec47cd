/* The best designs alone (`provision.best`). Searches go on in the order of what their designs take
 * at least. Once as many as are wanted have better answers, all others are given up; and further
 * seeds and moved times are searched for the first two alone, whose order they may decide. */
#ifndef EXPERIMENTS_PROVISION_BEST_H
#define EXPERIMENTS_PROVISION_BEST_H
#include "experiments/provision/replicate.h"

/* The search of a design that is not over, and what its answer takes at least. */
typedef struct OpenSearch {
  Replicate *first;
  double value, gpus; // of the objective
} OpenSearch;

typedef struct BestSearch {
  const Provision *provision;
  Replicate *replicates; // [n_designs * n_places]
  int n_places;
  OpenSearch *open; // [n_open], the most promising first
  int n_open;
} BestSearch;

/* All are open; none when all designs are wanted. */
void best_init(BestSearch *self, const Provision *provision, Replicate *replicates, int n_places,
               Arena *arena);
/* After any search has gone on: orders those that are open, or ends them. */
void best_update(BestSearch *self);
#endif
