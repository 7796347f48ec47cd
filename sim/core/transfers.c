/* See transfers.h. */
#include "sim/core/transfers.h"
#include "sim/core/limits.h"
#include <assert.h>

TransferIx transfers_take(Simulation *self) {
  TransferTable *table = &self->transfers;
  TransferIx ix = table->first_free;
  table->n_taken++;
  if (ix != TRANSFER_NONE) {
    table->first_free = table->slots[ix].next_free;
    return ix;
  }
  ix = (TransferIx)table->n_slots++;
  ARENA_RESERVE(self->arena, table->slots, table->capacity, table->n_slots);
  agenda_reserve(&self->agenda, EVENT_TRANSFER, (uint32_t)table->n_slots);
  links_reserve(&self->links, (uint32_t)table->n_slots);
  return ix;
}

void transfers_release(Simulation *self, TransferIx ix) {
  assert(!transfers_moves(self, ix));
  self->transfers.n_taken--;
  self->transfers.slots[ix].next_free = self->transfers.first_free;
  self->transfers.first_free = ix;
}

bool transfers_moves(const Simulation *self, TransferIx ix) {
  return self->links.flows[ix].active;
}

void transfers_follow(Simulation *self) {
  for (size_t i = 0; i < self->links.n_changed; i++) {
    const FlowIx flow = self->links.changed[i];
    if (self->links.flows[flow].rate == 0) { // it waits for a NIC that is down
      agenda_clear(&self->agenda, EVENT_TRANSFER, flow);
      continue;
    }
    if (sim_passes_the_end(self, links_left_ticks(&self->links, flow))) return;
    agenda_set(&self->agenda, EVENT_TRANSFER, flow, links_finish(&self->links, flow));
  }
}

void transfers_move(Simulation *self, TransferIx ix, int64_t bytes) {
  const Transfer *transfer = &self->transfers.slots[ix];
  if (transfers_moves(self, ix))
    links_add(&self->links, ix, bytes, self->now);
  else
    links_begin(&self->links, ix, transfer->from, transfer->to, bytes, self->now);
  transfers_follow(self);
}

int64_t transfers_stop(Simulation *self, TransferIx ix) {
  agenda_clear(&self->agenda, EVENT_TRANSFER, ix);
  const int64_t left = links_end(&self->links, ix, self->now);
  transfers_follow(self);
  return left;
}
