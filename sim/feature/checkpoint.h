/* KV checkpoints (Splitwise §IV-E): what a prefill has made is copied to an in-memory database, so
 * that a request which is lost with a machine later begins with its decode, elsewhere.
 *
 * The store is one more end of the network, of `bandwidth` in each direction, shared by all who
 * write and read like any machine's NIC (link.h). As the first token of a request is made, the KV
 * of its whole prompt begins to move there from the machine that made it, beside whatever else
 * moves; a copy of it lies in that machine's CPU memory, so no block waits for it, but the machine
 * must not fail meanwhile. What finds no place in `capacity` is not written. It lies there until
 * the request ends, and the store does not fail.
 *
 * A request that was lost and whose KV is there needs no prefill: on the machine that decodes it,
 * it waits for room (Machine.inbound), its KV is read (moving.h), and with that its client has the
 * first token again. If the KV is not there in full by then, what was written is given up, and the
 * prompt is computed as ever. */
#ifndef SIM_FEATURE_CHECKPOINT_H
#define SIM_FEATURE_CHECKPOINT_H
#include "sim/core/state.h"

/* Whether there is a store. */
static inline bool engine_keeps_checkpoints(const Engine *self) {
  return self->config->checkpoint.bandwidth > 0;
}
/* Its end of the network. */
static inline MachineIx engine_checkpoint_store(const Engine *self) {
  return self->n_machines;
}
/* The first token of an attempt was made on `machine`. */
void checkpoint_save(Engine *self, const Machine *machine, RequestIx request);
/* The last byte of it is across. */
void checkpoint_saved(Engine *self, TransferIx transfer);
/* Whether KV of its prompt can be read. */
bool checkpoint_is_ready(const Engine *self, RequestIx request);
/* What there is of it in the store or on its way there goes. */
void checkpoint_forget(Engine *self, RequestIx request);
/* All that is on its way there from a machine goes: that is away. */
void checkpoint_lose(Engine *self, const Machine *machine);
/* Asserts that books and links agree. */
void checkpoint_audit(const Engine *self);
#endif
