/* Which beginnings of prompts a router has sent to an instance, the least recently sent forgotten:
 * a guess at what is in that instance's prefix cache, made without asking it. */
#ifndef SIM_ROUTER_PREFIX_LRU_H
#define SIM_ROUTER_PREFIX_LRU_H
#include "sim/core/holders.h"

typedef struct PrefixEntry {
  uint64_t key;
  uint32_t older, newer;
} PrefixEntry;

typedef struct PrefixLru {
  uint32_t capacity;    // > 0, of blocks
  KeyMap places;        // of keys among the entries
  PrefixEntry *entries; // [places.n_keys]
  size_t n_reserved;
  uint32_t oldest, newest;
  Holders *holders; // are told what is there
  InstanceIx instance;
} PrefixLru;

/* These were sent, the first one first; a zeroed one with a capacity is empty. */
void prefix_lru_add(PrefixLru *self, PromptKeys *keys, int64_t block_size, int64_t n);
#endif
