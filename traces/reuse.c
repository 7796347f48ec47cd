/* See reuse.h.
 *
 * A segment's id names its tokens with all before them, so whoever has it has it at the same place,
 * and has blocks that end at the same tokens of it. How far the longest of them had it cached
 * is therefore all that need be known of it. */
#include "traces/reuse.h"
#include "sim/base/hash.h"
#include <assert.h>
#include <math.h>

void reuse_init(Reuse *self, int64_t block_size, Arena *arena) {
  assert(block_size > 0);
  *self = (Reuse){.arena = arena, .block_size = block_size};
}

/* Where a segment is or would be. */
static ReuseSlot *slot_of(const Reuse *self, uint64_t id) {
  const size_t mask = self->n_slots - 1;
  size_t i = (size_t)hash_mix(id) & mask;
  while (self->slots[i].cached_until > 0 && self->slots[i].id != id)
    i = (i + 1) & mask;
  return &self->slots[i];
}

static void grow(Reuse *self) {
  enum { LEAST = 1024 };
  const size_t n_old = self->n_slots;
  ReuseSlot *old = self->slots;
  self->n_slots = n_old > 0 ? 2 * n_old : LEAST;
  self->slots = ARENA_ARRAY(self->arena, ReuseSlot, self->n_slots);
  for (size_t i = 0; i < n_old; i++)
    if (old[i].cached_until > 0) *slot_of(self, old[i].id) = old[i];
}

/* Tokens from the start that are cached. */
static int64_t cached(const Reuse *self, const TraceRow *row) {
  int64_t until = 0;
  for (int32_t i = 0; i < row->n_segments && self->n_slots > 0; i++) {
    const ReuseSlot *slot = slot_of(self, row->segments[i].id);
    const int64_t end = row->segments[i].end;
    if (slot->cached_until > until) until = slot->cached_until < end ? slot->cached_until : end;
    if (until < end) break;
  }
  return until;
}

/* Its segments are cached as far as full blocks of the prompt end in them. */
static void enter(Reuse *self, const TraceRow *row) {
  const int64_t full = row->prompt_tokens / self->block_size * self->block_size;
  int64_t begin = 0;
  for (int32_t i = 0; i < row->n_segments && begin < full; i++) {
    if (2 * (self->n_segments + 1) > self->n_slots) grow(self);
    ReuseSlot *slot = slot_of(self, row->segments[i].id);
    const int64_t end = row->segments[i].end, until = end < full ? end : full;
    self->n_segments += slot->cached_until == 0;
    slot->id = row->segments[i].id;
    if (until > slot->cached_until) slot->cached_until = until;
    begin = end;
  }
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

int64_t reuse_add(Reuse *self, const TraceRow *row) {
  const int64_t blocks = least(cached(self, row), row->prompt_tokens - 1) / self->block_size;
  const int64_t hit = blocks * self->block_size;
  enter(self, row);
  self->n_named += row->n_segments > 0;
  self->prompt_tokens += row->prompt_tokens;
  self->hit_tokens += hit;
  return hit;
}

double reuse_share(const Reuse *self) {
  if (self->n_named == 0) return NAN;
  return (double)self->hit_tokens / (double)self->prompt_tokens;
}
