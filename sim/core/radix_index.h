/* Which instances have a beginning in their radix trees, of all at once.
 *
 * A tree like theirs, in which a node ends wherever one of theirs does, with the set of instances
 * that have each node: they tell it of nodes that they append, split and remove. A match walks it
 * once with the set of those that have all so far.
 *
 * An instance may have pages to evict for a run of decodes that is not booked up to now (memory.h).
 * So those are kept that may, from a change on until somebody has looked. */
#ifndef SIM_CORE_RADIX_INDEX_H
#define SIM_CORE_RADIX_INDEX_H
#include "sim/core/holders.h"
#include "sim/core/radix_tree.h"

typedef struct RadixIndex {
  RadixTree tree;
  InstanceSets sets;
  uint64_t *stirred; // [n_words] those that may have pages to evict
} RadixIndex;

void radix_index_init(RadixIndex *self, uint32_t n_instances, int64_t page, Arena *arena);
/* An instance that has all of a content up to `from` has it up to `to` now, which is returned. */
RadixIx radix_index_add(RadixIndex *self, InstanceIx instance, const Content *content, int64_t from,
                        int64_t to);
/* A node that ends in `ix` is split at `at`, which is returned. */
RadixIx radix_index_split(RadixIndex *self, RadixIx ix, int64_t at);
/* An instance has no more what is behind `from` up to the end of `ix`. */
void radix_index_remove(RadixIndex *self, InstanceIx instance, RadixIx ix, int64_t from);
static inline void radix_index_stir(RadixIndex *self, InstanceIx instance) {
  self->stirred[instance / INSTANCES_PER_WORD] |= instance_bit(instance);
}
/* How many of the first `n` pages of a content, from the first on, each instance has: by instance,
 * until the next match. Of those that have the first one and may have pages to evict, `look` does
 * so, and says whether it may be so again without another change. */
const int32_t *radix_index_match(RadixIndex *self, const Content *content, int64_t n,
                                 bool (*look)(void *context, InstanceIx instance), void *context);
/* An instance has what is between `from` and the end of `ix`. Asserts. */
void radix_index_check(const RadixIndex *self, InstanceIx instance, RadixIx ix, int64_t from);
/* Tokens that an instance has. */
int64_t radix_index_tokens(const RadixIndex *self, InstanceIx instance);
#endif
