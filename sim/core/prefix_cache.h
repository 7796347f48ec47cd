/* The cached keeper of an instance's KV memory: blocks with references, found again by what is in
 * them, reused least recently used first, as vLLM's block pool has it.
 *
 * A block is free (nobody holds it) or held by some. One that is full may be registered under a
 * key, which names its tokens together with all before them (content.h). A free block keeps its key
 * and can be hit until it is taken for something else. Free blocks are a queue: those without a key
 * first, then those with one in the order in which they became free. A request gives its blocks
 * back from the last to the first, so that beginnings, which more can use, stay longest. Of blocks
 * with one key the one registered first is found; the others are kept.
 *
 * Only blocks that somebody may look for need an identity. Blocks without a key are a number. A
 * block with tokens of its request alone (Content.own_from) is registered as CONTENT_OWN: it stays
 * in the queue as long as one with a key and is counted as often, but neighbours in the queue are
 * one node, a run, and a request knows how many it holds. A request that may come back has such
 * blocks named before it leaves.
 *
 * Everything costs O(1) a block with a key, and O(1) for all others of a request together. Memory
 * follows the most blocks that had a key at once. */
#ifndef SIM_CORE_PREFIX_CACHE_H
#define SIM_CORE_PREFIX_CACHE_H
#include "sim/core/content.h"

typedef uint32_t BlockIx;
#define BLOCK_NONE UINT32_MAX

/* A block that a key may find or that is held by itself, or a run of free blocks. */
typedef struct CacheBlock {
  uint64_t key;                     // 0: none; CONTENT_OWN: a run
  int32_t references;               // of a run: its blocks
  BlockIx next, previous;           // in the queue of free blocks
  BlockIx next_same, previous_same; // with this key, a ring in order of registration
} CacheBlock;

typedef struct CacheSlot {
  uint64_t key;  // 0: empty
  BlockIx first; // of its ring
} CacheSlot;

/* A key became one that is found, or is no more. */
typedef struct CacheChange {
  uint64_t key;
  bool cached;
} CacheChange;

typedef struct PrefixCache {
  Arena *arena;
  CacheBlock *blocks; // those below n_used
  size_t capacity;
  int64_t n_blocks, n_free;
  int64_t lookahead;      // tokens behind a block that its key names too
  int64_t n_blank;        // free blocks without a key
  BlockIx n_used, unused; // of `blocks`; those of them that stand for nothing, through `next`
  BlockIx oldest, newest; // free blocks with a key
  CacheSlot *slots;       // a power of two of them, linear probing
  size_t n_slots;
  int64_t n_keys, n_evictions; // keys found; blocks that lost theirs
  int64_t n_own;               // of those keys, CONTENT_OWN
  CacheChange *changes;        // since they were last taken, where somebody wants them
  size_t n_changes, changes_capacity;
  bool tells_changes;
  bool names_all;    // blocks of a request alone have keys as well: somebody looks for them
  uint64_t *evicted; // keys that are found no more since their blocks were taken for others, since
                     // these were last taken from here, where somebody wants them
  size_t n_evicted, evicted_capacity;
  bool keeps_evicted;
  bool counts; // blocks only, which are all one: nobody names any
} PrefixCache;

/* The blocks of a request, in order: the first n_named have keys, those up to n_registered are its
 * own, the others not registered. Zeroed: none. */
typedef struct HeldBlocks {
  BlockIx *blocks; // [n_named]
  size_t capacity;
  int32_t n, n_registered, n_named;
} HeldBlocks;

/* What a cache has of each key, from the least to the most recently used. */
typedef struct SavedCache {
  uint64_t *keys;
  size_t capacity;
  int64_t n;
  bool given; // somebody said what it has, if only nothing
} SavedCache;

/* `n_blocks` > 0 free blocks. */
void prefix_cache_init(PrefixCache *self, int64_t n_blocks, Arena *arena);
/* Of the first `n` blocks of `content`, how many may have a key that somebody looks for. */
int64_t prefix_cache_shared(const PrefixCache *self, const Content *content, int64_t block_size,
                            int64_t n);
/* The longest run of the first `most` blocks of `content`, of `block_size` tokens, that is found;
 * of those, how many nobody holds: they would leave the free queue. */
int64_t prefix_cache_match(const PrefixCache *self, const Content *content, int64_t block_size,
                           int64_t most, int64_t *ret_unheld);
/* A request without blocks takes the first `n` blocks of its content, which are found. */
void prefix_cache_hit(PrefixCache *self, HeldBlocks *held, const Content *content,
                      int64_t block_size, int64_t n);
/* Takes `n` <= n_free blocks from the head of the queue; keys that they have are forgotten. */
void prefix_cache_take(PrefixCache *self, HeldBlocks *held, int64_t n);
/* Registers those of its blocks that `tokens` fill and that are not yet. */
void prefix_cache_register(PrefixCache *self, HeldBlocks *held, const Content *content,
                           int64_t block_size, int64_t tokens);
/* Those that are registered as its own get their keys: it may come back. From then on `content` has
 * nothing of its own. */
void prefix_cache_name_own(PrefixCache *self, HeldBlocks *held, Content *content,
                           int64_t block_size);
/* Gives all of its blocks back, from the last to the first. */
void prefix_cache_release(PrefixCache *self, HeldBlocks *held);
/* The same of single blocks: the one that a key finds, or BLOCK_NONE; holds one that is found;
 * takes one; gives one back; has a key find one that has none. */
BlockIx prefix_cache_find(const PrefixCache *self, uint64_t key);
void prefix_cache_hold(PrefixCache *self, BlockIx block);
BlockIx prefix_cache_pop(PrefixCache *self);
void prefix_cache_drop(PrefixCache *self, BlockIx block);
void prefix_cache_name(PrefixCache *self, BlockIx block, uint64_t key);
/* Free blocks are found no more. */
void prefix_cache_forget(PrefixCache *self);
/* The blocks that are found; those that are held count as most recently used. */
void prefix_cache_save(const PrefixCache *self, SavedCache *ret_saved, Arena *arena);
/* A new one begins with the most recent of those that were saved, as many as it has blocks. */
void prefix_cache_load(PrefixCache *self, const SavedCache *saved);
/* Whether the key is found. */
bool prefix_cache_has(const PrefixCache *self, uint64_t key);
/* The books against each other; the references against `n_references`, those that requests hold.
 * Asserts. O(blocks). */
void prefix_cache_audit(const PrefixCache *self, int64_t n_references);
#endif
