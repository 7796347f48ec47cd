/* A list under a lock: a study has a handful of models and machine types. */
#include "experiments/config_cache.h"
#include <string.h>

struct CacheEntry {
  const char *key;
  const void *value;
  CacheEntry *older;
};

void config_cache_init(ConfigCache *self) {
  *self = (ConfigCache){0};
  arena_init(&self->arena);
  pthread_mutex_init(&self->lock, NULL);
}

void config_cache_done(ConfigCache *self) {
  pthread_mutex_destroy(&self->lock);
  arena_done(&self->arena);
}

static const void *find(const ConfigCache *cache, const char *key) {
  for (const CacheEntry *entry = cache->newest; entry; entry = entry->older)
    if (strcmp(entry->key, key) == 0) return entry->value;
  return NULL;
}

static void add(ConfigCache *cache, const char *key, const void *value) {
  CacheEntry *entry = ARENA_NEW(&cache->arena, CacheEntry);
  *entry = (CacheEntry){arena_copy(&cache->arena, key, strlen(key)), value, cache->newest};
  cache->newest = entry;
}

const void *config_cache_get(ConfigCache *self, const char *key, CacheLoad load,
                             const void *context, Arena *arena, Diag *diag) {
  if (!self) return load(context, arena, diag);
  pthread_mutex_lock(&self->lock);
  const void *value = find(self, key);
  if (!value) {
    value = load(context, &self->arena, diag);
    if (value) add(self, key, value);
  }
  pthread_mutex_unlock(&self->lock);
  return value;
}
