/* See host_cache.h. */
#include "sim/core/host_cache.h"
#include <assert.h>

void host_cache_init(HostCache *self, int64_t n_blocks, Arena *arena) {
  *self = (HostCache){.arena = arena,
                      .n_blocks = n_blocks,
                      .unused = HOST_NONE,
                      .oldest = HOST_NONE,
                      .newest = HOST_NONE};
}

static HostBlock *block_of(const HostCache *self, uint64_t key) {
  const uint32_t *place = key_map_find(&self->places, key);
  return place ? &self->blocks[*place] : NULL;
}

bool host_cache_has(const HostCache *self, uint64_t key) {
  const HostBlock *block = block_of(self, key);
  return block && block->written;
}

bool host_cache_loads(const HostCache *self, uint64_t key) {
  const HostBlock *block = block_of(self, key);
  return block && block->n_loads > 0;
}

static void unlink_block(HostCache *self, const HostBlock *block) {
  if (block->older == HOST_NONE)
    self->oldest = block->newer;
  else
    self->blocks[block->older].newer = block->newer;
  if (block->newer == HOST_NONE)
    self->newest = block->older;
  else
    self->blocks[block->newer].older = block->older;
}

static void link_newest(HostCache *self, uint32_t ix) {
  HostBlock *block = &self->blocks[ix];
  block->older = self->newest;
  block->newer = HOST_NONE;
  if (self->newest == HOST_NONE)
    self->oldest = ix;
  else
    self->blocks[self->newest].newer = ix;
  self->newest = ix;
}

/* Whether it is in the list of those that may be evicted. */
static bool is_listed(const HostBlock *block) {
  return block->written && block->n_loads == 0;
}

static void evict(HostCache *self, uint32_t ix) {
  HostBlock *block = &self->blocks[ix];
  unlink_block(self, block);
  key_map_remove(&self->places, block->key);
  block->newer = self->unused;
  self->unused = ix;
  self->n_held--;
  self->n_evictions++;
}

/* The `n` least recently used that can be; false, and nothing is, where there are fewer. */
static bool evict_oldest(HostCache *self, int64_t n) {
  int64_t found = 0;
  for (uint32_t ix = self->oldest; ix != HOST_NONE && found < n; ix = self->blocks[ix].newer)
    found += !self->blocks[ix].kept;
  if (found < n) return false;
  for (uint32_t ix = self->oldest, next; n > 0; ix = next) {
    next = self->blocks[ix].newer;
    if (self->blocks[ix].kept) continue;
    evict(self, ix);
    n--;
  }
  return true;
}

static void put(HostCache *self, uint64_t key) {
  uint32_t ix = self->unused;
  if (ix != HOST_NONE) {
    self->unused = self->blocks[ix].newer;
  } else {
    ix = self->n_used++;
    ARENA_RESERVE(self->arena, self->blocks, self->capacity, self->n_used);
  }
  self->blocks[ix] = (HostBlock){.key = key};
  *key_map_put(&self->places, key, self->arena) = ix;
  self->n_held++;
}

static void keep(HostCache *self, const uint64_t *keys, int64_t n, bool kept) {
  for (int64_t i = 0; i < n; i++) {
    HostBlock *block = block_of(self, keys[i]);
    if (block) block->kept = kept;
  }
}

void host_cache_touch(HostCache *self, const uint64_t *keys, int64_t n) {
  for (int64_t i = n - 1; i >= 0; i--) {
    HostBlock *block = block_of(self, keys[i]);
    if (!block || !is_listed(block)) continue;
    unlink_block(self, block);
    link_newest(self, (uint32_t)(block - self->blocks));
  }
}

bool host_cache_store(HostCache *self, const uint64_t *keys, int64_t from, int64_t n,
                      uint64_t *ret_keys, int64_t *ret_stored) {
  int64_t stored = 0;
  for (int64_t i = from; i < n; i++)
    if (!block_of(self, keys[i])) ret_keys[stored++] = keys[i];
  const int64_t missing = stored - (self->n_blocks - self->n_held);
  keep(self, keys, n, true);
  const bool fits = missing <= 0 || evict_oldest(self, missing);
  keep(self, keys, n, false);
  *ret_stored = fits ? stored : 0;
  for (int64_t i = 0; i < *ret_stored; i++)
    put(self, ret_keys[i]);
  if (fits) host_cache_touch(self, keys, n);
  return fits;
}

void host_cache_written(HostCache *self, uint64_t key) {
  HostBlock *block = block_of(self, key);
  assert(block && !block->written);
  block->written = true;
  link_newest(self, (uint32_t)(block - self->blocks));
}

void host_cache_load(HostCache *self, uint64_t key, int change) {
  HostBlock *block = block_of(self, key);
  assert(block && block->written);
  if (is_listed(block)) unlink_block(self, block);
  block->n_loads += change;
  assert(block->n_loads >= 0);
  if (is_listed(block)) link_newest(self, (uint32_t)(block - self->blocks));
}

void host_cache_audit(const HostCache *self, int64_t n_loads, int64_t n_unwritten) {
  int64_t n = 0;
  uint32_t older = HOST_NONE;
  for (uint32_t ix = self->oldest; ix != HOST_NONE; ix = self->blocks[ix].newer, n--) {
    assert(self->blocks[ix].older == older && is_listed(&self->blocks[ix]));
    older = ix;
  }
  assert(older == self->newest && self->n_held <= self->n_blocks);
  assert((int64_t)self->places.n_keys == self->n_held);
  for (size_t i = 0; i < self->places.n_slots; i++) {
    if (self->places.slots[i].key == 0) continue;
    const HostBlock *block = &self->blocks[self->places.slots[i].value];
    assert(block->key == self->places.slots[i].key && !block->kept);
    n += is_listed(block);
    n_loads -= block->n_loads;
    n_unwritten -= !block->written;
  }
  assert(n == 0 && n_loads == 0 && n_unwritten == 0);
}
