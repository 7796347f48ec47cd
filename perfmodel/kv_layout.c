/* See kv_layout.h. */
#include "perfmodel/kv_layout.h"
#include <math.h>

int64_t kv_copies(int64_t heads, int64_t tensor_parallel_size) {
  return tensor_parallel_size > heads ? tensor_parallel_size / heads : 1;
}

/* Layers of a kind: bytes of a token in one of them, or of a state. */
typedef struct LayerKind {
  KvGroupKind kind;
  int64_t layers, window;
  double bytes;
} LayerKind;

enum { KINDS_MOST = 3 };

static int kinds_of(const Llm *llm, int64_t tp, LayerKind *ret_kinds) {
  const LlmAttention full = llm_full_attention(llm), sliding = llm_sliding_attention(llm);
  const LayerKind kinds[KINDS_MOST] = {
      {KV_STATE, llm->num_linear_layers, 0,
       (double)llm->state_bytes_per_sequence / fmax((double)llm->num_linear_layers, 1)},
      {KV_WINDOW, sliding.layers, sliding.window,
       llm_layer_kv_bytes(llm, true) * (double)kv_copies(sliding.kv_heads, tp)},
      {KV_FULL, full.layers, 0,
       llm_layer_kv_bytes(llm, false) * (double)kv_copies(llm_cached_heads(llm), tp)}};
  int n = 0;
  for (int i = 0; i < KINDS_MOST; i++)
    if (kinds[i].layers > 0) ret_kinds[n++] = kinds[i];
  return n;
}

/* Layers of a group. */
static int64_t group_layers(const LayerKind *kinds, int n) {
  int64_t least = INT64_MAX, most = 0;
  for (int i = 0; i < n; i++) {
    if (kinds[i].layers < least) least = kinds[i].layers;
    if (kinds[i].layers > most) most = kinds[i].layers;
  }
  return 2 * most < 3 * least ? most : least;
}

/* Bytes of a block of one layer. */
static double page_bytes(const LayerKind *kinds, int n, int64_t block_size) {
  const double block = (double)block_size;
  double page = 0, state = 0, attention = 0;
  for (int i = 0; i < n; i++) {
    double *largest = kinds[i].kind == KV_STATE ? &state : &attention;
    *largest = fmax(*largest, kinds[i].bytes);
    if (kinds[i].kind != KV_STATE) page = fmax(page, block * kinds[i].bytes);
  }
  return state > page ? block * attention * ceil(state / (block * attention)) : page;
}

/* Whole times block_size, as many as its bytes are in a page. */
static int64_t block_tokens(const LayerKind *kind, double page, int64_t block_size) {
  return block_size * (int64_t)(page / (kind->bytes * (double)block_size));
}

const KvLayout *kv_layout_of(const Llm *llm, int64_t tp, int64_t block_size, Arena *arena) {
  LayerKind kinds[KINDS_MOST];
  const int n = kinds_of(llm, tp, kinds);
  if (llm->kv_share > 0 || (n == 1 && kinds[0].kind == KV_FULL) || kinds[n - 1].kind == KV_STATE)
    return NULL;
  const int64_t layers = group_layers(kinds, n);
  const double page = page_bytes(kinds, n, block_size);
  const int64_t whole = block_tokens(&kinds[n - 1], page, block_size);
  int32_t n_groups = 0;
  KvGroupSpec *groups = ARENA_ARRAY(arena, KvGroupSpec, llm->num_hidden_layers);
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < kinds[i].layers; k += layers)
      groups[n_groups++] = (KvGroupSpec){
          .kind = kinds[i].kind,
          .block_size =
              kinds[i].kind == KV_STATE ? whole : block_tokens(&kinds[i], page, block_size),
          .window = kinds[i].window};
  KvLayout *self = ARENA_NEW(arena, KvLayout);
  *self = (KvLayout){.groups = groups,
                     .n_groups = n_groups,
                     .block_size = whole,
                     .block_bytes = (int64_t)ceil(page * (double)layers)};
  return self;
}

/* A window may begin within a block, and the next state is made of the one before. */
int64_t kv_layout_blocks(const KvLayout *self, int64_t tokens) {
  int64_t blocks = 0;
  for (int32_t g = 0; g < self->n_groups; g++) {
    const KvGroupSpec *group = &self->groups[g];
    const int64_t all = (tokens + group->block_size - 1) / group->block_size;
    int64_t most = all;
    if (group->kind == KV_WINDOW) most = (group->window - 1) / group->block_size + 2;
    if (group->kind == KV_STATE) most = 2;
    blocks += all < most ? all : most;
  }
  return blocks;
}
