/* What a run came to as one number: its digest, its latencies and counts, what each request met,
 * and the books of each machine. Pinned for the clusters of a swarm (experiments/outcomes.def), so
 * that no policy changes what it does without a word. */
#ifndef TESTS_SWARM_OUTCOME_H
#define TESTS_SWARM_OUTCOME_H
#include "sim/sim.h"

uint64_t outcome_of(const SimResult *result, const RequestRecord *records, int n_records);
#endif
