/* How many instances a load keeps busy, on paper: where the search for their number begins. A
 * verdict never depends on it, only how many clusters are simulated before the answer is found. */
#ifndef EXPERIMENTS_PROVISION_LIKELY_H
#define EXPERIMENTS_PROVISION_LIKELY_H
#include "experiments/provision/provision.h"

/* Of each searched pool of a design, on the first seed; its lowest count where nothing is known. */
void likely_counts(const Provision *study, const Design *design, int64_t counts[COUNTS_MAX]);
#endif
