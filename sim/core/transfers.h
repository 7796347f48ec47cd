/* Slots of what is on the network, and the bytes of each over the links (link.h): KV that moves
 * between instances (moving.h), into the checkpoint store and out of it (checkpoint.c). The event
 * of a slot that moves is when the last of its bytes is across. */
#ifndef SIM_CORE_TRANSFERS_H
#define SIM_CORE_TRANSFERS_H
#include "sim/core/state.h"

/* The end of the network that the checkpoint store is. */
static inline InstanceIx transfers_store(const Simulation *self) {
  return self->n_instances;
}

/* A free slot, with no bytes. May move the slots. */
TransferIx transfers_take(Simulation *self);
void transfers_release(Simulation *self, TransferIx transfer);
/* Whether it has bytes to move. */
bool transfers_moves(const Simulation *self, TransferIx transfer);
/* Gives it `bytes` > 0 to move between its ends, or more of them. */
void transfers_move(Simulation *self, TransferIx transfer, int64_t bytes);
/* One that moves does so no more; returns the bytes that were left. */
int64_t transfers_stop(Simulation *self, TransferIx transfer);
/* A NIC's rate has changed: sets the events of all that link.h says are concerned. */
void transfers_follow(Simulation *self);
#endif
