/* See instance_sets.h. */
#include "sim/core/instance_sets.h"
#include <assert.h>
#include <string.h>

#define NONE UINT32_MAX

void instance_sets_init(InstanceSets *self, uint32_t n_instances, Arena *arena) {
  assert(n_instances < INSTANCES_IN_BITS);
  *self = (InstanceSets){.arena = arena,
                         .n_instances = n_instances,
                         .n_words = (n_instances + INSTANCES_PER_WORD - 1) / INSTANCES_PER_WORD,
                         .free_bits = NONE};
  self->left = ARENA_ARRAY(arena, uint64_t, self->n_words);
  self->runs = ARENA_ARRAY(arena, int32_t, self->n_words * INSTANCES_PER_WORD);
}

/* --- bits; a place that is free has the next one's number in its first word */

static uint64_t *bits_of(const InstanceSets *self, InstanceSet set) {
  return &self->bits[(size_t)(set & ~INSTANCES_IN_BITS) * self->n_words];
}

static InstanceSet new_bits(InstanceSets *self) {
  uint32_t ix = self->free_bits;
  if (ix == NONE) {
    ix = self->n_bits++;
    ARENA_RESERVE(self->arena, self->bits, self->capacity, (size_t)self->n_bits * self->n_words);
  } else {
    self->free_bits = (uint32_t)bits_of(self, ix)[0];
  }
  memset(bits_of(self, ix), 0, self->n_words * sizeof *self->bits);
  return INSTANCES_IN_BITS | ix;
}

static bool is_empty(const InstanceSets *self, const uint64_t *bits) {
  uint64_t any = 0;
  for (uint32_t w = 0; w < self->n_words; w++)
    any |= bits[w];
  return any == 0;
}

/* --- sets */

void instance_set_add(InstanceSets *self, InstanceSet *set, InstanceIx instance) {
  if (*set == 0) *set = instance + 1;
  if (*set == instance + 1) return;
  if (!(*set & INSTANCES_IN_BITS)) {
    const InstanceIx other = *set - 1;
    *set = new_bits(self);
    bits_of(self, *set)[other / INSTANCES_PER_WORD] = instance_bit(other);
  }
  bits_of(self, *set)[instance / INSTANCES_PER_WORD] |= instance_bit(instance);
}

void instance_set_remove(InstanceSets *self, InstanceSet *set, InstanceIx instance) {
  if (!instance_set_has(self, *set, instance)) return;
  if (*set & INSTANCES_IN_BITS) {
    uint64_t *bits = bits_of(self, *set);
    bits[instance / INSTANCES_PER_WORD] &= ~instance_bit(instance);
    if (!is_empty(self, bits)) return;
    bits[0] = self->free_bits;
    self->free_bits = *set & ~INSTANCES_IN_BITS;
  }
  *set = 0;
}

bool instance_set_has(const InstanceSets *self, InstanceSet set, InstanceIx instance) {
  return (instance_set_word(self, set, instance / INSTANCES_PER_WORD) & instance_bit(instance)) !=
         0;
}

InstanceSet instance_set_copy(InstanceSets *self, InstanceSet set) {
  if (!(set & INSTANCES_IN_BITS)) return set;
  const InstanceSet copy = new_bits(self);
  memcpy(bits_of(self, copy), bits_of(self, set), self->n_words * sizeof *self->bits);
  return copy;
}

/* --- a match */

void instance_sets_begin(InstanceSets *self, InstanceSet set) {
  memset(self->runs, 0, (size_t)self->n_words * INSTANCES_PER_WORD * sizeof *self->runs);
  for (uint32_t w = 0; w < self->n_words; w++)
    self->left[w] = instance_set_word(self, set, w);
}

/* The figure of those of a word is `run`: of all others, where these are fewer, it is put back. */
static void set_runs(int32_t *runs, uint64_t those, int32_t run) {
  enum { FEW = INSTANCES_PER_WORD / 8 };
  int32_t others[FEW];
  uint64_t rest = 0;
  if (__builtin_popcountll(~those) <= FEW) {
    int n = 0;
    for (rest = ~those; rest != 0; rest &= rest - 1)
      others[n++] = runs[__builtin_ctzll(rest)];
    for (int i = 0; i < INSTANCES_PER_WORD; i++)
      runs[i] = run;
    n = 0;
    for (rest = ~those; rest != 0; rest &= rest - 1)
      runs[__builtin_ctzll(rest)] = others[n++];
    return;
  }
  for (; those != 0; those &= those - 1)
    runs[__builtin_ctzll(those)] = run;
}

/* Only those of `has` are left; NULL: nobody. */
static bool keep(InstanceSets *self, const uint64_t *has, int32_t run) {
  uint64_t any_left = 0, any_gone = 0;
  for (uint32_t w = 0; w < self->n_words; w++) {
    const uint64_t left = has ? self->left[w] & has[w] : 0;
    any_left |= left;
    any_gone |= self->left[w] ^ left;
  }
  if (any_gone == 0) return any_left != 0;
  for (uint32_t w = 0; w < self->n_words; w++) {
    const uint64_t left = has ? self->left[w] & has[w] : 0, gone = self->left[w] ^ left;
    if (gone != 0) set_runs(&self->runs[(size_t)w * INSTANCES_PER_WORD], gone, run);
    self->left[w] = left;
  }
  return any_left != 0;
}

/* One that is left alone is taken out and put back. */
bool instance_sets_keep(InstanceSets *self, InstanceSet set, int64_t run) {
  if (set & INSTANCES_IN_BITS) return keep(self, bits_of(self, set), (int32_t)run);
  if (set == 0) return keep(self, NULL, (int32_t)run);
  const uint32_t word = (set - 1) / INSTANCES_PER_WORD;
  const uint64_t one = self->left[word] & instance_bit(set - 1);
  self->left[word] ^= one;
  keep(self, NULL, (int32_t)run);
  self->left[word] = one;
  return one != 0;
}
