/* Sets of instances, many of which are of one: a set is a number, 0 where it is empty, an instance
 * and 1 where it is that one, else a place among sets of bits. A match goes through sets and has
 * each instance's figure as of where it is left out. */
#ifndef SIM_CORE_INSTANCE_SETS_H
#define SIM_CORE_INSTANCE_SETS_H
#include "base/arena.h"
#include "sim/core/request.h"

typedef uint32_t InstanceSet;
#define INSTANCES_IN_BITS UINT32_C(0x80000000)
enum { INSTANCES_PER_WORD = 64 };

typedef struct InstanceSets {
  Arena *arena;
  uint32_t n_instances, n_words;
  uint64_t *bits; // [n_bits · n_words]
  uint32_t n_bits, free_bits;
  size_t capacity;
  uint64_t *left; // [n_words] in a match: those that were in all so far
  int32_t *runs;  // [n_words · INSTANCES_PER_WORD] of the last match
} InstanceSets;

void instance_sets_init(InstanceSets *self, uint32_t n_instances, Arena *arena);
/* It is in it, perhaps already; or it is no more, perhaps it was not. */
void instance_set_add(InstanceSets *self, InstanceSet *set, InstanceIx instance);
void instance_set_remove(InstanceSets *self, InstanceSet *set, InstanceIx instance);
bool instance_set_has(const InstanceSets *self, InstanceSet set, InstanceIx instance);
/* Another one of the same instances. */
InstanceSet instance_set_copy(InstanceSets *self, InstanceSet set);
/* A match begins: those of the set are left, and the figure of others is 0. */
void instance_sets_begin(InstanceSets *self, InstanceSet set);
/* Only those of the set are left, and the figure of others that were is `run`; whether any are. */
bool instance_sets_keep(InstanceSets *self, InstanceSet set, int64_t run);

static inline uint64_t instance_bit(InstanceIx instance) {
  return UINT64_C(1) << instance % INSTANCES_PER_WORD;
}
/* The instances of a set among those of a word. */
static inline uint64_t instance_set_word(const InstanceSets *self, InstanceSet set, uint32_t word) {
  if (set & INSTANCES_IN_BITS)
    return self->bits[(size_t)(set & ~INSTANCES_IN_BITS) * self->n_words + word];
  return set > 0 && (set - 1) / INSTANCES_PER_WORD == word ? instance_bit(set - 1) : 0;
}
#endif
