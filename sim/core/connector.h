/* KV connectors of instances that are scheduled step by step: what a scheduler does for KV that
 * comes from elsewhere or goes there (RULES.md, "KV connectors").
 *
 * A request whose KV is loaded holds blocks for it and waits at the head of its instance's
 * `prefill_queue`, before all that wait for admission; Request.loading says how far it is. Loads
 * and stores are jobs, which follow each other on one link each way. A scheduler hears of those
 * that have ended as a step ends, or by an event of its own while it has no step. */
#ifndef SIM_CORE_CONNECTOR_H
#define SIM_CORE_CONNECTOR_H
#include "sim/core/connector_jobs.h"
#include "sim/core/decision.h"

/* Request.loading. */
typedef enum Loading {
  LOADING_NONE,
  LOADING_RUNS, // its load is under way
  LOADING_DONE, // that has ended, which no decision has looked at
  LOADING_USED, // it may be admitted with the KV
} Loading;

/* Gives an instance its connector, if its scheduler has one. */
void connector_start(Simulation *self, Instance *instance);
/* Whether blocks of a request that leaves stay taken while a step that runs has it, which is why
 * none of a running step gives way. */
bool connector_defers(const Instance *instance);
/* Whether the step that runs has the request. */
bool connector_computes(const Instance *instance, RequestIx request);
/* Tokens behind its first `hits` that can be loaded for one that waits; -1: the same blocks are
 * being loaded, and it waits for that. */
int64_t connector_more(const Simulation *self, const Instance *instance, RequestIx request,
                       int64_t hits);
/* Blocks that prompts under way and those that load still need. */
int64_t connector_reserve(const Simulation *self, const Instance *instance);
/* The blocks that the prefix cache has evicted since then may go on to another memory. */
void connector_saves(Simulation *self, Instance *instance);
/* They are loaded into blocks that it takes, behind `hits` of the cache. */
void connector_load(Simulation *self, Instance *instance, RequestIx request, int64_t hits,
                    int64_t tokens);
/* Its load has ended and a decision looks at it: its blocks can be found. */
void connector_use(Simulation *self, Instance *instance, RequestIx request);
/* A decision ends: what the step computes of prompts is stored once it has run. */
void connector_decided(Simulation *self, Instance *instance, Step *step);
/* The present step has ended: its stores begin, and jobs that have ended are heard of. */
void connector_hears(Simulation *self, Instance *instance, Step *step);
/* So is all that was computed in it: blocks that were kept for it are free. */
void connector_ended(Simulation *self, Instance *instance, uint32_t step);
/* It leaves the scheduler, before its last token or with it (`finishes`): its blocks are kept while
 * a load writes them, a step computes them or they are sent. */
void connector_leaves(Simulation *self, Instance *instance, RequestIx request, bool finishes);
/* The instance has no step: it looks again when the next job ends, if anybody waits for one. */
void connector_idles(Simulation *self, Instance *instance);
void sim_handle_connector(Simulation *self, uint32_t target);
/* The instance has lost its memory. */
void connector_forget(Simulation *self, Instance *instance);
/* Blocks that it keeps, and their references. */
int64_t connector_kept(const Connector *self);
#endif
