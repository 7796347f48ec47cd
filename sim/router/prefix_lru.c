/* See prefix_lru.h. */
#include "sim/router/prefix_lru.h"
#include <assert.h>

#define NONE UINT32_MAX

static void unlink_entry(PrefixLru *self, uint32_t ix) {
  const PrefixEntry *entry = &self->entries[ix];
  if (entry->older == NONE)
    self->oldest = entry->newer;
  else
    self->entries[entry->older].newer = entry->newer;
  if (entry->newer == NONE)
    self->newest = entry->older;
  else
    self->entries[entry->newer].older = entry->older;
}

static void push_newest(PrefixLru *self, uint32_t ix, bool empty) {
  PrefixEntry *entry = &self->entries[ix];
  entry->older = empty ? NONE : self->newest;
  entry->newer = NONE;
  if (entry->older == NONE)
    self->oldest = ix;
  else
    self->entries[entry->older].newer = ix;
  self->newest = ix;
}

/* A place for a new key: the next one, or that of the oldest. */
static uint32_t make_place(PrefixLru *self, Arena *arena) {
  const uint32_t n = (uint32_t)self->places.n_keys;
  if (n == self->capacity) {
    const uint32_t oldest = self->oldest;
    unlink_entry(self, oldest);
    key_map_remove(&self->places, self->entries[oldest].key);
    holders_remove(self->holders, self->entries[oldest].key, self->instance);
    return oldest;
  }
  ARENA_RESERVE(arena, self->entries, self->n_reserved, (size_t)n + 1);
  return n;
}

static void add(PrefixLru *self, uint64_t key, Arena *arena) {
  const uint32_t *found = key_map_find(&self->places, key);
  uint32_t ix;
  if (found) {
    ix = *found;
    unlink_entry(self, ix);
  } else {
    ix = make_place(self, arena);
    self->entries[ix].key = key;
    *key_map_put(&self->places, key, arena) = ix;
    holders_add(self->holders, key, self->instance);
  }
  push_newest(self, ix, self->places.n_keys == 1);
}

void prefix_lru_add(PrefixLru *self, PromptKeys *keys, int64_t block_size, int64_t n) {
  assert(self->capacity > 0);
  for (int64_t i = 0; i < n; i++)
    add(self, prompt_key(keys, block_size, i), keys->arena);
}
