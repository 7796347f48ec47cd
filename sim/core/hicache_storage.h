/* Storage under the CPU memory of a radix tree, as SGLang's HiCache has it (RULES.md, "KV in tiers,
 * as SGLang"): what is written there, and what a prompt that waits gets from there. */
#ifndef SIM_CORE_HICACHE_STORAGE_H
#define SIM_CORE_HICACHE_STORAGE_H
#include "sim/core/hicache_state.h"

/* Gives the instance its storage, its own one or one that it shares, if there is to be any. */
void hicache_start_storage(Simulation *self, Instance *instance);
/* What a node has of tokens from `from` on is in CPU memory from `ready` on: pages that are not in
 * storage are written there. */
void hicache_store(Simulation *self, Instance *instance, RadixIx node, int64_t from, Tick ready);
/* A request begins to wait: pages that storage has of it, behind those in memory, begin to come. */
void hicache_fetch(Simulation *self, Instance *instance, RequestIx request);
/* Whether one that waits may be tried, by the policy; then what has come of it is in the tree. */
bool hicache_has_fetched(Simulation *self, Instance *instance, RequestIx request);
/* When one that waits may next be tried that may not now; TICK_MAX: there is none. */
Tick hicache_next_fetched(const Simulation *self, const Instance *instance);
/* A request waits no more; REQUEST_NONE: none does. */
void hicache_forget_fetch(Instance *instance, RequestIx request);
/* Pages in CPU memory that are kept for what comes. */
int64_t hicache_reserved(const HiCache *hicache);
#endif
