/* Where the time of each request goes: its parts, by cause (metrics.def, REQUEST_PART).
 *
 * Kept where SimConfig.keeps_parts says so, beside the slots. All time before `since` is booked; a
 * transition books what has passed since then to the cause of the state that is left, so that the
 * parts of a request add up to its E2E, whatever happens to it, and those up to its first token to
 * its TTFT. What the batch does for a request is booked when that leaves it, from sums of its
 * instance: iterations cost nothing here. In there it is
 *
 *   decode          its iterations as the instance would take for it alone, by its model of times
 *   decode_host     the engine's host in the iterations of decodes that it was in
 *   decode_batch    the rest of those
 *   decode_prefill  how much longer iterations were that had prefill in them; those that only had
 *   decode_stall    waiting for copies
 *   decode_ranks    how much longer steps of all attention ranks were than one of its own rank's
 *                   batch would have been, and the time between two steps of its rank
 *
 * and so for chunks, without a part for other kinds of work. No outcome hangs on any of it. */
#ifndef SIM_BOOKS_PARTS_H
#define SIM_BOOKS_PARTS_H
#include "sim/core/state.h"

/* It has arrived. */
void parts_begin(Simulation *self, RequestIx request);
/* It is a copy of another, and goes to another instance now. */
void parts_begin_copy(Simulation *self, RequestIx request);
/* It goes over to another state. */
void parts_enter(Simulation *self, RequestIx request, RequestState to);
/* From now on it waits for another reason. */
void parts_wait(Simulation *self, RequestIx request, Cause cause);
/* If it waits for prefill: from now on it is held for prompts of other attention ranks, or not. */
void parts_held(Simulation *self, RequestIx request, bool held);
/* A chunk of `tokens` of it, after `past` others, ends with the iteration of its instance; if it is
 * the `last` it makes a token. */
void parts_chunk_ended(Simulation *self, const Instance *instance, RequestIx request,
                       int64_t tokens, int64_t past, bool last);
/* What is computed of its prompt is lost. */
void parts_lost(Simulation *self, RequestIx request);
/* It was lost with an instance: all time since it reached the router was for nothing. */
void parts_begin_anew(Simulation *self, RequestIx request);
/* It has its first token from the instance that decodes it: all until now was before that. */
void parts_first_delivered(Simulation *self, RequestIx request);
/* Its KV begins to move, or what is left of it, which takes `ticks` over links of its own. */
void parts_moves(Simulation *self, RequestIx request, Tick ticks);
/* An iteration of the instance was broken off by its failure. */
void parts_broken_off(Simulation *self, const Instance *instance);
/* It joins the batch with the iteration that begins; it leaves with `tokens` made. */
void parts_joined(Simulation *self, const Instance *instance, RequestIx request);
void parts_left(Simulation *self, const Instance *instance, RequestIx request, int64_t tokens);

/* An iteration with prefill begins, which takes `ticks` but for copies; it ends, or a run does. */
void parts_prefills_begin(Simulation *self, const Instance *instance, const BatchShape *shape,
                          Tick ticks);
void parts_iterations_end(Simulation *self, const Instance *instance, bool prefills);

/* Books are in order: of every request all time is booked, once. */
void parts_audit(const Simulation *self);
#endif
