/* What the pools of a configuration, and the configurations of a study, load again and again:
 * models, machine types and compiled performance models. Found by a text that says all they are
 * made of; shared between threads, and never changed once they are in. */
#ifndef EXPERIMENTS_CONFIG_CACHE_H
#define EXPERIMENTS_CONFIG_CACHE_H
#include "base/diag.h"
#include <pthread.h>

typedef struct CacheEntry CacheEntry;

typedef struct ConfigCache {
  pthread_mutex_t lock; // held while something is looked up or loaded
  Arena *owner;         // of the values; NULL: each has an arena of its own
  Arena arena;
  CacheEntry *newest;
} ConfigCache;

void config_cache_init(ConfigCache *self);
void config_cache_done(ConfigCache *self);
/* One for a single configuration, which lives in `arena` with all that it keeps. */
ConfigCache *config_cache_new(Arena *arena);

/* Makes a value in `arena`; NULL with entries in `diag`. */
typedef const void *(*CacheLoad)(const void *context, Arena *arena, Diag *diag);
/* What is under `key`, after loading it when it is not there; it lives as long as the cache. NULL
 * with entries in `diag`, and nothing is kept, when that fails. */
const void *config_cache_get(ConfigCache *self, const char *key, CacheLoad load,
                             const void *context, Diag *diag);
/* What is under the keys that begin with `prefix`, in their order, NULL-terminated. */
const void *const *config_cache_all(ConfigCache *self, const char *prefix, Arena *arena);
#endif
