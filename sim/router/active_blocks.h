/* The blocks of the prompts that are active on each instance, as a router books them: how many
 * different ones there are, and how many of a prompt's first ones are among them.
 *
 * An instance has a range for each part of a prompt that ends in a segment (segment_holders.h),
 * with the number of prompts that have just that part. */
#ifndef SIM_ROUTER_ACTIVE_BLOCKS_H
#define SIM_ROUTER_ACTIVE_BLOCKS_H
#include "sim/core/segment_holders.h"

typedef struct ActiveBlocks {
  SegmentHolders of;
  int64_t *n_blocks; // [n_instances] different ones
} ActiveBlocks;

void active_blocks_init(ActiveBlocks *self, uint32_t n_instances, Arena *arena);
/* The first `n` blocks of a prompt are active on an instance, or, once they were, are no more. */
void active_blocks_add(ActiveBlocks *self, InstanceIx instance, const Content *content,
                       int64_t block_size, int64_t n);
void active_blocks_remove(ActiveBlocks *self, InstanceIx instance, const Content *content,
                          int64_t block_size, int64_t n);
/* How many of the first `n` blocks of a prompt, from the first on, are active on each instance
 * whose blocks have this size: by instance, until the next match. */
const int32_t *active_blocks_match(ActiveBlocks *self, const Content *content, int64_t block_size,
                                   int64_t n);
#endif
