/* How attention finds and divides a KV cache: where a token lies in the pages, how contexts are
 * split over thread blocks, how the results are put together. Pure functions for host and device.
 *
 * A split is up to `tokens` tokens of one context; a context has ⌈context / tokens⌉ of them, so
 * every token is in exactly one. Each row of queries has a partial result for each split. */
#ifndef KERNELS_SPLIT_KV_H
#define KERNELS_SPLIT_KV_H
#include <math.h>
#include <stdbool.h>
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
/* Costs are in tokens: the time in which a block takes one while all places are taken, some 50 ns.
 * What a split costs besides its tokens: a block's start. */
#define SPLIT_KV_OVERHEAD_TOKENS 128
/* A block that has few beside it takes tokens in such a share of the time, at least, in percent:
 * decodes, which the memory bounds; prefills, which the tensor cores of a multiprocessor bound: 29
 * in place of 38 ns a token on an H100. */
#define SPLIT_KV_DECODE_ALONE  50
#define SPLIT_KV_PREFILL_ALONE 76
/* Joining: another launch and its way to memory, a token for so many splits of a row, and one for
 * so many results of a row that go to the L2 cache and come back. */
#define SPLIT_KV_JOIN_TOKENS   40
#define SPLIT_KV_JOINED_SPLITS 8
#define SPLIT_KV_JOINED_ROWS   128
/* Prefills by wgmma on an H100: the times of a token for tiles of 128 and 192 rows, 14 and 18 ns;
 * how often a third of it goes into the time that a token of splits takes, and their start. */
#define SPLIT_KV_WGMMA_128    13
#define SPLIT_KV_WGMMA_192    16
#define SPLIT_KV_WGMMA_FASTER 10
#define SPLIT_KV_WGMMA_START  768

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

/* The kernel that splits: the share of its time that a block with few beside it takes, in percent,
 * and rows of results that a block leaves to the join. */
typedef struct SplitKernel {
  int32_t alone, rows;
} SplitKernel;

SPLIT_KV_INLINE SplitKernel split_kv_decodes(void) {
  SplitKernel kernel = {SPLIT_KV_DECODE_ALONE, 1};
  return kernel;
}

SPLIT_KV_INLINE SplitKernel split_kv_prefills(int32_t tile_rows) {
  SplitKernel kernel = {SPLIT_KV_PREFILL_ALONE, tile_rows};
  return kernel;
}

/* What all splits of contexts come to. */
typedef struct SplitLoad {
  int64_t tokens, n_blocks, longest, most; // `most` splits of one context
  int64_t starts;                          // of blocks, that the tokens of others do not hide
  int64_t n_joined;                        // blocks whose results are joined
} SplitLoad;

SPLIT_KV_INLINE SplitLoad split_kv_load(const int32_t *contexts, int32_t sequences,
                                        int32_t kv_heads, int32_t split_tokens, int32_t alone) {
  SplitLoad load = {0, 0, 0, 1, 0, 0};
  for (int32_t i = 0; i < sequences; i++) {
    int64_t n_splits = split_kv_count(contexts[i], split_tokens);
    int64_t split = contexts[i] < split_tokens ? contexts[i] : split_tokens;
    int64_t fastest = split * alone / 100 + SPLIT_KV_OVERHEAD_TOKENS;
    load.tokens += (int64_t)kv_heads * contexts[i];
    load.n_blocks += kv_heads * n_splits;
    load.longest = split > load.longest ? split : load.longest;
    load.most = n_splits > load.most ? n_splits : load.most;
    load.starts += fastest > split ? kv_heads * n_splits * (fastest - split) : 0;
    load.n_joined += n_splits > 1 ? kv_heads * n_splits : 0;
  }
  return load;
}

/* About how long all splits take and their join, in tokens of one block, when `slots` blocks run at
 * once and one of few takes `alone` percent of its time. Splits that all run at once share what
 * bounds them. More of them run in rounds, the last of them with fewer blocks. Of unequal ones a
 * long one starts when others have ended, on average with half of its length to go when the work
 * per slot is done. */
SPLIT_KV_INLINE int64_t split_kv_cost(const int32_t *contexts, int32_t sequences, int32_t kv_heads,
                                      int32_t slots, int32_t split_tokens, SplitKernel kernel) {
  SplitLoad load = split_kv_load(contexts, sequences, kv_heads, split_tokens, kernel.alone);
  int64_t join = load.most > 1 ? SPLIT_KV_JOIN_TOKENS + load.most / SPLIT_KV_JOINED_SPLITS +
                                     load.n_joined * kernel.rows / SPLIT_KV_JOINED_ROWS
                               : 0;
  int64_t fastest = load.longest * kernel.alone / 100 + SPLIT_KV_OVERHEAD_TOKENS;
  if (load.n_blocks <= slots) {
    int64_t shared = load.tokens / slots + SPLIT_KV_OVERHEAD_TOKENS;
    return (shared > fastest ? shared : fastest) + join;
  }
  int64_t longest = load.longest + SPLIT_KV_OVERHEAD_TOKENS, round = longest * slots;
  int64_t work = load.tokens + load.n_blocks * SPLIT_KV_OVERHEAD_TOKENS;
  int64_t rest = work % round / slots;
  int64_t rounds = work / round * longest + (rest > 0 && rest < fastest ? fastest : rest);
  int64_t uneven =
      (load.tokens + load.starts) / slots + SPLIT_KV_OVERHEAD_TOKENS + longest * kernel.alone / 200;
  return (work < load.n_blocks * longest && uneven > rounds ? uneven : rounds) + join;
}

/* The length of splits that takes the least time by split_kv_cost, among those that divide the
 * longest context evenly; of equals the longest. Contexts are 1 or more; slots is how many
 * blocks run at once (KernelResidency). */
SPLIT_KV_INLINE int32_t split_kv_tokens(const int32_t *contexts, int32_t sequences,
                                        int32_t kv_heads, int32_t slots, SplitKernel kernel) {
  int32_t longest = 1, best = 0;
  for (int32_t i = 0; i < sequences; i++) {
    longest = contexts[i] > longest ? contexts[i] : longest;
  }
  int64_t best_cost = INT64_MAX;
  for (int32_t n_splits = 1; n_splits <= slots; n_splits++) {
    int32_t tiles = split_kv_count(split_kv_count(longest, n_splits), SPLIT_KV_TILE_TOKENS);
    int32_t tokens = tiles * SPLIT_KV_TILE_TOKENS;
    int64_t cost = tokens == best
                       ? best_cost
                       : split_kv_cost(contexts, sequences, kv_heads, slots, tokens, kernel);
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

/* How contexts are split: the length of a split, rows of partial results of all, and the most
 * splits of a row. */
typedef struct SplitPlan {
  int32_t tokens, rows, most;
} SplitPlan;

/* Fills starts[sequences + 1] with the number of splits of the sequences before; returns all. */
SPLIT_KV_INLINE int32_t split_kv_starts(const int32_t *contexts, int32_t sequences,
                                        int32_t split_tokens, int32_t *starts) {
  starts[0] = 0;
  for (int32_t i = 0; i < sequences; i++) {
    starts[i + 1] = starts[i] + split_kv_count(contexts[i], split_tokens);
  }
  return starts[sequences];
}

/* The plan of decodes, a row of queries each, with splits of a length. */
SPLIT_KV_INLINE SplitPlan split_kv_plan_of(const int32_t *contexts, int32_t sequences,
                                           int32_t split_tokens) {
  SplitPlan plan = {split_tokens, 0, 1};
  for (int32_t i = 0; i < sequences; i++) {
    int32_t n_splits = split_kv_count(contexts[i], split_tokens);
    plan.rows += n_splits;
    plan.most = n_splits > plan.most ? n_splits : plan.most;
  }
  return plan;
}

SPLIT_KV_INLINE SplitPlan split_kv_plan(const int32_t *contexts, int32_t sequences,
                                        int32_t kv_heads, int32_t slots) {
  return split_kv_plan_of(
      contexts, sequences,
      split_kv_tokens(contexts, sequences, kv_heads, slots, split_kv_decodes()));
}

/* Rows of a tile of prefill attention, 128, or 64 where there would be fewer tiles than the
 * `wide_slots` that run at once. Rows are packed: token · group + head of the group. */
SPLIT_KV_INLINE int32_t split_kv_tile_rows(int32_t group, int32_t kv_heads, int32_t sequences,
                                           int32_t max_new, int32_t wide_slots) {
  int64_t tiles = ((int64_t)max_new * group + 127) / 128 * sequences * kv_heads;
  return wide_slots > 0 && tiles >= wide_slots ? 128 : 64;
}

/* Tokens that the first row of a tile sees, which are what is split: each row of the tile then sees
 * the first token of each split. The last split goes on as far as the last row sees. */
SPLIT_KV_INLINE int32_t split_kv_tile_sees(int32_t past, int32_t tile, int32_t tile_rows,
                                           int32_t group) {
  return past + tile * tile_rows / group + 1;
}

/* Of no splits: longer than any context. */
#define SPLIT_KV_WHOLE (1 << 30)

/* The length of splits of prefills: SPLIT_KV_WHOLE unless tiles of 64 rows are fewer than `slots`.
 * `sees` has room for slots numbers. */
SPLIT_KV_INLINE int32_t split_kv_prefill_tokens(const int32_t *row_starts, const int32_t *past,
                                                int32_t sequences, int32_t group, int32_t kv_heads,
                                                int32_t tile_rows, int32_t slots, int32_t *sees) {
  int32_t n_tiles = 0;
  for (int32_t i = 0; i < sequences; i++) {
    int32_t tiles = split_kv_count((row_starts[i + 1] - row_starts[i]) * group, tile_rows);
    for (int32_t tile = 0; tile < tiles && n_tiles < slots; tile++) {
      sees[n_tiles++] = split_kv_tile_sees(past[i], tile, tile_rows, group);
    }
  }
  bool is_short = n_tiles > 0 && tile_rows == 64 && (int64_t)n_tiles * kv_heads < slots;
  return is_short ? split_kv_tokens(sees, n_tiles, kv_heads, slots, split_kv_prefills(tile_rows))
                  : SPLIT_KV_WHOLE;
}

/* The plan of prefills. Fills starts[sequences + 1] with the rows of partial results before: of a
 * sequence with splits each row has as many as the most of them. */
SPLIT_KV_INLINE SplitPlan split_kv_prefill_plan(const int32_t *row_starts, const int32_t *past,
                                                int32_t sequences, int32_t group, int32_t tile_rows,
                                                int32_t split_tokens, int32_t *starts) {
  SplitPlan plan = {split_tokens, 0, 1};
  starts[0] = 0;
  for (int32_t i = 0; i < sequences; i++) {
    int32_t rows = row_starts[i + 1] - row_starts[i];
    int32_t last = split_kv_count(rows * group, tile_rows) - 1;
    int32_t n_splits =
        split_kv_count(split_kv_tile_sees(past[i], last, tile_rows, group), split_tokens);
    starts[i + 1] = starts[i] + (n_splits > 1 ? rows * n_splits : 0);
    plan.most = n_splits > plan.most ? n_splits : plan.most;
  }
  plan.rows = starts[sequences];
  return plan;
}

/* Tokens that tiles of `tile_rows` rows see: the most of one, and each block's share of all. */
typedef struct TileLoad {
  int64_t longest, share;
} TileLoad;

SPLIT_KV_INLINE TileLoad split_kv_tile_load(const int32_t *row_starts, const int32_t *past,
                                            int32_t sequences, int32_t group, int32_t kv_heads,
                                            int32_t tile_rows, int32_t blocks) {
  TileLoad load = {0, 0};
  for (int32_t i = 0; i < sequences; i++) {
    int32_t rows = row_starts[i + 1] - row_starts[i];
    int64_t most = past[i] + rows, least = past[i] + tile_rows / group;
    load.longest = most > load.longest ? most : load.longest;
    load.share +=
        (int64_t)split_kv_count(rows * group, tile_rows) * ((least < most ? least : most) + most);
  }
  load.share = load.share * kv_heads / (2 * blocks);
  return load;
}

/* Rows of a tile of prefill attention by wgmma, whose blocks, `blocks` at once, take tiles without
 * splits: 128, or 192, which are the faster where there are enough of them; 0 where the other
 * kernel, with splits, is faster, since the longest tile takes longer than that. */
SPLIT_KV_INLINE int32_t split_kv_wgmma_rows(const int32_t *row_starts, const int32_t *past,
                                            int32_t sequences, int32_t group, int32_t kv_heads,
                                            int32_t blocks) {
  if (blocks == 0 || sequences == 0) {
    return 0;
  }
  TileLoad low = split_kv_tile_load(row_starts, past, sequences, group, kv_heads, 128, blocks);
  TileLoad high = split_kv_tile_load(row_starts, past, sequences, group, kv_heads, 192, blocks);
  int64_t low_time = low.longest > low.share ? low.longest : low.share;
  int64_t high_time = high.longest > high.share ? high.longest : high.share;
  if (3 * low.longest > SPLIT_KV_WGMMA_FASTER * low.share + 3 * SPLIT_KV_WGMMA_START) {
    return 0;
  }
  return SPLIT_KV_WGMMA_192 * high_time < SPLIT_KV_WGMMA_128 * low_time ? 192 : 128;
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
