/* The blocks that a request holds in one group of layers (kv_groups.h): parts in the order of its
 * tokens.
 *
 * A part is null blocks (BLOCK_NONE), which are no memory, blocks that are not registered
 * (BLOCK_BLANK), or registered ones of a run (prefix_cache.h). Null blocks come first, and are one
 * part. Neighbours that are not registered are one part as well. So what is done costs O(1) a part,
 * however many blocks that has. HeldBlocks.n counts places, those of null blocks too; those before
 * n_registered have been registered or passed over for good. */
#ifndef SIM_CORE_GROUP_BLOCKS_H
#define SIM_CORE_GROUP_BLOCKS_H
#include "sim/core/prefix_cache.h"

/* Null blocks up to a place follow; it has nothing else yet. */
void group_blocks_skip(PrefixCache *pool, HeldBlocks *held, int64_t until);
/* Blocks up to a place follow that are found. */
void group_blocks_hit(PrefixCache *pool, HeldBlocks *held, BlockNames names, int64_t until);
/* `n` free blocks follow. */
void group_blocks_take(PrefixCache *pool, HeldBlocks *held, int64_t n);
/* Blocks from one on up to another are registered, which come behind all that are. Null ones have
 * no name. */
void group_blocks_name(PrefixCache *pool, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until);
/* Null blocks take the places before `until` <= n, from the last to the first; how many blocks are
 * given back. */
int64_t group_blocks_slide(PrefixCache *pool, HeldBlocks *held, int64_t until);
/* All are given back, from the last to the first; how many. */
int64_t group_blocks_release(PrefixCache *pool, HeldBlocks *held);
/* How many there are that are no null blocks. Asserts that parts are in order. */
int64_t group_blocks_audit(const PrefixCache *pool, const HeldBlocks *held);
#endif
