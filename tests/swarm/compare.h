/* Two runs of one workload against each other: everything that they report must be the same but for
 * the events that it took. Structs are compared byte by byte, pointers and histograms apart, so
 * that a field that is added is compared too; tests/unit/test_compare.c changes every byte once. */
#ifndef TESTS_SWARM_COMPARE_H
#define TESTS_SWARM_COMPARE_H
#include "sim/sim.h"

/* Bucket by bucket; sums as far as the order of addition lets them agree. */
bool same_histogram(const Histogram *a, const Histogram *b);
bool same_metrics(const Metrics *a, const Metrics *b);
bool same_totals(const InstanceTotals *a, const InstanceTotals *b);
bool same_record(const RequestRecord *a, const RequestRecord *b);
bool same_pool(const PoolResult *a, const PoolResult *b);
/* What the GPUs of a group did so far. */
bool same_group(const Group *a, const Group *b);
bool same_row(const TimelineRow *a, const TimelineRow *b);

/* What differs between two results, in a few words; NULL: nothing. A timeline is compared where
 * both have one. */
const char *compare_results(const SimResult *a, const SimResult *b);
#endif
