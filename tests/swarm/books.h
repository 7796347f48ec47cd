/* One run of a cluster, and whether its books add up. */
#ifndef TESTS_SWARM_BOOKS_H
#define TESTS_SWARM_BOOKS_H
#include "tests/swarm/cluster.h"
#include "tests/swarm/watch.h"

typedef struct Trial {
  SimResult result;
  RequestRecord *records; // [n_rows] by id, without
  TimeParts *parts;       // [n_rows] where their time went
  int n_reported;
  Watch watch;
  bool watched, parted; // those were kept
} Trial;

/* What is wrong with them, NULL if nothing; `trial` NULL: the run failed. */
const char *check_books(const Cluster *cluster, Trial *trial);
/* Whether its gaps are those that were asked for, of one whose requests were all served. A copy
 * that comes second may be in a step that was decided as its first token was made. */
bool books_have_gaps(const Metrics *metrics);
#endif
