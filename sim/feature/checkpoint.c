/* See checkpoint.h. */
#include "sim/feature/checkpoint.h"
#include "sim/core/transfers.h"
#include <assert.h>

/* Of a request: nothing, on its way, or there. */
struct Checkpoint {
  uint64_t id;         // of the request; another's slot is nothing
  int64_t bytes;       // that it takes in the store; 0: nothing
  TransferIx transfer; // on its way; TRANSFER_NONE: there
};

static Checkpoint *find(const Engine *self, RequestIx ix) {
  if (ix >= self->n_checkpoints) return NULL;
  Checkpoint *checkpoint = &self->checkpoints[ix];
  return checkpoint->bytes > 0 && checkpoint->id == self->requests.slots[ix].id ? checkpoint : NULL;
}

/* Room for all slots of requests; of new ones there is nothing. */
static void reserve(Engine *self) {
  ARENA_RESERVE(self->arena, self->checkpoints, self->checkpoints_capacity, self->requests.n_slots);
  for (; self->n_checkpoints < self->requests.n_slots; self->n_checkpoints++)
    self->checkpoints[self->n_checkpoints] = (Checkpoint){.transfer = TRANSFER_NONE};
}

void checkpoint_save(Engine *self, const Machine *machine, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const int64_t capacity = self->config->checkpoint.capacity;
  const int64_t bytes = request->prompt_tokens * machine->pool->kv_bytes_per_token;
  if (request->output_tokens == 1 || machine->group || request_leaves(request)) return;
  if (find(self, ix) || (capacity > 0 && self->checkpoint_bytes + bytes > capacity)) return;
  reserve(self);
  const TransferIx slot = transfers_take(self);
  self->transfers.slots[slot] = (Transfer){.request = ix,
                                           .from = machine->ix,
                                           .to = engine_checkpoint_store(self),
                                           .stage = TRANSFER_SAVES,
                                           .began_at = self->now};
  self->checkpoints[ix] = (Checkpoint){.id = request->id, .bytes = bytes, .transfer = slot};
  self->checkpoint_bytes += bytes;
  transfers_move(self, slot, bytes);
}

void checkpoint_saved(Engine *self, TransferIx slot) {
  const Transfer *transfer = &self->transfers.slots[slot];
  const Request *request = &self->requests.slots[transfer->request];
  Checkpoint *checkpoint = find(self, transfer->request);
  assert(checkpoint && checkpoint->transfer == slot);
  transfers_stop(self, slot);
  engine_log(self, OUTCOME_CHECKPOINT, request, transfer->from, checkpoint->bytes, 0);
  Metrics *metrics = engine_books(self, request);
  metrics->checkpoints++;
  metrics->checkpoint_bytes += checkpoint->bytes;
  checkpoint->transfer = TRANSFER_NONE;
  transfers_release(self, slot);
}

bool checkpoint_is_ready(const Engine *self, RequestIx ix) {
  const Checkpoint *checkpoint = find(self, ix);
  return checkpoint && checkpoint->transfer == TRANSFER_NONE;
}

void checkpoint_forget(Engine *self, RequestIx ix) {
  Checkpoint *checkpoint = find(self, ix);
  if (!checkpoint) return;
  const TransferIx slot = checkpoint->transfer;
  self->checkpoint_bytes -= checkpoint->bytes;
  *checkpoint = (Checkpoint){.transfer = TRANSFER_NONE};
  if (slot == TRANSFER_NONE) return;
  transfers_stop(self, slot);
  transfers_release(self, slot);
}

void checkpoint_lose(Engine *self, const Machine *machine) {
  for (RequestIx ix = 0; ix < self->n_checkpoints; ix++) {
    const Checkpoint *checkpoint = find(self, ix);
    if (!checkpoint || checkpoint->transfer == TRANSFER_NONE) continue;
    if (self->transfers.slots[checkpoint->transfer].from == machine->ix)
      checkpoint_forget(self, ix);
  }
}

void checkpoint_audit(const Engine *self) {
  int64_t bytes = 0;
  for (RequestIx ix = 0; ix < self->n_checkpoints; ix++) {
    const Checkpoint *checkpoint = &self->checkpoints[ix];
    if (checkpoint->bytes == 0) continue;
    assert(self->requests.slots[ix].state != REQUEST_FREE && find(self, ix));
    bytes += checkpoint->bytes;
    if (checkpoint->transfer == TRANSFER_NONE) continue;
    const Transfer *transfer = &self->transfers.slots[checkpoint->transfer];
    assert(transfer->stage == TRANSFER_SAVES && transfer->request == ix);
    assert(transfers_moves(self, checkpoint->transfer));
  }
  const int64_t capacity = self->config->checkpoint.capacity;
  assert(bytes == self->checkpoint_bytes && (capacity == 0 || bytes <= capacity));
}
