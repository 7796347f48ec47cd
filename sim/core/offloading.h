/* KV of prompts in the tiers under an instance's prefix cache: what is found there, which transfers
 * load and store it, which blocks go on to the next tier (RULES.md, "KV in tiers").
 *
 * A transfer passes the link of its tier, of a tier elsewhere the network link of the instance, and
 * the link between CPU memory and the GPUs all at once, each in turn behind what waits there, and
 * ends when the last of them has carried it. */
#ifndef SIM_CORE_OFFLOADING_H
#define SIM_CORE_OFFLOADING_H
#include "sim/core/connector_jobs.h"

/* A tier of an instance under another or, with NULL, its GPUs: its own or one that it shares. */
KvStore *offloading_tier(Simulation *self, const Instance *instance, const KvStore *above,
                         const KvStoreOptions *options);
/* Gives the connector its tiers, its own ones and those that it shares. */
void offloading_start(Simulation *self, Instance *instance);
/* Tokens of a prompt behind its first `hits` that are loaded; -1: some of them are being loaded for
 * another request. */
int64_t offloading_more(const Simulation *self, const Instance *instance, RequestIx request,
                        int64_t hits);
/* Their load begins: what is read leaves its tiers or is held there. The job is to be ended with
 * offloading_loads once the request has its blocks. */
void offloading_takes(Simulation *self, Instance *instance, RequestIx request, int64_t hits,
                      int64_t tokens);
void offloading_loads(Simulation *self, Instance *instance, RequestIx request, int64_t hits,
                      int64_t tokens);
/* What the prefix cache has evicted goes to the first tier, if that takes it. */
void offloading_saves(Simulation *self, Instance *instance);
/* What a step that was decided computes of a prompt up to `computed` tokens is stored as it ends;
 * blocks that a tier has no room for are tried again with its next step. */
void offloading_stores(Simulation *self, Instance *instance, Step *step, RequestIx request,
                       int64_t computed);
/* It has ended: its stores begin. */
void offloading_steps(Simulation *self, Instance *instance, Step *step);
/* A job has ended. */
void offloading_ends(Simulation *self, Instance *instance, const ConnectorJob *job);
/* The instance has lost its memory: what its jobs and steps load and store. */
void offloading_forget(Simulation *self, Instance *instance);
/* All tiers of the run, against all jobs. Asserts. */
void offloading_audit(const Simulation *self);
#endif
