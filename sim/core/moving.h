/* KV transfers between instances (transfer.h). */
#ifndef SIM_CORE_MOVING_H
#define SIM_CORE_MOVING_H
#include "sim/core/state.h"

/* A chunk of a prefill that decodes elsewhere has ended, not the last: its KV moves if that goes
 * by chunks and the receiver has room. */
void sim_offer_chunk(Simulation *self, RequestIx request);
/* The last chunk of a prefill that decodes elsewhere begins: all of its KV but the last layer moves
 * if that goes by layers and the receiver has room. */
void sim_offer_layers(Simulation *self, RequestIx request);
/* That prefill has ended. */
void sim_begin_transfer(Simulation *self, RequestIx request);
/* The KV of a request that waits for it in its state begins to come out of the checkpoint store,
 * when the instance that decodes it has room. */
void sim_restore(Simulation *self, RequestIx request);
void sim_handle_transfer(Simulation *self, uint32_t transfer);
/* Blocks were given back on an instance: begins transfers that waited for room there, in order. */
void sim_admit_inbound(Simulation *self, Instance *instance);
/* A request leaves: true when nothing of its KV moves any more. What is on its way of a prefill
 * that goes on no more is stopped; a transfer after prefill that does not wait for room goes on
 * unless it is stopped `at_once`, discards the KV when it is across, and has the request leave
 * then: false. */
bool sim_abandon_transfer(Simulation *self, RequestIx request, bool at_once);
/* Nothing is pending and requests are left: senders and receivers wait for each other's memory.
 * A prefill that is stuck gives back the room it has at its receiver; if there is none, the first
 * in line gives up its KV and is prefilled again where it will be decoded. False when neither can
 * be done. */
bool sim_break_deadlock(Simulation *self);
/* An instance's NIC is so many times as slow as it should be; 0: it is down. */
void sim_change_nic(Simulation *self, InstanceIx instance, double factor);
/* An instance has failed: what moves from it or to it goes on no more until it is abandoned. */
void sim_hold_up_transfers(Simulation *self, InstanceIx instance);
#endif
