/* CPU memory under the radix tree of an instance, as SGLang's HiCache has it (RULES.md, "KV in
 * tiers, as SGLang"): which copies move over its host link, and what waits for them.
 *
 * The tree says what is where (radix_host.h). A copy ends at a known time; the scheduler hears of
 * it as a round begins, and until then what it writes or loads is locked. */
#ifndef SIM_CORE_HICACHE_H
#define SIM_CORE_HICACHE_H
#include "sim/core/hicache_state.h"

/* Gives an instance its tiers; if it keeps no tree, nothing. */
void hicache_start(Simulation *self, Instance *instance);
/* A round begins: it hears of copies that have ended. */
void hicache_hears(Simulation *self, Instance *instance);
/* What was found of a request in CPU memory, behind what is on the GPUs and is locked, comes to the
 * GPUs if that is worth it and there is room; tokens of it that are there then, which end in
 * RequestMemory.matched. The room that this takes is the caller's to book. */
int64_t hicache_load(Simulation *self, Instance *instance, RequestIx request);
/* Writes of nodes that were hit begin. */
void hicache_writes(Simulation *self, Instance *instance);
/* A decision ends: so do its loads, and the writes of what it has evicted. */
void hicache_decided(Simulation *self, Instance *instance, Step *step);
/* What a step that begins now lasts longer by: as layers of it wait for their loads, and all for
 * pages that are being written back. */
Tick hicache_wait(const Simulation *self, const Instance *instance, const Step *step);
/* Whether what is evicted is written first, which a decision begins and steps wait for: then less
 * room means fewer steps until one matters. */
bool hicache_writes_back(const Instance *instance);
/* Of steps of one batch those, at most `most`, until a round matters. */
int64_t hicache_watch(const Instance *instance, int64_t most);
/* The instance has no step: it looks again when the next copy ends, if anybody waits. */
void hicache_idles(Simulation *self, const Instance *instance);
/* The instance has lost its memory. */
void hicache_forget(Simulation *self, Instance *instance);
/* Pages that its copies lock, those above them too. */
int64_t hicache_kept(const Instance *instance);
/* Copies against bytes on the link. Asserts. */
void hicache_audit(const Instance *instance);
#endif
