/* See reuse.h.
 *
 * A segment's id names its tokens with all before them, so whoever has it has it at the same place,
 * and has blocks that end at the same tokens of it. How far the longest of them had it cached
 * is therefore all that need be known of it. */
#include "traces/reuse.h"
#include <assert.h>
#include <math.h>

void reuse_init(Reuse *self, int64_t block_size, Arena *arena) {
  assert(block_size > 0);
  *self = (Reuse){.arena = arena, .block_size = block_size};
}

static uint64_t key_of(const TraceSegment *segment) {
  return segment->id + (segment->id == 0);
}

/* Tokens from the start that are cached. */
static int64_t cached(const Reuse *self, const TraceRow *row) {
  int64_t until = 0;
  for (int32_t i = 0; i < row->n_segments; i++) {
    const uint32_t *found = key_map_find(&self->cached, key_of(&row->segments[i]));
    const int64_t end = row->segments[i].end;
    if (found && *found > until) until = *found < end ? *found : end;
    if (until < end) break;
  }
  return until;
}

/* Its segments are cached as far as full blocks of the prompt end in them. */
static void enter(Reuse *self, const TraceRow *row) {
  const int64_t full = row->prompt_tokens / self->block_size * self->block_size;
  int64_t begin = 0;
  for (int32_t i = 0; i < row->n_segments && begin < full; i++) {
    uint32_t *until = key_map_put(&self->cached, key_of(&row->segments[i]), self->arena);
    const int64_t end = row->segments[i].end;
    const uint32_t now = (uint32_t)(end < full ? end : full);
    if (now > *until) *until = now;
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
