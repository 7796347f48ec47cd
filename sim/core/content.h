/* What a request's tokens are, as far as others may have the same: its beginnings, by name.
 *
 * Text and tokens never exist. A request is a list of segments (traces/trace.h); tokens past the
 * last are its own. A beginning is named by the segment in which it ends, and by its length: equal
 * keys are equal beginnings, whatever the block size of traces and engines, and whatever segments
 * come before (an id says what all tokens before its end are). */
#ifndef SIM_CORE_CONTENT_H
#define SIM_CORE_CONTENT_H
#include "base/arena.h"
#include "base/hash.h"
#include "traces/trace.h"
#include <stdbool.h>

typedef struct Content {
  TraceSegment *segments; // the last one ends at INT32_MAX
  size_t capacity;
  int32_t n_segments;
  int32_t own_from; // tokens from here on are the request's alone, and of copies of it
} Content;

/* As the row has it, and then the request's own, named by its id or another number that no other
 * has. Memory is reused. */
void content_set(Content *self, const TraceRow *row, uint64_t request_id, Arena *arena);
/* KV of a request with an adapter is of no use with another, or none: 0. */
void content_adapt(Content *self, uint32_t adapter);
/* Encoder inputs are in its prompt: what begins with other ones is another beginning. */
void content_mark(Content *self, const TraceInput *inputs, int32_t n, Arena *arena);
/* Those of another request. */
void content_copy(Content *self, const Content *other, Arena *arena);
/* The segment that token `last` >= 0 is in. */
int32_t content_segment(const Content *self, int64_t last);
/* The key of the first `tokens` > 0 of what a segment names; it is not 0. */
static inline uint64_t content_key_of(uint64_t id, int64_t tokens) {
  const uint64_t key = hash_fold(hash_mix(id), (uint64_t)tokens);
  return key + (key == 0);
}
/* That of the first `tokens` of a content. */
uint64_t content_key(const Content *self, int64_t tokens);
#endif
