/* What of a prompt the tiers under a prefix cache have, and whether it is worth loading (RULES.md,
 * "KV in tiers"). */
#ifndef SIM_CORE_TIER_RUNS_H
#define SIM_CORE_TIER_RUNS_H
#include "sim/core/connector_jobs.h"

/* Blocks of a request that follow each other in one tier, or are being loaded: tier -1. */
typedef struct TierRun {
  int32_t tier;
  int64_t from, to; // on the GPUs
} TierRun;

/* The blocks of a tier, as of now. */
HostCache *tier_blocks(const Simulation *self, const Connector *connector, int32_t tier);
/* Of a request's block `i` the key, or that of the longer block, of `unit`, that it is in. */
uint64_t tier_key(const Simulation *self, const Instance *instance, RequestIx request, int64_t i,
                  int64_t unit);
/* Finds blocks of a prompt from `from` to `most` on that follow each other, as Connector.found; a
 * last one that is not full is never there. Whether some are being loaded for another request. */
bool tier_runs_find(Simulation *self, const Instance *instance, RequestIx request, int64_t from,
                    int64_t most);
/* Leaves the runs with which the prompt behind its first `hits` tokens is there soonest, as links
 * are now and if steps had nothing else to compute; of those alike the most. */
void tier_runs_keep_fastest(const Simulation *self, const Instance *instance, RequestIx request,
                            int64_t hits);
/* The end of the last one, or `otherwise`. */
int64_t tier_runs_end(const Connector *connector, int64_t otherwise);
/* Blocks of its tier that a run reads. */
int64_t tier_run_blocks(const KvStore *store, const TierRun *run);
/* Seconds that the network link of an instance takes for them. */
double tier_nic_seconds(const Instance *instance, int64_t bytes);
#endif
