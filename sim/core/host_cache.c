/* See host_cache.h. */
#include "sim/core/host_cache.h"
#include <assert.h>

void host_cache_init(HostCache *self, int64_t n_blocks, HostPolicy policy, Tick ttl, Arena *arena) {
  *self = (HostCache){.arena = arena,
                      .policy = policy,
                      .ttl = ttl,
                      .n_blocks = n_blocks,
                      .unused = HOST_NONE,
                      .oldest = HOST_NONE};
}

static HostBlock *block_of(const HostCache *self, uint64_t key) {
  const uint32_t *place = key_map_find(&self->places, key);
  return place ? &self->blocks[*place] : NULL;
}

/* Whether it is in the list of those that may be evicted. */
static bool is_listed(const HostBlock *block) {
  return block->written && block->n_loads == 0;
}

static bool is_expired(const HostCache *self, const HostBlock *block) {
  return self->policy == HOST_TTL && is_listed(block) && self->now - block->used_at >= self->ttl;
}

bool host_cache_has(const HostCache *self, uint64_t key) {
  const HostBlock *block = block_of(self, key);
  return block && block->written && !is_expired(self, block);
}

Tick host_cache_ready(const HostCache *self, uint64_t key) {
  return block_of(self, key)->ready_at;
}

void host_cache_set_ready(HostCache *self, uint64_t key, Tick ready_at) {
  HostBlock *block = block_of(self, key);
  if (block) block->ready_at = ready_at;
}

/* The last one of those that go before blocks with more than so many uses. */
static uint32_t last_before(const HostCache *self, int uses) {
  const uint64_t fewer = self->in_use & (UINT64_MAX >> (63 - uses));
  return fewer == 0 ? HOST_NONE : self->last[63 - __builtin_clzll(fewer)];
}

static void unlink_block(HostCache *self, const HostBlock *block) {
  const uint32_t ix = (uint32_t)(block - self->blocks);
  if (self->last[block->uses] == ix) {
    const uint32_t older = block->older;
    const bool others = older != HOST_NONE && self->blocks[older].uses == block->uses;
    if (others)
      self->last[block->uses] = older;
    else
      self->in_use &= ~(UINT64_C(1) << block->uses);
  }
  if (block->older == HOST_NONE)
    self->oldest = block->newer;
  else
    self->blocks[block->older].newer = block->newer;
  if (block->newer != HOST_NONE) self->blocks[block->newer].older = block->older;
}

/* Behind all that have as many uses. */
static void link_block(HostCache *self, uint32_t ix) {
  HostBlock *block = &self->blocks[ix];
  block->used_at = self->now;
  block->older = last_before(self, block->uses);
  block->newer = block->older == HOST_NONE ? self->oldest : self->blocks[block->older].newer;
  if (block->older == HOST_NONE)
    self->oldest = ix;
  else
    self->blocks[block->older].newer = ix;
  if (block->newer != HOST_NONE) self->blocks[block->newer].older = ix;
  self->last[block->uses] = ix;
  self->in_use |= UINT64_C(1) << block->uses;
}

/* Of one that is not listed. */
static void use(const HostCache *self, HostBlock *block) {
  block->uses += self->policy == HOST_LFU && block->uses < HOST_USES_MOST;
}

/* A block goes that is listed or not written; its place has none any more. */
static void take_out(HostCache *self, uint32_t ix) {
  HostBlock *block = &self->blocks[ix];
  if (is_listed(block)) unlink_block(self, block);
  key_map_remove(&self->places, block->key);
  *block = (HostBlock){.newer = self->unused};
  self->unused = ix;
  self->n_held--;
}

void host_cache_remove(HostCache *self, uint64_t key) {
  const HostBlock *block = block_of(self, key);
  assert(block && block->n_loads == 0);
  take_out(self, (uint32_t)(block - self->blocks));
  self->n_removed++;
}

void host_cache_give(HostCache *self, uint64_t key) {
  host_cache_remove(self, key);
  self->n_loaded++;
}

void host_cache_clear(HostCache *self) {
  while (self->oldest != HOST_NONE) {
    take_out(self, self->oldest);
    self->n_removed++;
  }
  assert(self->n_held == 0);
}

/* What was not used for long enough is gone. */
static void expire(HostCache *self) {
  while (self->oldest != HOST_NONE && is_expired(self, &self->blocks[self->oldest])) {
    take_out(self, self->oldest);
    self->n_expired++;
  }
}

static void evict(HostCache *self, uint32_t ix) {
  const HostBlock *block = &self->blocks[ix];
  if (self->keeps_evicted) {
    ARENA_RESERVE(self->arena, self->evicted, self->evicted_capacity, self->n_evicted + 1);
    self->evicted[self->n_evicted++] = (HostEvicted){block->key, block->ready_at};
  }
  take_out(self, ix);
  self->n_evictions++;
}

/* The first `n` in order that can be; false, and nothing is, where there are fewer. */
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

static HostBlock *put(HostCache *self, uint64_t key) {
  uint32_t ix = self->unused;
  if (ix != HOST_NONE) {
    self->unused = self->blocks[ix].newer;
  } else {
    ix = self->n_used++;
    ARENA_RESERVE(self->arena, self->blocks, self->capacity, self->n_used);
  }
  HostBlock *block = &self->blocks[ix];
  *block = (HostBlock){.key = key};
  *key_map_put(&self->places, key, self->arena) = ix;
  self->n_held++;
  self->n_put++;
  use(self, block);
  return block;
}

static void keep(HostCache *self, const uint64_t *keys, int64_t n, bool kept) {
  for (int64_t i = 0; i < n; i++) {
    HostBlock *block = block_of(self, keys[i]);
    if (block) block->kept = kept;
  }
}

static void touch(HostCache *self, HostBlock *block, bool used) {
  if (!is_listed(block)) return;
  unlink_block(self, block);
  if (used) use(self, block);
  link_block(self, (uint32_t)(block - self->blocks));
}

void host_cache_touch(HostCache *self, const uint64_t *keys, int64_t n, bool used) {
  for (int64_t i = n - 1; i >= 0; i--) {
    HostBlock *block = block_of(self, keys[i]);
    if (block && !is_expired(self, block)) touch(self, block, used);
  }
}

bool host_cache_store(HostCache *self, const uint64_t *keys, int64_t from, int64_t n,
                      uint64_t *ret_keys, int64_t *ret_stored) {
  int64_t stored = 0;
  expire(self);
  for (int64_t i = from; i < n; i++)
    if (!block_of(self, keys[i])) ret_keys[stored++] = keys[i];
  const int64_t missing = stored - (self->n_blocks - self->n_held);
  keep(self, keys, n, true);
  const bool fits = missing <= 0 || evict_oldest(self, missing);
  keep(self, keys, n, false);
  *ret_stored = fits ? stored : 0;
  for (int64_t i = 0; i < *ret_stored; i++)
    put(self, ret_keys[i]);
  if (fits) host_cache_touch(self, keys, n, false);
  return fits;
}

bool host_cache_put(HostCache *self, uint64_t key) {
  expire(self);
  HostBlock *block = block_of(self, key);
  if (block) touch(self, block, false);
  if (block || (self->n_held == self->n_blocks && !evict_oldest(self, 1))) return false;
  block = put(self, key);
  block->written = true;
  link_block(self, (uint32_t)(block - self->blocks));
  return true;
}

void host_cache_written(HostCache *self, uint64_t key) {
  HostBlock *block = block_of(self, key);
  assert(block && !block->written);
  block->written = true;
  link_block(self, (uint32_t)(block - self->blocks));
}

void host_cache_load(HostCache *self, uint64_t key, int change) {
  HostBlock *block = block_of(self, key);
  assert(block && block->written);
  if (is_listed(block)) unlink_block(self, block);
  block->n_loads += change;
  self->n_loaded += change > 0;
  if (change > 0) use(self, block);
  assert(block->n_loads >= 0);
  if (is_listed(block)) link_block(self, (uint32_t)(block - self->blocks));
}

void host_cache_audit(const HostCache *self, int64_t n_loads, int64_t n_unwritten) {
  int64_t n = 0;
  uint32_t older = HOST_NONE;
  uint64_t in_use = 0;
  for (uint32_t ix = self->oldest; ix != HOST_NONE; ix = self->blocks[ix].newer, n--) {
    const HostBlock *block = &self->blocks[ix];
    assert(block->older == older && is_listed(block));
    assert(older == HOST_NONE || self->blocks[older].uses <= block->uses);
    const bool last = block->newer == HOST_NONE || self->blocks[block->newer].uses > block->uses;
    assert((self->last[block->uses] == ix) == last);
    in_use |= UINT64_C(1) << block->uses;
    older = ix;
  }
  assert(in_use == self->in_use && self->n_held <= self->n_blocks);
  assert((int64_t)self->places.n_keys == self->n_held);
  assert(self->n_put == self->n_held + self->n_evictions + self->n_expired + self->n_removed);
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
