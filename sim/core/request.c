/* See request.h. */
#include "sim/core/request.h"
#include <assert.h>

/* What a slot is as it is taken. */
static const Request TAKEN = {.prefill_began_at = -1,
                              .first_token_at = -1,
                              .last_token_at = -1,
                              .decode_began_at = -1,
                              .cancelled_at = -1,
                              .failed_at = -1,
                              .lost_with = INSTANCE_NONE,
                              .prefill_instance = INSTANCE_NONE,
                              .decode_instance = INSTANCE_NONE,
                              .transfer = TRANSFER_NONE,
                              .previous = REQUEST_NONE,
                              .next = REQUEST_NONE,
                              .state = REQUEST_NOWHERE};

void request_table_init(RequestTable *self, Arena *arena) {
  *self = (RequestTable){.arena = arena, .first_free = REQUEST_NONE};
}

RequestIx request_table_take(RequestTable *self) {
  RequestIx request = self->first_free;
  if (request == REQUEST_NONE) {
    request = (RequestIx)self->n_slots++;
    ARENA_RESERVE(self->arena, self->slots, self->capacity, self->n_slots);
  } else {
    self->first_free = self->slots[request].next;
  }
  self->n_live++;
  self->slots[request] = TAKEN;
  return request;
}

size_t request_table_growth(const RequestTable *self) {
  if (self->first_free != REQUEST_NONE || self->n_slots < self->capacity) return 0;
  if (self->n_slots >= REQUEST_NONE / 2) return SIZE_MAX / 2; // a slot's number would not fit
  return self->capacity * sizeof *self->slots;
}

void request_table_release(RequestTable *self, RequestIx request) {
  assert(self->slots[request].state != REQUEST_FREE);
  self->slots[request].state = REQUEST_FREE;
  self->slots[request].next = self->first_free;
  self->first_free = request;
  self->n_live--;
}

void request_queue_insert(RequestQueue *self, Request *slots, RequestIx request, RequestIx next) {
  const RequestIx previous = next == REQUEST_NONE ? self->last : slots[next].previous;
  slots[request].previous = previous;
  slots[request].next = next;
  if (previous == REQUEST_NONE)
    self->first = request;
  else
    slots[previous].next = request;
  if (next == REQUEST_NONE)
    self->last = request;
  else
    slots[next].previous = request;
  self->count++;
}

void request_queue_remove(RequestQueue *self, Request *slots, RequestIx request) {
  assert(self->count > 0);
  RequestIx previous = slots[request].previous, next = slots[request].next;
  if (previous == REQUEST_NONE)
    self->first = next;
  else
    slots[previous].next = next;
  if (next == REQUEST_NONE)
    self->last = previous;
  else
    slots[next].previous = previous;
  slots[request].previous = slots[request].next = REQUEST_NONE;
  self->count--;
}
