/* How attention finds and divides a KV cache: where a token lies in the pages, how decode attention
 * splits contexts over thread blocks, how it puts the results together. Pure functions for host and
 * device.
 *
 * A split is up to split_tokens tokens of one sequence; sequence i has ⌈contexts[i] / split_tokens⌉
 * of them, numbered from split_starts[i], so every token is in exactly one. */
#ifndef KERNELS_SPLIT_KV_H
#define KERNELS_SPLIT_KV_H
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SPLIT_KV_INLINE static __host__ __device__ __forceinline__
#else
#define SPLIT_KV_INLINE static inline
#endif

/* Tokens that a warp takes at a time; pages hold a multiple of it. */
#define KV_GRANULE_TOKENS 16
/* Tokens that a block takes at a time; splits are a multiple of it. */
#define SPLIT_KV_TILE_TOKENS 64
/* What a split costs besides its tokens, in tokens: a block's start, and its part of combining. */
#define SPLIT_KV_OVERHEAD_TOKENS 128

/* --- pages: [page][K or V][kv_head][token][head_dim] ------------------------------------------ */

/* The slot of a token: page · block_size + offset. */
SPLIT_KV_INLINE int32_t kv_slot(const int32_t *pages, int32_t token, int32_t block_size) {
  return pages[token / block_size] * block_size + token % block_size;
}

/* The row of head_dim elements that holds a token's K of a head; its V lies kv_heads pages' tokens
 * on, and what follows in the page follows. Pages hold 2^page_shift tokens. */
SPLIT_KV_INLINE int32_t kv_row(const int32_t *pages, int32_t token, int32_t page_shift,
                               int32_t kv_heads, int32_t kv_head) {
  int32_t page = pages[token >> page_shift], offset = token & ((1 << page_shift) - 1);
  return ((page * 2 * kv_heads + kv_head) << page_shift) + offset;
}

/* From the row of a K to that of its V. */
SPLIT_KV_INLINE int32_t kv_value_rows(int32_t page_shift, int32_t kv_heads) {
  return kv_heads << page_shift;
}

/* --- the plan --------------------------------------------------------------------------------- */

SPLIT_KV_INLINE int32_t split_kv_count(int32_t context, int32_t split_tokens) {
  return (context + split_tokens - 1) / split_tokens;
}

/* About how long all splits take, in tokens of one block, when `slots` blocks run at once. Equal
 * splits run in rounds. Of unequal ones a long one starts when others have ended, on average with
 * half of its length to go when the work per slot is done. */
SPLIT_KV_INLINE int64_t split_kv_cost(const int32_t *contexts, int32_t sequences, int32_t kv_heads,
                                      int32_t slots, int32_t split_tokens) {
  int64_t work = 0, longest = 0, n_blocks = 0;
  for (int32_t i = 0; i < sequences; i++) {
    int64_t n_splits = split_kv_count(contexts[i], split_tokens);
    int64_t split = contexts[i] < split_tokens ? contexts[i] : split_tokens;
    n_blocks += kv_heads * n_splits;
    work += kv_heads * (contexts[i] + n_splits * SPLIT_KV_OVERHEAD_TOKENS);
    longest = split > longest ? split : longest;
  }
  longest += SPLIT_KV_OVERHEAD_TOKENS;
  int64_t rounds = (work + longest * slots - 1) / (longest * slots) * longest;
  int64_t uneven = work / slots + longest / 2;
  return n_blocks > slots && work < n_blocks * longest && uneven > rounds ? uneven : rounds;
}

/* The length of splits that takes the least time by split_kv_cost, among those that divide the
 * longest context evenly; of equals the longest. Contexts are 1 or more; slots is how many
 * blocks run at once (KernelResidency). */
SPLIT_KV_INLINE int32_t split_kv_tokens(const int32_t *contexts, int32_t sequences,
                                        int32_t kv_heads, int32_t slots) {
  int32_t longest = 1, best = 0;
  for (int32_t i = 0; i < sequences; i++) {
    longest = contexts[i] > longest ? contexts[i] : longest;
  }
  int64_t best_cost = INT64_MAX;
  for (int32_t n_splits = 1; n_splits <= slots; n_splits++) {
    int32_t tiles = split_kv_count(split_kv_count(longest, n_splits), SPLIT_KV_TILE_TOKENS);
    int32_t tokens = tiles * SPLIT_KV_TILE_TOKENS;
    int64_t cost =
        tokens == best ? best_cost : split_kv_cost(contexts, sequences, kv_heads, slots, tokens);
    if (cost < best_cost) {
      best_cost = cost;
      best = tokens;
    }
    if (tiles == 1) {
      break;
    }
  }
  return best;
}

/* Fills starts[sequences + 1] with the number of splits of the sequences before; returns all. */
SPLIT_KV_INLINE int32_t split_kv_starts(const int32_t *contexts, int32_t sequences,
                                        int32_t split_tokens, int32_t *starts) {
  starts[0] = 0;
  for (int32_t i = 0; i < sequences; i++) {
    starts[i + 1] = starts[i] + split_kv_count(contexts[i], split_tokens);
  }
  return starts[sequences];
}

/* Fills owners[starts[sequences]] with the sequence of each split. */
SPLIT_KV_INLINE void split_kv_owners(const int32_t *starts, int32_t sequences, int32_t *owners) {
  for (int32_t i = 0; i < sequences; i++) {
    for (int32_t split = starts[i]; split < starts[i + 1]; split++) {
      owners[split] = i;
    }
  }
}

/* The tokens begin … end − 1 of the `index`-th split of a sequence. */
typedef struct SplitRange {
  int32_t begin, end;
} SplitRange;

SPLIT_KV_INLINE SplitRange split_kv_range(int32_t index, int32_t context, int32_t split_tokens) {
  SplitRange range = {index * split_tokens, (index + 1) * split_tokens};
  range.end = range.end < context ? range.end : context;
  return range;
}

/* --- partial softmax -------------------------------------------------------------------------- */

/* The state of a softmax over some of the keys: the greatest logit, in base 2, and the sum of
 * 2^(logit − max). The weighted sum of values is kept beside it on the same scale. No keys yet:
 * {−∞, 0}. */
typedef struct PartialSoftmax {
  float max, sum;
} PartialSoftmax;

/* What to multiply a state's sum and values by to put them on the scale of `max`, which is not less
 * than its own and is finite. */
SPLIT_KV_INLINE float partial_softmax_weight(PartialSoftmax partial, float max) {
  return exp2f(partial.max - max);
}

/* The union of two states, not both of no keys. */
SPLIT_KV_INLINE PartialSoftmax partial_softmax_join(PartialSoftmax a, PartialSoftmax b) {
  float max = a.max > b.max ? a.max : b.max;
  PartialSoftmax joined = {max, a.sum * partial_softmax_weight(a, max) +
                                    b.sum * partial_softmax_weight(b, max)};
  return joined;
}
#endif
