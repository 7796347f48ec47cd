/* See key_map.h. */
#include "base/key_map.h"
#include "base/hash.h"
#include <assert.h>

enum { FIRST_SLOTS = 64 };

/* Where a key is or would be. */
static size_t slot_of(const KeyMap *self, uint64_t key) {
  const size_t mask = self->n_slots - 1;
  size_t i = (size_t)hash_mix(key) & mask;
  while (self->slots[i].key != 0 && self->slots[i].key != key)
    i = (i + 1) & mask;
  return i;
}

static void grow(KeyMap *self, Arena *arena) {
  const KeyMap old = *self;
  self->n_slots = old.n_slots > 0 ? 2 * old.n_slots : FIRST_SLOTS;
  self->slots = ARENA_ARRAY(arena, KeySlot, self->n_slots);
  for (size_t i = 0; i < old.n_slots; i++)
    if (old.slots[i].key != 0) self->slots[slot_of(self, old.slots[i].key)] = old.slots[i];
}

uint32_t *key_map_find(const KeyMap *self, uint64_t key) {
  if (self->n_slots == 0) return NULL;
  KeySlot *slot = &self->slots[slot_of(self, key)];
  return slot->key == 0 ? NULL : &slot->value;
}

uint32_t *key_map_put(KeyMap *self, uint64_t key, Arena *arena) {
  assert(key != 0);
  if (2 * (self->n_keys + 1) > self->n_slots) grow(self, arena);
  KeySlot *slot = &self->slots[slot_of(self, key)];
  if (slot->key == 0) {
    *slot = (KeySlot){.key = key};
    self->n_keys++;
  }
  return &slot->value;
}

void key_map_fetch(const KeyMap *self, uint64_t key) {
  if (self->n_slots > 0)
    __builtin_prefetch(&self->slots[(size_t)hash_mix(key) & (self->n_slots - 1)]);
}

void key_map_remove(KeyMap *self, uint64_t key) {
  if (self->n_slots == 0) return;
  const size_t mask = self->n_slots - 1;
  size_t hole = slot_of(self, key);
  if (self->slots[hole].key == 0) return;
  self->n_keys--;
  for (size_t i = (hole + 1) & mask; self->slots[i].key != 0; i = (i + 1) & mask) {
    const size_t home = (size_t)hash_mix(self->slots[i].key) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    self->slots[hole] = self->slots[i];
    hole = i;
  }
  self->slots[hole] = (KeySlot){0};
}
