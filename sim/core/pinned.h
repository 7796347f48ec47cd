/* The second stage of a copy out of a group's GPUs (Seesaw §5.2): memory that processes share
 * cannot be pinned, so KV goes from the GPUs to pinned memory, which overlaps with iterations, and
 * from there to the shared store, which the CPU copies while the GPUs go on.
 *
 * The second stages follow each other in the order of the first, each over `bandwidth`. A first
 * stage can begin when pinned memory has room for its bytes beside those that are not copied on;
 * one that is larger than all of it, when nothing is there. */
#ifndef SIM_CORE_PINNED_H
#define SIM_CORE_PINNED_H
#include "base/arena.h"
#include "base/units.h"
#include <stdint.h>

/* KV that is on its way to pinned memory or there, until it is in the store. */
typedef struct PinnedCopy {
  int64_t bytes;
  Tick end;
} PinnedCopy;

typedef struct PinnedMemory {
  int64_t size;      // bytes; 0: any number
  int64_t bandwidth; // bytes/s from there to the store; 0: there is no second stage
  PinnedCopy *items; // in order of their ends
  size_t first, last, capacity;
  Tick free_at;      // the last second stage ends
  Tick *readable_at; // by slot of a request: it is in the store
  size_t n_readable;
} PinnedMemory;

/* When the first stage of a copy of `bytes` can begin that is queued now. */
Tick pinned_room_at(PinnedMemory *self, int64_t bytes, Tick now);
/* The ticks of its second stage. */
double pinned_ticks(const PinnedMemory *self, int64_t bytes);
/* The KV of the request in `slot` is in pinned memory at `end`, and in the store when this says. */
Tick pinned_pass_on(PinnedMemory *self, uint32_t slot, int64_t bytes, Tick end, Arena *arena);
/* Nothing is on its way any more. */
void pinned_drop(PinnedMemory *self);
#endif
