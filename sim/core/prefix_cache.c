/* See prefix_cache.h. */
#include "sim/core/prefix_cache.h"
#include <assert.h>

void prefix_cache_init(PrefixCache *self, int64_t n_blocks, Arena *arena) {
  assert(0 < n_blocks && n_blocks < BLOCK_NONE);
  *self = (PrefixCache){.arena = arena,
                        .n_blocks = n_blocks,
                        .n_free = n_blocks,
                        .n_blank = n_blocks,
                        .unused = BLOCK_NONE,
                        .oldest = BLOCK_NONE,
                        .newest = BLOCK_NONE};
}

/* --- keys */

/* Blocks and slots are all over the memory, and waiting for it is most of what they cost: what is
 * needed so many of them later is fetched ahead. */
enum { AHEAD = 8 };

/* Where a key is first looked for. */
static size_t home_of(const PrefixCache *self, uint64_t key) {
  return (size_t)hash_mix(key) & (self->n_slots - 1);
}

static void fetch_slot(const PrefixCache *self, uint64_t key) {
  if (self->n_slots > 0) __builtin_prefetch(&self->slots[home_of(self, key)], 1);
}

/* Where a key is or would be. */
static size_t slot_of(const PrefixCache *self, uint64_t key) {
  const size_t mask = self->n_slots - 1;
  size_t i = home_of(self, key);
  while (self->slots[i].key != 0 && self->slots[i].key != key)
    i = (i + 1) & mask;
  return i;
}

BlockIx prefix_cache_find(const PrefixCache *self, uint64_t key) {
  if (self->n_slots == 0) return BLOCK_NONE;
  const CacheSlot *slot = &self->slots[slot_of(self, key)];
  return slot->key == 0 ? BLOCK_NONE : slot->first;
}

bool prefix_cache_has(const PrefixCache *self, uint64_t key) {
  return prefix_cache_find(self, key) != BLOCK_NONE;
}

/* Twice the slots, and each key put anew. */
static void grow(PrefixCache *self) {
  const size_t n_old = self->n_slots;
  CacheSlot *old = self->slots;
  self->n_slots = n_old > 0 ? 2 * n_old : 64;
  self->slots = ARENA_ARRAY(self->arena, CacheSlot, self->n_slots);
  for (size_t i = 0; i < n_old; i++)
    if (old[i].key != 0) self->slots[slot_of(self, old[i].key)] = old[i];
}

static void tell(PrefixCache *self, uint64_t key, bool cached) {
  self->n_keys += cached ? 1 : -1;
  if (!self->tells_changes) return;
  ARENA_RESERVE(self->arena, self->changes, self->changes_capacity, self->n_changes + 1);
  self->changes[self->n_changes++] = (CacheChange){key, cached};
}

void prefix_cache_name(PrefixCache *self, BlockIx ix, uint64_t key) {
  CacheBlock *block = &self->blocks[ix];
  assert(block->key == 0 && key != CONTENT_OWN);
  block->key = key;
  if (2 * (size_t)(self->n_keys - self->n_own + 1) > self->n_slots) grow(self);
  CacheSlot *slot = &self->slots[slot_of(self, key)];
  if (slot->key == 0) {
    *slot = (CacheSlot){key, ix};
    block->next_same = block->previous_same = ix;
    tell(self, key, true);
    return;
  }
  CacheBlock *first = &self->blocks[slot->first];
  block->next_same = slot->first;
  block->previous_same = first->previous_same;
  self->blocks[first->previous_same].next_same = ix;
  first->previous_same = ix;
}

/* Empties a slot; those behind it that could be nearer to their place move up. */
static void empty_slot(PrefixCache *self, size_t hole) {
  const size_t mask = self->n_slots - 1;
  for (size_t i = (hole + 1) & mask; self->slots[i].key != 0; i = (i + 1) & mask) {
    const size_t home = home_of(self, self->slots[i].key);
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    self->slots[hole] = self->slots[i];
    hole = i;
  }
  self->slots[hole] = (CacheSlot){0};
}

static void forget_key(PrefixCache *self, BlockIx ix) {
  CacheBlock *block = &self->blocks[ix];
  const size_t slot = slot_of(self, block->key);
  assert(self->slots[slot].key == block->key);
  self->n_evictions++;
  if (block->next_same == ix) {
    tell(self, block->key, false);
    empty_slot(self, slot);
  } else {
    if (self->slots[slot].first == ix) self->slots[slot].first = block->next_same;
    self->blocks[block->next_same].previous_same = block->previous_same;
    self->blocks[block->previous_same].next_same = block->next_same;
  }
  block->key = 0;
}

/* --- what stands for a block */

static BlockIx begin_block(PrefixCache *self, int32_t references) {
  BlockIx ix = self->unused;
  if (ix != BLOCK_NONE) {
    self->unused = self->blocks[ix].next;
  } else {
    ix = self->n_used++;
    ARENA_RESERVE(self->arena, self->blocks, self->capacity, (size_t)self->n_used);
  }
  self->blocks[ix] = (CacheBlock){.references = references};
  return ix;
}

static void end_block(PrefixCache *self, BlockIx ix) {
  CacheBlock *block = &self->blocks[ix];
  *block = (CacheBlock){.next = self->unused};
  self->unused = ix;
}

/* --- the free queue */

/* A free block with a key, or a run, leaves the queue. */
static void leave_queue(PrefixCache *self, const CacheBlock *block) {
  if (block->previous == BLOCK_NONE)
    self->oldest = block->next;
  else
    self->blocks[block->previous].next = block->next;
  if (block->next == BLOCK_NONE)
    self->newest = block->previous;
  else
    self->blocks[block->next].previous = block->previous;
}

/* Of blocks with one key, the last. */
static void keep_evicted(PrefixCache *self, BlockIx ix) {
  const CacheBlock *block = &self->blocks[ix];
  if (block->next_same != ix) return;
  ARENA_RESERVE(self->arena, self->evicted, self->evicted_capacity, self->n_evicted + 1);
  self->evicted[self->n_evicted++] = block->key;
}

/* The two that are next to be taken for something else. */
static void fetch_oldest(const PrefixCache *self) {
  if (self->oldest == BLOCK_NONE) return;
  const CacheBlock *block = &self->blocks[self->oldest];
  if (block->key != CONTENT_OWN) fetch_slot(self, block->key);
  if (block->next != BLOCK_NONE) __builtin_prefetch(&self->blocks[block->next], 1);
}

static void enter_queue(PrefixCache *self, BlockIx ix) {
  CacheBlock *block = &self->blocks[ix];
  block->next = BLOCK_NONE;
  block->previous = self->newest;
  if (self->newest == BLOCK_NONE)
    self->oldest = ix;
  else
    self->blocks[self->newest].next = ix;
  self->newest = ix;
}

/* `n` blocks that are registered as CONTENT_OWN. */
static void enter_own(PrefixCache *self, int32_t n) {
  if (self->newest == BLOCK_NONE || self->blocks[self->newest].key != CONTENT_OWN) {
    const BlockIx ix = begin_block(self, 0);
    self->blocks[ix].key = CONTENT_OWN;
    enter_queue(self, ix);
  }
  self->blocks[self->newest].references += n;
}

/* The oldest block with a key loses it, or at most `most` of the oldest run; how many. */
static int64_t evict(PrefixCache *self, int64_t most) {
  const BlockIx ix = self->oldest;
  CacheBlock *block = &self->blocks[ix];
  int64_t n = 1;
  if (block->key == CONTENT_OWN) {
    n = block->references < most ? block->references : most;
    block->references -= (int32_t)n;
    self->n_own -= n;
    self->n_keys -= n;
    self->n_evictions += n;
    if (block->references > 0) return n;
    leave_queue(self, block);
  } else {
    leave_queue(self, block);
    fetch_oldest(self);
    if (self->keeps_evicted) keep_evicted(self, ix);
    forget_key(self, ix);
  }
  end_block(self, ix);
  return n;
}

/* `n` <= n_free blocks are free no more. */
static void take_free(PrefixCache *self, int64_t n) {
  self->n_free -= n;
  const int64_t blank = n < self->n_blank ? n : self->n_blank;
  self->n_blank -= blank;
  for (n -= blank; n > 0;)
    n -= evict(self, n);
}

void prefix_cache_forget(PrefixCache *self) {
  const size_t n_evicted = self->n_evicted; // these are not taken for others
  while (self->oldest != BLOCK_NONE)
    self->n_blank += evict(self, INT64_MAX);
  self->n_evicted = n_evicted;
}

/* --- what requests do */

static void add_named(PrefixCache *self, HeldBlocks *held, BlockIx ix) {
  ARENA_RESERVE(self->arena, held->blocks, held->capacity, (size_t)held->n_named + 1);
  held->blocks[held->n_named++] = ix;
}

void prefix_cache_hold(PrefixCache *self, BlockIx ix) {
  CacheBlock *block = &self->blocks[ix];
  if (block->references++ > 0) return;
  leave_queue(self, block);
  self->n_free--;
}

BlockIx prefix_cache_pop(PrefixCache *self) {
  assert(self->n_free > 0);
  if (self->counts) {
    self->n_free--;
    return 0;
  }
  take_free(self, 1);
  return begin_block(self, 1);
}

void prefix_cache_drop(PrefixCache *self, BlockIx ix) {
  if (self->counts) {
    self->n_free++;
    return;
  }
  assert(self->blocks[ix].references > 0);
  if (--self->blocks[ix].references > 0) return;
  self->n_free++;
  if (self->blocks[ix].key != 0) {
    enter_queue(self, ix);
    return;
  }
  self->n_blank++;
  end_block(self, ix);
}

/* The keys of the `n` <= AHEAD blocks after the first `from`. */
static void keys_of(const PrefixCache *self, const Content *content, int64_t block_size,
                    int64_t from, int64_t n, uint64_t *ret_keys) {
  for (int64_t i = 0; i < n; i++) {
    ret_keys[i] = content_key(content, (from + i + 1) * block_size + self->lookahead);
    fetch_slot(self, ret_keys[i]);
  }
}

/* Of those blocks, how many of the first are found. */
static int64_t find_some(const PrefixCache *self, const uint64_t *keys, int64_t n,
                         BlockIx *ret_found) {
  int64_t i = 0;
  for (; i < n && (ret_found[i] = prefix_cache_find(self, keys[i])) != BLOCK_NONE; i++)
    __builtin_prefetch(&self->blocks[ret_found[i]], 1);
  return i;
}

static int64_t at_most(int64_t n) {
  return n < AHEAD ? n : AHEAD;
}

int64_t prefix_cache_shared(const PrefixCache *self, const Content *content, int64_t block_size,
                            int64_t n) {
  const int64_t tokens = content->own_from - self->lookahead;
  if (self->names_all || tokens >= n * block_size) return n;
  return tokens > 0 ? tokens / block_size : 0;
}

int64_t prefix_cache_match(const PrefixCache *self, const Content *content, int64_t block_size,
                           int64_t most, int64_t *ret_unheld) {
  uint64_t keys[AHEAD];
  BlockIx found[AHEAD];
  int64_t n = 0, n_found = AHEAD;
  most = prefix_cache_shared(self, content, block_size, most);
  *ret_unheld = 0;
  for (; n < most && n_found == AHEAD; n += n_found) {
    keys_of(self, content, block_size, n, at_most(most - n), keys);
    n_found = find_some(self, keys, at_most(most - n), found);
    for (int64_t i = 0; i < n_found; i++)
      *ret_unheld += self->blocks[found[i]].references == 0;
  }
  return n;
}

void prefix_cache_hit(PrefixCache *self, HeldBlocks *held, const Content *content,
                      int64_t block_size, int64_t n) {
  assert(held->n == 0);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t key = content_key(content, (i + 1) * block_size + self->lookahead);
    const BlockIx ix = prefix_cache_find(self, key);
    assert(ix != BLOCK_NONE);
    prefix_cache_hold(self, ix);
    add_named(self, held, ix);
  }
  held->n = held->n_registered = held->n_named;
}

void prefix_cache_take(PrefixCache *self, HeldBlocks *held, int64_t n) {
  assert(n <= self->n_free);
  take_free(self, n);
  held->n += (int32_t)n;
}

/* Up to the first `until` of its blocks get their keys. */
static void name_until(PrefixCache *self, HeldBlocks *held, const Content *content,
                       int64_t block_size, int64_t until) {
  uint64_t keys[AHEAD];
  while (held->n_named < until) {
    const int64_t n = at_most(until - held->n_named);
    keys_of(self, content, block_size, held->n_named, n, keys);
    for (int64_t i = 0; i < n; i++) {
      const BlockIx ix = begin_block(self, 1);
      prefix_cache_name(self, ix, keys[i]);
      add_named(self, held, ix);
    }
  }
}

static void count_own(PrefixCache *self, int64_t n) {
  self->n_own += n;
  self->n_keys += n;
}

void prefix_cache_register(PrefixCache *self, HeldBlocks *held, const Content *content,
                           int64_t block_size, int64_t tokens) {
  const int64_t full = tokens / block_size;
  assert(full <= held->n);
  if (full <= held->n_registered) return;
  const int64_t shared = prefix_cache_shared(self, content, block_size, full);
  name_until(self, held, content, block_size, shared);
  count_own(self, full - (shared > held->n_registered ? shared : held->n_registered));
  held->n_registered = (int32_t)full;
}

void prefix_cache_name_own(PrefixCache *self, HeldBlocks *held, Content *content,
                           int64_t block_size) {
  content->own_from = INT32_MAX;
  count_own(self, held->n_named - held->n_registered);
  name_until(self, held, content, block_size, held->n_registered);
}

void prefix_cache_release(PrefixCache *self, HeldBlocks *held) {
  const int32_t blank = held->n - held->n_registered, own = held->n_registered - held->n_named;
  self->n_blank += blank;
  self->n_free += blank + own;
  if (own > 0) enter_own(self, own);
  while (held->n_named > 0) {
    const BlockIx ix = held->blocks[--held->n_named];
    if (held->n_named >= AHEAD)
      __builtin_prefetch(&self->blocks[held->blocks[held->n_named - AHEAD]], 1);
    prefix_cache_drop(self, ix);
  }
  held->n = held->n_registered = 0;
}

/* --- from run to run */

static void save_key(SavedCache *saved, uint64_t key, int64_t n, Arena *arena) {
  ARENA_RESERVE(arena, saved->keys, saved->capacity, (size_t)(saved->n + n));
  for (int64_t i = 0; i < n; i++)
    saved->keys[saved->n++] = key;
}

static void save_block(const PrefixCache *self, SavedCache *saved, BlockIx ix, Arena *arena) {
  const CacheBlock *block = &self->blocks[ix];
  if (block->key == CONTENT_OWN)
    save_key(saved, block->key, block->references, arena);
  else if (block->key != 0 && prefix_cache_find(self, block->key) == ix)
    save_key(saved, block->key, 1, arena);
}

void prefix_cache_save(const PrefixCache *self, SavedCache *ret_saved, Arena *arena) {
  int64_t n_own = self->n_own;
  *ret_saved = (SavedCache){.given = true};
  for (BlockIx ix = self->oldest; ix != BLOCK_NONE; ix = self->blocks[ix].next) {
    save_block(self, ret_saved, ix, arena);
    if (self->blocks[ix].key == CONTENT_OWN) n_own -= self->blocks[ix].references;
  }
  save_key(ret_saved, CONTENT_OWN, n_own, arena);
  for (BlockIx ix = 0; ix < self->n_used; ix++)
    if (self->blocks[ix].references > 0 && self->blocks[ix].key != CONTENT_OWN)
      save_block(self, ret_saved, ix, arena);
}

void prefix_cache_load(PrefixCache *self, const SavedCache *saved) {
  assert(self->n_used == 0);
  int64_t i = saved->n > self->n_blocks ? saved->n - self->n_blocks : 0;
  for (; i < saved->n; i++) {
    if (saved->keys[i] == CONTENT_OWN) {
      self->n_blank--;
      count_own(self, 1);
      enter_own(self, 1);
      continue;
    }
    const BlockIx ix = prefix_cache_pop(self);
    prefix_cache_name(self, ix, saved->keys[i]);
    prefix_cache_drop(self, ix);
  }
}

/* --- audit */

static void check_ring(const PrefixCache *self, const CacheSlot *slot, int64_t *n_keyed) {
  BlockIx ix = slot->first;
  do {
    const CacheBlock *block = &self->blocks[ix];
    assert(block->key == slot->key);
    assert(self->blocks[block->next_same].previous_same == ix);
    ++*n_keyed;
    ix = block->next_same;
  } while (ix != slot->first);
}

/* The queue; how many blocks are in it. */
static int64_t check_queue(const PrefixCache *self, int64_t *n_own) {
  int64_t n = 0;
  BlockIx previous = BLOCK_NONE;
  for (BlockIx ix = self->oldest; ix != BLOCK_NONE; ix = self->blocks[ix].next) {
    const CacheBlock *block = &self->blocks[ix];
    assert(block->key != 0 && block->previous == previous);
    assert(block->key == CONTENT_OWN ? block->references > 0 : block->references == 0);
    if (block->key == CONTENT_OWN) *n_own += block->references;
    n += block->key == CONTENT_OWN ? block->references : 1;
    previous = ix;
  }
  assert(self->newest == previous);
  return n;
}

void prefix_cache_audit(const PrefixCache *self, int64_t n_references) {
  if (self->counts) {
    assert(self->n_free + n_references == self->n_blocks);
    return;
  }
  int64_t n_free_own = 0, n_held = 0, n_keys = self->n_own, n_keyed = 0;
  assert(self->n_free == self->n_blank + check_queue(self, &n_free_own));
  for (BlockIx ix = 0; ix < self->n_used; ix++) {
    const CacheBlock *block = &self->blocks[ix];
    if (block->key == CONTENT_OWN) continue;
    assert(block->references >= 0);
    n_held += block->references > 0;
    n_references -= block->references;
    n_keyed -= block->key != 0;
    assert(block->key == 0 || prefix_cache_has(self, block->key));
  }
  assert(n_references >= self->n_own - n_free_own); // those without a key that are looked for
  assert(self->n_free + n_held + n_references == self->n_blocks);
  for (size_t i = 0; i < self->n_slots; i++) {
    if (self->slots[i].key == 0) continue;
    n_keys++;
    check_ring(self, &self->slots[i], &n_keyed);
  }
  assert(n_keys == self->n_keys && n_keyed == 0);
}
