/* Which instances have something that a key names, such as a block of KV, of all instances at once:
 * a router asks of a prompt how much of it each of them has. */
#ifndef SIM_CORE_HOLDERS_H
#define SIM_CORE_HOLDERS_H
#include "base/key_map.h"
#include "sim/core/instance_sets.h"
#include "sim/core/prompt_keys.h"

typedef struct Holders {
  Arena *arena;
  KeyMap keys; // to an InstanceSet
  InstanceSets sets;
} Holders;

void holders_init(Holders *self, uint32_t n_instances, Arena *arena);
/* It has it, perhaps already. */
void holders_add(Holders *self, uint64_t key, InstanceIx instance);
/* It has it no more; perhaps it had not. */
void holders_remove(Holders *self, uint64_t key, InstanceIx instance);
bool holders_has(const Holders *self, uint64_t key, InstanceIx instance);
/* How many of the first `n` blocks of a prompt, from the first on, each instance has: by instance,
 * until the next match. */
const int32_t *holders_match(Holders *self, PromptKeys *keys, int64_t block_size, int64_t n);
#endif
