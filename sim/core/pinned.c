/* See pinned.h. */
#include "sim/core/pinned.h"
#include <string.h>

Tick pinned_room_at(PinnedMemory *self, int64_t bytes, Tick now) {
  if (self->bandwidth == 0 || self->size == 0) return now;
  while (self->first < self->last && self->items[self->first].end <= now)
    self->first++;
  int64_t held = 0;
  for (size_t i = self->first; i < self->last; i++)
    held += self->items[i].bytes;
  Tick at = now;
  for (size_t i = self->first; i < self->last && held > self->size - bytes; i++) {
    held -= self->items[i].bytes;
    at = self->items[i].end;
  }
  return at;
}

double pinned_ticks(const PinnedMemory *self, int64_t bytes) {
  if (self->bandwidth == 0) return 0;
  return (double)bytes / (double)self->bandwidth * (double)TICKS_PER_SECOND;
}

Tick pinned_pass_on(PinnedMemory *self, uint32_t slot, int64_t bytes, Tick end, Arena *arena) {
  if (self->bandwidth == 0) return end;
  if (self->first > 0 && 2 * self->first >= self->last) { // places of those that have gone on
    self->last -= self->first;
    memmove(self->items, self->items + self->first, self->last * sizeof *self->items);
    self->first = 0;
  }
  const Tick begin = end > self->free_at ? end : self->free_at;
  self->free_at = begin + tick_from_seconds((double)bytes / (double)self->bandwidth);
  ARENA_RESERVE(arena, self->items, self->capacity, self->last + 1);
  self->items[self->last++] = (PinnedCopy){bytes, self->free_at};
  ARENA_RESERVE(arena, self->readable_at, self->n_readable, (size_t)slot + 1);
  return self->readable_at[slot] = self->free_at;
}

void pinned_drop(PinnedMemory *self) {
  self->first = self->last = 0;
}
