/* The cached keeper of an instance's KV memory: blocks with references, found again by what is in
 * them, reused least recently used first, as vLLM's block pool has it.
 *
 * A block is free (nobody holds it) or held by some. One that is full may be registered under what
 * names its tokens together with all before them (content.h). A free block stays registered and can
 * be hit until it is taken for something else. Free blocks are a queue: those that are not
 * registered first, then the others in the order in which they became free. A request gives its
 * blocks back from the last to the first, so that beginnings, which more can use, stay longest. Of
 * blocks with equal content the one registered first is found; the others are kept.
 *
 * Neighbours are kept together. A run is blocks of one segment behind each other that the same
 * requests hold, or that became free together: it is registered, found, held, freed and evicted as
 * one. It is cut where somebody needs a part of it, and joined again where both parts become free
 * one after the other. Blocks that are not registered are a number. So what a request does costs
 * O(1) a run, of which it has few, however many blocks those are; blocks count only where somebody
 * listens to changes. Runs of a segment are a list, found by its id. Memory follows the most runs
 * that there were at once.
 *
 * Blocks of layers in groups (kv_groups.h) have names of their own in each group. */
#ifndef SIM_CORE_PREFIX_CACHE_H
#define SIM_CORE_PREFIX_CACHE_H
#include "sim/core/cache_runs.h"
#include "sim/core/content.h"

/* Blocks that were not found are, or that were are no more: as in CacheRun. */
typedef struct CacheChange {
  uint64_t id;
  int32_t first, n;
  bool cached;
} CacheChange;

typedef struct PrefixCache {
  Arena *arena;
  CacheRuns runs;
  int64_t n_blocks, n_free;
  int64_t block_size;          // tokens of a block of a run
  int64_t lookahead;           // tokens behind a block that its name tells too
  int64_t n_blank;             // free blocks that are not registered
  BlockIx oldest, newest;      // free runs
  int64_t n_keys, n_evictions; // blocks found; blocks that were taken for others while registered
  BlockIx *pieces;             // of what is given back
  size_t pieces_capacity;
  CacheChange *changes; // since they were last taken, where somebody wants them
  size_t n_changes, changes_capacity;
  bool tells_changes;
  uint64_t *stirred; // where `stirred_bit` says that something has changed; NULL: nobody asks
  uint64_t stirred_bit;
  uint64_t *evicted; // keys that are found no more since their blocks were taken for others, since
                     // these were last taken from here, where somebody wants them
  size_t n_evicted, evicted_capacity;
  bool keeps_evicted;
} PrefixCache;

/* Whose tokens blocks have, how many each, and for which layers: those of group 0 are named as if
 * there were no other. */
typedef struct BlockNames {
  const Content *content;
  int64_t block_size;
  uint64_t group;
} BlockNames;

/* `n` blocks from the first of a run on, and of what was cut off from it. */
typedef struct HeldRun {
  BlockIx run;
  int32_t n;
} HeldRun;

/* The blocks of a request: the first n_registered are in runs, in order, the others are not
 * registered. Where layers are in groups, see group_blocks.h. Zeroed: none. */
typedef struct HeldBlocks {
  HeldRun *runs;
  size_t capacity;
  int32_t n, n_registered, n_runs;
} HeldBlocks;

/* Blocks that were found, as in CacheRun. */
typedef struct SavedRun {
  uint64_t id;
  int32_t first, n;
} SavedRun;

/* What a cache has, from the least to the most recently used; of a run the last block is that. */
typedef struct SavedCache {
  SavedRun *runs;
  size_t capacity;
  int64_t n;
  bool given; // somebody said what it has, if only nothing
} SavedCache;

/* What it has may change from now on, or has, since somebody looked. */
static inline void prefix_cache_stir(PrefixCache *self) {
  if (self->stirred) *self->stirred |= self->stirred_bit;
}
/* `n_blocks` > 0 free blocks. */
void prefix_cache_init(PrefixCache *self, int64_t n_blocks, Arena *arena);
/* The longest run of the first `most` blocks of `content`, of `block_size` tokens, that is found;
 * of those, how many nobody holds: they would leave the free queue. */
int64_t prefix_cache_match(const PrefixCache *self, const Content *content, int64_t block_size,
                           int64_t most, int64_t *ret_unheld);
/* A request without blocks takes the first `n` blocks of its content, which are found. */
void prefix_cache_hit(PrefixCache *self, HeldBlocks *held, const Content *content,
                      int64_t block_size, int64_t n);
/* Takes `n` <= n_free blocks from the head of the queue, which are found no more. */
void prefix_cache_take(PrefixCache *self, HeldBlocks *held, int64_t n);
/* Registers those of its blocks that `tokens` fill and that are not yet. */
void prefix_cache_register(PrefixCache *self, HeldBlocks *held, const Content *content,
                           int64_t block_size, int64_t tokens);
/* Gives all of its blocks back, from the last to the first. */
void prefix_cache_release(PrefixCache *self, HeldBlocks *held);
/* The same of blocks by their names. The end of the run from block `from` on that is found, at most
 * `most`, and how many of it nobody holds. */
int64_t prefix_cache_found(const PrefixCache *self, BlockNames names, int64_t from, int64_t most,
                           int64_t *ret_unheld);
/* Whether block i is found. If not, blocks from *ret_from on up to it are not found either. */
bool prefix_cache_finds(const PrefixCache *self, BlockNames names, int64_t i, int64_t *ret_from);
/* Blocks from one on up to another, which are found, are held behind those that `held` has. */
void prefix_cache_hold(PrefixCache *self, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until);
/* The same of blocks that were taken, and are registered. */
void prefix_cache_name(PrefixCache *self, HeldBlocks *held, BlockNames names, int64_t from,
                       int64_t until);
/* Gives back the first `n` of a run, from the last to the first; it has the others. */
void prefix_cache_drop(PrefixCache *self, HeldRun *run, int64_t n);
/* Gives back `n` that are not registered. */
void prefix_cache_drop_blank(PrefixCache *self, int64_t n);
/* Free blocks are found no more. */
void prefix_cache_forget(PrefixCache *self);
/* From now on changes are told; the first ones are that all that is found is found. */
void prefix_cache_tell_changes(PrefixCache *self);
/* The blocks that are found; those that are held count as most recently used. */
void prefix_cache_save(const PrefixCache *self, SavedCache *ret_saved, Arena *arena);
/* A new one begins with the most recent of those that were saved, as many as it has blocks. */
void prefix_cache_load(PrefixCache *self, const SavedCache *saved, int64_t block_size);
/* Whether block i of what a segment names is found. */
bool prefix_cache_has(const PrefixCache *self, uint64_t id, int64_t i);
/* The books against each other; the references against `n_references`, those that requests hold.
 * Asserts. O(blocks). */
void prefix_cache_audit(const PrefixCache *self, int64_t n_references);
#endif
