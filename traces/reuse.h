/* What a prefix cache without an end would save of a trace: the share of prompt tokens that one
 * replica, to which all requests go in order, would find computed.
 *
 * The rule is the engine's (sim/core/prefix_cache.h): a prompt of p tokens hits the longest run of
 * its first ⌊(p − 1) / block_size⌋ blocks that prompts before it had; then its own ⌊p / block_size⌋
 * full blocks are there, at once. Outputs count as nobody's: what a trace knows of them, it names
 * in the prompts of later turns. Memory follows the segments that differ, not the blocks. */
#ifndef TRACES_REUSE_H
#define TRACES_REUSE_H
#include "base/key_map.h"
#include "traces/trace.h"

typedef struct Reuse {
  Arena *arena;
  int64_t block_size;
  KeyMap cached; // of segments: tokens of the request up to which its blocks are there
  int64_t prompt_tokens, hit_tokens; // so far
  int64_t n_named;                   // requests that have segments
} Reuse;

/* `block_size` > 0. */
void reuse_init(Reuse *self, int64_t block_size, Arena *arena);
/* The next request, in order of time. Returns how many tokens of its prompt hit. */
int64_t reuse_add(Reuse *self, const TraceRow *row);
/* Of all prompt tokens; NAN where no request has segments, so that nothing can be shared. */
double reuse_share(const Reuse *self);
#endif
