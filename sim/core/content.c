/* See content.h. */
#include "sim/core/content.h"
#include <assert.h>
#include <string.h>

void content_set(Content *self, const TraceRow *row, uint64_t request_id, Arena *arena) {
  ARENA_RESERVE(arena, self->segments, self->capacity, (size_t)row->n_segments + 1);
  int32_t end = 0;
  for (int32_t i = 0; i < row->n_segments; i++) {
    assert(row->segments[i].end > end);
    end = row->segments[i].end;
    self->segments[i] = row->segments[i];
  }
  self->n_segments = row->n_segments;
  self->own_from = end;
  if (end < INT32_MAX) {
    const uint64_t own = hash_fold(hash_mix(UINT64_C(0x6f776e)), request_id);
    self->segments[self->n_segments++] = (TraceSegment){.id = own, .end = INT32_MAX};
  }
}

void content_adapt(Content *self, uint32_t adapter) {
  for (int32_t i = 0; adapter > 0 && i < self->n_segments; i++)
    self->segments[i].id = hash_fold(hash_mix(self->segments[i].id), adapter);
}

/* Beginnings that an input is in are named by it as well, and by its place. */
void content_mark(Content *self, const TraceInput *inputs, int32_t n, Arena *arena) {
  if (n == 0) return;
  const int32_t n_before = self->n_segments;
  ARENA_RESERVE(arena, self->segments, self->capacity, (size_t)n_before + (size_t)n);
  TraceSegment *to = self->segments, *from = to + n;
  memmove(from, to, (size_t)n_before * sizeof *to);
  int32_t begin = 0, next = 0;
  uint64_t mark = 0;
  for (int32_t i = 0; i < n_before; i++) {
    TraceSegment segment = from[i];
    const uint64_t id = segment.id;
    if (next > 0) segment.id = hash_fold(hash_mix(id), mark);
    for (; next < n && inputs[next].place < segment.end; next++) {
      if (inputs[next].place > begin)
        *to++ = (TraceSegment){.id = segment.id, .end = begin = inputs[next].place};
      mark = hash_fold(hash_fold(mark, inputs[next].id), (uint64_t)inputs[next].place);
      segment.id = hash_fold(hash_mix(id), mark);
    }
    begin = segment.end;
    *to++ = segment;
  }
  self->n_segments = (int32_t)(to - self->segments);
}

void content_copy(Content *self, const Content *other, Arena *arena) {
  ARENA_RESERVE(arena, self->segments, self->capacity, (size_t)other->n_segments);
  for (int32_t i = 0; i < other->n_segments; i++)
    self->segments[i] = other->segments[i];
  self->n_segments = other->n_segments;
  self->own_from = other->own_from;
}

/* Those of traces are of one length, so that the first guess is right. */
int32_t content_segment(const Content *self, int64_t last) {
  const TraceSegment *segments = self->segments;
  int32_t low = 0, high = self->n_segments - 1;
  int32_t guess = (int32_t)(last / segments[0].end);
  for (;;) {
    if (guess > high) guess = high;
    if (guess < low) guess = low;
    if (last >= segments[guess].end)
      low = guess + 1;
    else if (guess > 0 && last < segments[guess - 1].end)
      high = guess - 1;
    else
      return guess;
    guess = low + (high - low) / 2;
  }
}

uint64_t content_key(const Content *self, int64_t tokens) {
  assert(tokens > 0 && tokens <= INT32_MAX);
  return content_key_of(self->segments[content_segment(self, tokens - 1)].id, tokens);
}
