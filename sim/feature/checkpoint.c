/* KV checkpoints (Splitwise §IV-E): what a prefill has made is copied to an in-memory database, so
 * that a request which is lost with an instance later begins with its decode, elsewhere.
 *
 * The store is one more end of the network, of `bandwidth` in each direction, shared by all who
 * write and read like any instance's NIC (link.h). As the first token of a request is made, the KV
 * of its whole prompt begins to move there from the instance that made it, beside whatever else
 * moves; a copy of it lies in that instance's CPU memory, so no block waits for it, but the
 * instance must not fail meanwhile. What finds no place in `capacity` is not written. It lies there
 * until the request ends, and the store does not fail.
 *
 * A request that was lost and whose KV is there needs no prefill: on the instance that decodes it,
 * it waits for room (Instance.inbound), its KV is read (moving.h), and with that its client has the
 * first token again. If the KV is not there in full by then, what was written is given up, and the
 * prompt is computed as ever. */
#include "sim/core/counting.h"
#include "sim/core/transfers.h"
#include "sim/feature/features.h"
#include <assert.h>

/* Of a request: nothing, on its way, or there. */
typedef struct Checkpoint {
  uint64_t id;         // of the request; another's slot is nothing
  int64_t bytes;       // that it takes in the store; 0: nothing
  TransferIx transfer; // on its way; TRANSFER_NONE: there
} Checkpoint;

typedef struct Store {
  Checkpoint *checkpoints; // [n] by slot, as far as any was saved
  size_t n, capacity;
  int64_t bytes; // in it or booked there
} Store;

static Store *store(const Simulation *self) {
  return self->feature_states[FEATURE_checkpoint];
}

static Checkpoint *find(const Simulation *self, RequestIx ix) {
  if (ix >= store(self)->n) return NULL;
  Checkpoint *checkpoint = &store(self)->checkpoints[ix];
  return checkpoint->bytes > 0 && checkpoint->id == self->requests.slots[ix].id ? checkpoint : NULL;
}

/* Room for all slots of requests; of new ones there is nothing. */
static void reserve(Simulation *self) {
  Store *all = store(self);
  ARENA_RESERVE(self->arena, all->checkpoints, all->capacity, self->requests.n_slots);
  for (; all->n < self->requests.n_slots; all->n++)
    all->checkpoints[all->n] = (Checkpoint){.transfer = TRANSFER_NONE};
}

static void save(Simulation *self, const Instance *instance, RequestIx ix) {
  const Request *request = &self->requests.slots[ix];
  const int64_t capacity = self->config->checkpoint.capacity;
  const int64_t bytes = pool_kv_bytes(instance->pool, request->prompt_tokens);
  if (request->output_tokens == 1 || instance->group || request_leaves(request)) return;
  if (find(self, ix) || (capacity > 0 && store(self)->bytes + bytes > capacity)) return;
  reserve(self);
  const TransferIx slot = transfers_take(self);
  self->transfers.slots[slot] = (Transfer){.request = ix,
                                           .from = instance->ix,
                                           .to = transfers_store(self),
                                           .stage = TRANSFER_SAVES,
                                           .began_at = self->now};
  store(self)->checkpoints[ix] = (Checkpoint){.id = request->id, .bytes = bytes, .transfer = slot};
  store(self)->bytes += bytes;
  transfers_move(self, slot, bytes);
}

static void end_saving(Simulation *self, TransferIx slot) {
  const Transfer *transfer = &self->transfers.slots[slot];
  const Request *request = &self->requests.slots[transfer->request];
  Checkpoint *checkpoint = find(self, transfer->request);
  assert(checkpoint && checkpoint->transfer == slot);
  transfers_stop(self, slot);
  sim_log(self, OUTCOME_CHECKPOINT, request, transfer->from, checkpoint->bytes, 0);
  Metrics *metrics = sim_books(self, request);
  metrics->checkpoints++;
  metrics->checkpoint_bytes += checkpoint->bytes;
  checkpoint->transfer = TRANSFER_NONE;
  transfers_release(self, slot);
}

static bool is_ready(const Simulation *self, RequestIx ix) {
  const Checkpoint *checkpoint = find(self, ix);
  return checkpoint && checkpoint->transfer == TRANSFER_NONE;
}

/* What there is of it in the store or on its way there goes. */
static void forget(Simulation *self, RequestIx ix) {
  Checkpoint *checkpoint = find(self, ix);
  if (!checkpoint) return;
  const TransferIx slot = checkpoint->transfer;
  store(self)->bytes -= checkpoint->bytes;
  *checkpoint = (Checkpoint){.transfer = TRANSFER_NONE};
  if (slot == TRANSFER_NONE) return;
  transfers_stop(self, slot);
  transfers_release(self, slot);
}

/* One that is placed computes its prompt, and so saves it anew, unless it is read. */
static void forget_unready(Simulation *self, RequestIx ix) {
  if (!is_ready(self, ix)) forget(self, ix); // not in time
}

/* All that is on its way there from an instance goes: that is away. */
static void lose(Simulation *self, Instance *instance) {
  for (RequestIx ix = 0; ix < store(self)->n; ix++) {
    const Checkpoint *checkpoint = find(self, ix);
    if (!checkpoint || checkpoint->transfer == TRANSFER_NONE) continue;
    if (self->transfers.slots[checkpoint->transfer].from == instance->ix) forget(self, ix);
  }
}

/* Books and links agree. */
static void check(const Simulation *self) {
  int64_t bytes = 0;
  for (RequestIx ix = 0; ix < store(self)->n; ix++) {
    const Checkpoint *checkpoint = &store(self)->checkpoints[ix];
    if (checkpoint->bytes == 0) continue;
    assert(self->requests.slots[ix].state != REQUEST_FREE && find(self, ix));
    bytes += checkpoint->bytes;
    if (checkpoint->transfer == TRANSFER_NONE) continue;
    const Transfer *transfer = &self->transfers.slots[checkpoint->transfer];
    assert(transfer->stage == TRANSFER_SAVES && transfer->request == ix);
    assert(transfers_moves(self, checkpoint->transfer));
  }
  const int64_t capacity = self->config->checkpoint.capacity;
  assert(bytes == store(self)->bytes && (capacity == 0 || bytes <= capacity));
}

static bool is_used(const Simulation *self) {
  return self->config->checkpoint.bandwidth > 0;
}

const Feature feature_checkpoint = {
    .state_size = sizeof(Store),
    .is_used = is_used,
    .can_restore = is_ready,
    .routed = forget_unready,
    .first_token = save,
    .kv_saved = end_saving,
    .goes_away = lose,
    .slot_freed = forget,
    .audits = check,
};
