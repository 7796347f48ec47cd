/* The blocks of the prompts that are active on each instance, as a router books them: how many
 * different ones there are, and how many of a prompt's first ones are among them.
 *
 * Content is kept by segment (core/content.h): an instance has ranges of a segment's blocks, each
 * with the number of prompts that have it, so costs go by segments, however small a block is. A
 * block belongs to the segment in which it ends. */
#ifndef SIM_ROUTER_ACTIVE_BLOCKS_H
#define SIM_ROUTER_ACTIVE_BLOCKS_H
#include "base/key_map.h"
#include "sim/core/content.h"
#include "sim/core/request.h"

/* Blocks from one on up to another that prompts have. */
typedef struct BlockRange {
  int64_t from, to;
  uint32_t n_prompts;
  uint32_t next; // of the same segment there, none before it; or the next free one
} BlockRange;

/* An instance with blocks of a segment. */
typedef struct SegmentHolder {
  uint64_t segment, name; // of the segment, and of both
  InstanceIx instance;
  uint32_t first;          // its ranges
  uint32_t next, previous; // that have the segment; or the next free one
} SegmentHolder;

typedef struct ActiveBlocks {
  Arena *arena;
  KeyMap segments; // to the first that has it
  KeyMap names;    // to the holder
  SegmentHolder *holders;
  BlockRange *ranges;
  size_t holders_capacity, ranges_capacity;
  uint32_t n_holders, n_ranges, free_holder, free_range;
  int64_t *n_blocks; // [n_instances] different ones
  int64_t *runs;     // [n_instances] of the last match
  InstanceIx *some;  // [n_some] instances that have any there
  uint32_t n_some;
} ActiveBlocks;

void active_blocks_init(ActiveBlocks *self, uint32_t n_instances, Arena *arena);
/* The first `n` blocks of a prompt are active on an instance, or, once they were, are no more. */
void active_blocks_add(ActiveBlocks *self, InstanceIx instance, const Content *content,
                       int64_t block_size, int64_t n);
void active_blocks_remove(ActiveBlocks *self, InstanceIx instance, const Content *content,
                          int64_t block_size, int64_t n);
/* How many of the first `n` blocks of a prompt, from the first on, are active on each instance
 * whose blocks have this size: by instance, until the next match. */
const int64_t *active_blocks_match(ActiveBlocks *self, const Content *content, int64_t block_size,
                                   int64_t n);
#endif
