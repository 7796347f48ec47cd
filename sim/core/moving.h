/* KV transfers between machines (transfer.h). */
#ifndef SIM_CORE_MOVING_H
#define SIM_CORE_MOVING_H
#include "sim/core/state.h"

/* A chunk of a prefill that decodes elsewhere has ended, not the last: its KV moves if that goes
 * by chunks and the receiver has room. */
void engine_offer_chunk(Engine *self, RequestIx request);
/* The last chunk of a prefill that decodes elsewhere begins: all of its KV but the last layer moves
 * if that goes by layers and the receiver has room. */
void engine_offer_layers(Engine *self, RequestIx request);
/* That prefill has ended. */
void engine_begin_transfer(Engine *self, RequestIx request);
/* The KV of a request that waits for it in its state begins to come out of the checkpoint store,
 * when the machine that decodes it has room. */
void engine_restore(Engine *self, RequestIx request);
void engine_handle_transfer(Engine *self, uint32_t transfer);
/* Blocks were given back on a machine: begins transfers that waited for room there, in order. */
void engine_admit_inbound(Engine *self, Machine *machine);
/* A request leaves: true when nothing of its KV moves any more. What is on its way of a prefill
 * that goes on no more is stopped; a transfer after prefill that does not wait for room goes on
 * unless it is stopped `at_once`, discards the KV when it is across, and has the request leave
 * then: false. */
bool engine_abandon_transfer(Engine *self, RequestIx request, bool at_once);
/* Nothing is pending and requests are left: senders and receivers wait for each other's memory.
 * A prefill that is stuck gives back the room it has at its receiver; if there is none, the first
 * in line gives up its KV and is prefilled again where it will be decoded. False when neither can
 * be done. */
bool engine_break_deadlock(Engine *self);
/* A machine's NIC is so many times as slow as it should be; 0: it is down. */
void engine_change_nic(Engine *self, MachineIx machine, double factor);
/* A machine has failed: what moves from it or to it goes on no more until it is abandoned. */
void engine_hold_up_transfers(Engine *self, MachineIx machine);
#endif
