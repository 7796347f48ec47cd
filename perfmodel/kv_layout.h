/* How an engine with a hybrid KV cache manager (vLLM) lays out the KV of layers that keep different
 * things: in groups of layers of one kind over one pool of blocks of equal bytes.
 *
 * Layers of each kind are split into groups of as many layers as the rarest kind has; if the most
 * frequent kind has fewer than 1.5 times as many, each kind is one group. A block holds one group's
 * block for all of its layers. Blocks of the kind with the fewest bytes a token have more tokens,
 * so that all take as many bytes; next to states, blocks of attention have the multiple of
 * block_size that is at least as large as a state. */
#ifndef PERFMODEL_KV_LAYOUT_H
#define PERFMODEL_KV_LAYOUT_H
#include "perfmodel/llm.h"

typedef enum KvGroupKind {
  KV_FULL,   // layers that keep all tokens
  KV_WINDOW, // the last `window`
  KV_STATE,  // a state of all tokens
} KvGroupKind;

typedef struct KvGroupSpec {
  KvGroupKind kind;
  int64_t block_size; // tokens
  int64_t window;     // of KV_WINDOW
} KvGroupSpec;

/* The groups of a model, in the order in which they take blocks. */
typedef struct KvLayout {
  const KvGroupSpec *groups;
  int32_t n_groups;
  int64_t block_size;  // tokens of a block of the first group that keeps all, or of the first
  int64_t block_bytes; // of a block of the pool, over the GPUs that hold a sequence
} KvLayout;

/* That of a model on so many GPUs, for an engine's block_size; NULL: its layers all keep every
 * token. */
const KvLayout *kv_layout_of(const Llm *llm, int64_t tensor_parallel_size, int64_t block_size,
                             Arena *arena);
/* Blocks that a sequence of so many tokens holds. */
int64_t kv_layout_blocks(const KvLayout *self, int64_t tokens);
/* Copies of KV heads over the GPUs: they are split, and copied once there are fewer than GPUs. */
int64_t kv_copies(int64_t heads, int64_t tensor_parallel_size);
#endif
