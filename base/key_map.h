/* 64-bit keys that name a number each, as keys of content do: open addressing with linear probing.
 *
 * Keys are not 0. At most half of the slots are in use; a removal leaves no trace, as keys behind
 * it that could be nearer to their place move up. */
#ifndef BASE_KEY_MAP_H
#define BASE_KEY_MAP_H
#include "base/arena.h"
#include <stdint.h>

typedef struct KeySlot {
  uint64_t key; // 0: empty
  uint32_t value;
} KeySlot;

typedef struct KeyMap {
  KeySlot *slots;
  size_t n_slots; // a power of two, or 0
  size_t n_keys;
} KeyMap;

/* A zeroed map is empty. The number of a key, valid until the map changes; NULL: it has none. */
uint32_t *key_map_find(const KeyMap *self, uint64_t key);
/* The same; a key that has none gets 0. */
uint32_t *key_map_put(KeyMap *self, uint64_t key, Arena *arena);
/* Brings it into the processor's cache, for one of the calls above that follows soon. */
void key_map_fetch(const KeyMap *self, uint64_t key);
/* Takes a key out, which need not be there. */
void key_map_remove(KeyMap *self, uint64_t key);
#endif
