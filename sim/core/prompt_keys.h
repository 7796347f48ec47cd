/* The keys of the blocks of one prompt, each computed when it is first asked for: a router asks for
 * the same ones of every instance. */
#ifndef SIM_CORE_PROMPT_KEYS_H
#define SIM_CORE_PROMPT_KEYS_H
#include "sim/core/content.h"

typedef struct PromptKeys {
  Arena *arena;
  const Content *content;
  int64_t block_size; // of those below; 0: none yet
  uint64_t *keys;
  size_t capacity;
  int64_t n;
} PromptKeys;

/* Forgets the prompt before; the arena stays. */
static inline void prompt_keys_begin(PromptKeys *self, const Content *content) {
  self->content = content;
  self->block_size = self->n = 0;
}

/* The key of its first i + 1 blocks of `block_size` tokens. */
static inline uint64_t prompt_key(PromptKeys *self, int64_t block_size, int64_t i) {
  if (self->block_size != block_size) self->n = 0;
  self->block_size = block_size;
  ARENA_RESERVE(self->arena, self->keys, self->capacity, (size_t)i + 1);
  for (; self->n <= i; self->n++)
    self->keys[self->n] = content_key(self->content, (self->n + 1) * block_size);
  return self->keys[i];
}
#endif
