/* See holders.h. */
#include "sim/core/holders.h"
#include <assert.h>
#include <string.h>

/* What a key has: 0 nothing, an instance and 1, or a set with this bit. */
#define SET  UINT32_C(0x80000000)
#define NONE UINT32_MAX
enum { WORD = 64 };

void holders_init(Holders *self, uint32_t n_instances, Arena *arena) {
  assert(n_instances < SET);
  *self = (Holders){.arena = arena,
                    .n_instances = n_instances,
                    .n_words = (n_instances + WORD - 1) / WORD,
                    .free_set = NONE};
  self->left = ARENA_ARRAY(arena, uint64_t, self->n_words);
  self->runs = ARENA_ARRAY(arena, int64_t, n_instances);
}

static uint64_t *set_of(const Holders *self, uint32_t value) {
  return &self->sets[(size_t)(value & ~SET) * self->n_words];
}

static uint64_t bit_of(InstanceIx instance) {
  return UINT64_C(1) << instance % WORD;
}

static bool is_empty(const Holders *self, const uint64_t *set) {
  uint64_t any = 0;
  for (uint32_t w = 0; w < self->n_words; w++)
    any |= set[w];
  return any == 0;
}

/* --- sets; one that is free has the next one's number in its first word */

static uint32_t new_set(Holders *self) {
  uint32_t ix = self->free_set;
  if (ix == NONE) {
    ix = self->n_sets++;
    ARENA_RESERVE(self->arena, self->sets, self->capacity, (size_t)self->n_sets * self->n_words);
  } else {
    self->free_set = (uint32_t)set_of(self, ix)[0];
  }
  memset(set_of(self, ix), 0, self->n_words * sizeof *self->sets);
  return SET | ix;
}

static void free_set(Holders *self, uint32_t value) {
  set_of(self, value)[0] = self->free_set;
  self->free_set = value & ~SET;
}

void holders_add(Holders *self, uint64_t key, InstanceIx instance) {
  uint32_t *value = key_map_put(&self->keys, key, self->arena);
  if (*value == 0) *value = instance + 1;
  if (*value == instance + 1) return;
  if (!(*value & SET)) {
    const InstanceIx other = *value - 1;
    *value = new_set(self);
    set_of(self, *value)[other / WORD] = bit_of(other);
  }
  set_of(self, *value)[instance / WORD] |= bit_of(instance);
}

void holders_remove(Holders *self, uint64_t key, InstanceIx instance) {
  if (!holders_has(self, key, instance)) return;
  const uint32_t value = *key_map_find(&self->keys, key);
  if (value & SET) {
    set_of(self, value)[instance / WORD] &= ~bit_of(instance);
    if (!is_empty(self, set_of(self, value))) return;
    free_set(self, value);
  }
  key_map_remove(&self->keys, key);
}

bool holders_has(const Holders *self, uint64_t key, InstanceIx instance) {
  const uint32_t *value = key_map_find(&self->keys, key);
  if (!value) return false;
  if (!(*value & SET)) return *value == instance + 1;
  return (set_of(self, *value)[instance / WORD] & bit_of(instance)) != 0;
}

/* --- a match */

/* Those of a word of `left` that are `gone` have `n` blocks. */
static void end_runs(Holders *self, uint32_t word, uint64_t gone, int64_t n) {
  for (; gone != 0; gone &= gone - 1)
    self->runs[word * WORD + (uint32_t)__builtin_ctzll(gone)] = n;
}

/* Of those that have the first `n` blocks, only those that have this key too are left; whether
 * there are any. */
static bool keep(Holders *self, uint64_t key, int64_t n) {
  const uint32_t *found = key_map_find(&self->keys, key);
  const uint32_t value = found ? *found : 0;
  const uint64_t *set = value & SET ? set_of(self, value) : NULL;
  uint64_t any = 0;
  for (uint32_t w = 0; w < self->n_words; w++) {
    const bool in_word = !set && value > 0 && (value - 1) / WORD == w;
    const uint64_t has = set ? set[w] : in_word ? bit_of(value - 1) : 0;
    const uint64_t left = self->left[w] & has;
    if (left != self->left[w]) end_runs(self, w, self->left[w] & ~has, n);
    self->left[w] = left;
    any |= left;
  }
  return any != 0;
}

const int64_t *holders_match(Holders *self, PromptKeys *keys, int64_t block_size, int64_t n) {
  memset(self->runs, 0, self->n_instances * sizeof *self->runs);
  const uint32_t *first = n > 0 ? key_map_find(&self->keys, prompt_key(keys, block_size, 0)) : NULL;
  if (!first) return self->runs;
  int64_t i = 1;
  if (!(*first & SET)) {
    const InstanceIx instance = *first - 1;
    while (i < n && holders_has(self, prompt_key(keys, block_size, i), instance))
      i++;
    self->runs[instance] = i;
    return self->runs;
  }
  memcpy(self->left, set_of(self, *first), self->n_words * sizeof *self->left);
  while (i < n && keep(self, prompt_key(keys, block_size, i), i))
    i++;
  for (uint32_t w = 0; w < self->n_words && i == n; w++)
    end_runs(self, w, self->left[w], n);
  return self->runs;
}
