/* See holders.h. */
#include "sim/core/holders.h"

void holders_init(Holders *self, uint32_t n_instances, Arena *arena) {
  *self = (Holders){.arena = arena};
  instance_sets_init(&self->sets, n_instances, arena);
}

static InstanceSet set_of(const Holders *self, uint64_t key) {
  const InstanceSet *set = key_map_find(&self->keys, key);
  return set ? *set : 0;
}

void holders_add(Holders *self, uint64_t key, InstanceIx instance) {
  instance_set_add(&self->sets, key_map_put(&self->keys, key, self->arena), instance);
}

void holders_remove(Holders *self, uint64_t key, InstanceIx instance) {
  InstanceSet *set = key_map_find(&self->keys, key);
  if (!set) return;
  instance_set_remove(&self->sets, set, instance);
  if (*set == 0) key_map_remove(&self->keys, key);
}

bool holders_has(const Holders *self, uint64_t key, InstanceIx instance) {
  return instance_set_has(&self->sets, set_of(self, key), instance);
}

/* The key of block i; that of one that is asked for soon comes into the
 * processor's cache meanwhile. */
static uint64_t key_before(const Holders *self, PromptKeys *keys, int64_t block_size, int64_t i,
                           int64_t n) {
  enum { AHEAD = 8 };
  if (i + AHEAD < n) key_map_fetch(&self->keys, prompt_key(keys, block_size, i + AHEAD));
  return prompt_key(keys, block_size, i);
}

/* Where one instance has the first block it is gone through alone. */
const int32_t *holders_match(Holders *self, PromptKeys *keys, int64_t block_size, int64_t n) {
  InstanceSets *sets = &self->sets;
  const InstanceSet first = n > 0 ? set_of(self, prompt_key(keys, block_size, 0)) : 0;
  instance_sets_begin(sets, first);
  if (first == 0) return sets->runs;
  int64_t i = 1;
  if (first & INSTANCES_IN_BITS) {
    while (i < n &&
           instance_sets_keep(sets, set_of(self, key_before(self, keys, block_size, i, n)), i))
      i++;
  } else {
    while (i < n && holders_has(self, key_before(self, keys, block_size, i, n), first - 1))
      i++;
  }
  instance_sets_keep(sets, 0, i);
  return sets->runs;
}
