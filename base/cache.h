/* Values that are made once and used again and again, such as models, machine types and compiled
 * performance models. A value is found by a text that says all it is made of; threads share it, and
 * it never changes once it is in. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H
#include "base/diag.h"
#include <pthread.h>

typedef struct CacheEntry CacheEntry;

typedef struct Cache Cache;
struct Cache {
  pthread_mutex_t lock; // held while a value is looked up or made; a value may be made of others
  Arena *owner;         // of the values; NULL: each has an arena of its own
  Arena arena;
  CacheEntry *newest;
  Cache *lasting; // for values that are to outlive it; NULL: itself
};

void cache_init(Cache *self);
void cache_done(Cache *self);
/* One that lives in `arena` with all that it keeps. */
Cache *cache_new(Arena *arena);

static inline Cache *cache_lasting(Cache *self) {
  return self->lasting ? self->lasting : self;
}

size_t cache_bytes(Cache *self); // of its values, in arenas of their own

/* Makes a value in `arena`; NULL with entries in `diag`. */
typedef const void *(*CacheLoad)(const void *context, Arena *arena, Diag *diag);
/* What is under `key`, after loading it when it is not there; it lives as long as the cache. NULL
 * with entries in `diag`, and nothing is kept, when that fails. */
const void *cache_get(Cache *self, const char *key, CacheLoad load, const void *context,
                      Diag *diag);
/* What is under the keys that begin with `prefix`, in their order, NULL-terminated. */
const void *const *cache_all(Cache *self, const char *prefix, Arena *arena);
#endif
