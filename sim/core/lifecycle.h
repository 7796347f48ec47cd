/* A request's life: each transition is one function, which owns its state, the queue it is in, its
 * blocks, the counters of instances and the columns that policies read.
 *
 *   arrived ──► waits prefill ◄──► prefills, a chunk at a time ──► ends prefill ──► prefilled
 *                                                                                    │
 *      finished ◄── runs ◄──► blocked, swapped ◄── waits decode ◄── moves ◄──────────┤
 *                     │                              ▲     ▲                         │
 *                     └─► waits prefill, dropped     │     └─────────────────────────┘
 *                              of a group:     fetched ◄── stored ◄── moves
 *
 * From each state a request may also be cancelled (patience.h).
 *
 * A transition moves a request from one row of `request_states` to another. A new transition is a
 * function here; a new state a row there. */
#ifndef SIM_CORE_LIFECYCLE_H
#define SIM_CORE_LIFECYCLE_H
#include "sim/core/request_states.h"

/* Its queue on the instance where it is; NULL when it is in none. */
RequestQueue *life_queue(Instance *instance, RequestState state);
/* Blocks of the store that beginning to prefill a request takes: nobody knows yet whether it will
 * end with its first token. */
static inline int64_t life_store_blocks(const Group *group, const Request *request) {
  return request->store_blocks > 0 ? 0 : group_blocks(group, request->prompt_tokens);
}

/* --- arriving and leaving the cluster */

/* A request that has arrived is placed, and waits for prefill; `decode` INSTANCE_NONE: that is
 * chosen later. */
void life_placed(Simulation *self, RequestIx request, InstanceIx prefill, InstanceIx decode);
/* It is known where a request will be decoded. */
void life_dispatched(Simulation *self, Request *request, InstanceIx decode);
/* It will be decoded elsewhere than was known; its KV is not there and does not move. */
void life_redirected(Simulation *self, Request *request, InstanceIx decode);
/* Its last token was made on `instance`: whoever keeps books is told, and its slot is free. */
void life_finished(Simulation *self, Instance *instance, RequestIx request);
/* It leaves (leaving.h), and no iteration, transfer or copy has it any more: what it holds is free,
 * whoever keeps books or waits for memory is told. `undelivered` tokens were made for it in the
 * iteration that ends, and do not count. One whose client has given up is cancelled and its slot
 * free; one that was lost is in front again, as it arrived, or is rejected. */
void life_left_early(Simulation *self, RequestIx request, int32_t undelivered);
/* It has left all instances and is no request any more: its slot is free. */
void life_release(Simulation *self, RequestIx request);
/* It waits in front of the cluster, where it is or has come back to. */
void life_awaits(Simulation *self, RequestIx request);
/* It waits to be admitted (admission.c). */
void life_held(Simulation *self, RequestIx request);
/* It will never be served; its slot is free. */
void life_rejected(Simulation *self, RequestIx request, Rejection rejected);

/* --- prefill */

/* It is planned to begin: it holds what the cache has of its prompt, which is done. */
void life_hits_held(Simulation *self, Instance *instance, RequestIx request);
/* The next `tokens` of its prefill are in the iteration that begins. */
void life_chunk_began(Simulation *self, Instance *instance, RequestIx request, int32_t tokens);
/* That iteration has ended; true when it was the last chunk. */
bool life_chunk_ended(Simulation *self, Instance *instance, RequestIx request);
/* That iteration was broken off: the chunk is not done, and it waits, ahead of the others. */
void life_chunk_broken_off(Simulation *self, Instance *instance, RequestIx request);
/* The last chunk has ended, and made a token. Afterwards it is finished, waits for decode or
 * leaves. */
void life_prefilled(Simulation *self, Instance *instance, RequestIx request);
/* It begins anew: nothing is known of where its first token will be made. */
void life_expect_no_first(Request *request);
/* It waits between chunks of its prefill and loses those it has; its place in the queue is kept. */
void life_chunks_dropped(Simulation *self, Instance *instance, RequestIx request);

/* --- from instance to instance, and to a group's store */

/* Free blocks that its prompt takes at the instance that will decode it, beside what the cache
 * there has of it. */
int64_t life_room_needed(Simulation *self, RequestIx request);
/* Room for its KV is taken there; the tokens that are there already. Given back. */
int64_t life_room_taken(Simulation *self, RequestIx request);
void life_room_given(Simulation *self, RequestIx request);
/* So many tokens that were made of it are the end of its prompt from now on. */
void life_made_is_prompt(Simulation *self, RequestIx request, int32_t tokens);
/* It runs, or would, on an instance between iterations, and will go on elsewhere: what was made of
 * it but for the newest token becomes the end of its prompt, and it is as one that `from` has
 * prefilled for `to`. Not where its layers are in groups or a radix tree keeps its pages. */
void life_flows(Simulation *self, Instance *from, RequestIx request, InstanceIx to);
/* A request that is to be placed is cut after so many of its tokens, short of its last but one:
 * until its first part has ended, that is all of it. The second runs on `to`. */
void life_cut(Simulation *self, RequestIx request, int32_t tokens, InstanceIx to);
/* Its first part has ended on `from`: in its prompt with the chunk that ended, in its output as it
 * leaves the batch or its prefill, which makes the part's last token. It is as one that `from` has
 * prefilled for the other instance. */
void life_first_part_ended(Simulation *self, Instance *from, RequestIx request);
/* One that was cut in its prompt is on the instance that goes on with it, ahead of those there that
 * have not begun; or waits there without KV, as life_returned has it. */
void life_second_part_waits(Simulation *self, RequestIx request);
/* It is no longer cut: it is all there is of it from now on. */
void life_made_whole(Simulation *self, RequestIx request);
/* It is prefilled, and its KV leaves `from`, which holds it until that is released. */
void life_left(Simulation *self, Instance *from, RequestIx request);
/* What `from` held of it is free. */
void life_released(Simulation *self, Instance *from, RequestIx request);
/* Its KV, for which room was taken, is on the instance that decodes it. */
void life_arrived(Simulation *self, RequestIx request);
/* Its KV is in the checkpoint store, and will be read on `to`, which decodes it. */
void life_restores(Simulation *self, RequestIx request, InstanceIx to);
/* It is there, for which room was taken at `began_at`, and with it the first token. */
void life_restored(Simulation *self, RequestIx request, Tick began_at);
/* It gives up moving: the promise at the instance that decodes it ends, and it is prefilled again
 * there. */
void life_returned(Simulation *self, RequestIx request);
/* Its KV, of `tokens`, is in its group's store instead of on `from`. */
void life_stored(Simulation *self, Instance *from, RequestIx request);
/* Its KV begins to come out of the store, and takes its blocks on `to`, which decodes it. */
void life_fetched(Simulation *self, Instance *to, RequestIx request);
/* It has a place in the store for `tokens` of KV. */
void life_store_booked(Group *group, Request *request, int64_t tokens);

/* --- step by step, in `running` */

/* It is admitted from those that wait, its first `hits` tokens found in the cache. */
void life_scheduled(Simulation *self, Instance *instance, RequestIx request, int64_t hits);
/* It takes blocks for its first `tokens`, of which its instance's cache has `hits`, and the KV of
 * the others is on its way there. */
void life_loads(Simulation *self, Instance *instance, RequestIx request, int64_t hits,
                int64_t tokens);
/* First in line, it finds no room in the instance's KV memory. */
void life_found_no_room(Simulation *self, Instance *instance, RequestIx request);
/* The next `tokens` of its prefill, whose blocks it holds, are in a decided step. */
void life_chunk_decided(Simulation *self, Instance *instance, RequestIx request, int32_t tokens);
/* A step with a chunk of it begins; one with a decode. */
void life_prefill_began(Simulation *self, const Instance *instance, Request *request);
void life_decode_began(Simulation *self, const Instance *instance, Request *request);
/* A step has made a token of it, which goes on here or was preempted meanwhile; of a prefill, or of
 * one not in the batch. */
void life_generates(Simulation *self, Instance *instance, RequestIx request);
/* It loses its KV and waits before `next`. `evicted`: a prefill has made a token of it, and another
 * one will make its next. */
void life_preempted(Simulation *self, Instance *instance, RequestIx request, RequestIx next,
                    bool evicted);
/* The step that ran when it was preempted so has made all its tokens: nothing is computed again. */
void life_ends_preempted(Simulation *self, RequestIx request);

/* --- decode */

/* It is prefilled where it is decoded. */
void life_waits_decode(Simulation *self, Instance *instance, RequestIx request);
/* It joins the batch, from `decode_queue`, `blocked` or `swapped`. */
void life_admitted(Simulation *self, Instance *instance, RequestIx request);
/* It leaves the batch and keeps its KV. */
void life_blocked(Simulation *self, Instance *instance, RequestIx request);
/* It gives up its blocks on an instance between iterations: its KV goes to CPU memory when the tier
 * swaps and there is room, or is dropped and the request queued again. One between chunks of its
 * prefill, whose transfer has not begun, begins that again in its place. */
void life_gave_way(Simulation *self, Instance *instance, RequestIx request);
#endif
