/* A list under a lock: a study has a handful of models and machine types. See cache.h. */
#include "base/cache.h"
#include <stdlib.h>
#include <string.h>

struct CacheEntry {
  const char *key;
  const void *value;
  Arena arena; // of the value, unless the cache has an owner
  CacheEntry *older;
};

static void init_lock(Cache *self) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&self->lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

void cache_init(Cache *self) {
  *self = (Cache){0};
  arena_init(&self->arena);
  init_lock(self);
}

Cache *cache_new(Arena *arena) {
  Cache *self = ARENA_NEW(arena, Cache);
  *self = (Cache){.owner = arena};
  init_lock(self);
  return self;
}

void cache_done(Cache *self) {
  pthread_mutex_destroy(&self->lock);
  for (CacheEntry *entry = self->newest; entry; entry = entry->older)
    arena_done(&entry->arena);
  arena_done(&self->arena);
}

static const void *find(const Cache *cache, const char *key) {
  for (const CacheEntry *entry = cache->newest; entry; entry = entry->older)
    if (strcmp(entry->key, key) == 0) return entry->value;
  return NULL;
}

static void add(Cache *cache, const char *key, const void *value, Arena arena) {
  Arena *owner = cache->owner ? cache->owner : &cache->arena;
  CacheEntry *entry = ARENA_NEW(owner, CacheEntry);
  const char *copy = arena_copy(owner, key, strlen(key));
  *entry = (CacheEntry){copy, value, arena, cache->newest};
  cache->newest = entry;
}

/* Each value has an arena of its own, so that one that could not be loaded leaves nothing behind:
 * every point of a sweep may try again. */
static const void *load_entry(Cache *self, const char *key, CacheLoad load, const void *context,
                              Diag *diag) {
  Arena arena;
  arena_init(&arena);
  const void *value = load(context, self->owner ? self->owner : &arena, diag);
  if (value)
    add(self, key, value, arena);
  else
    arena_done(&arena);
  return value;
}

const void *cache_get(Cache *self, const char *key, CacheLoad load, const void *context,
                      Diag *diag) {
  pthread_mutex_lock(&self->lock);
  const void *value = find(self, key);
  if (!value) value = load_entry(self, key, load, context, diag);
  pthread_mutex_unlock(&self->lock);
  return value;
}

size_t cache_bytes(Cache *self) {
  size_t bytes = 0;
  pthread_mutex_lock(&self->lock);
  for (const CacheEntry *entry = self->newest; entry; entry = entry->older)
    bytes += entry->arena.bytes;
  pthread_mutex_unlock(&self->lock);
  return bytes;
}

static int compare_entries(const void *a, const void *b) {
  return strcmp((*(const CacheEntry *const *)a)->key, (*(const CacheEntry *const *)b)->key);
}

const void *const *cache_all(Cache *self, const char *prefix, Arena *arena) {
  const CacheEntry **entries = NULL;
  size_t n = 0, capacity = 0;
  pthread_mutex_lock(&self->lock);
  for (const CacheEntry *entry = self->newest; entry; entry = entry->older)
    if (strncmp(entry->key, prefix, strlen(prefix)) == 0) {
      ARENA_RESERVE(arena, entries, capacity, n + 1);
      entries[n++] = entry;
    }
  pthread_mutex_unlock(&self->lock);
  if (n > 0) qsort(entries, n, sizeof *entries, compare_entries);
  const void **values = ARENA_ARRAY(arena, const void *, n + 1);
  for (size_t i = 0; i < n; i++)
    values[i] = entries[i]->value;
  return values;
}
