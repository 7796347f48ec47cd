/* A batch as the kernels want it: which token of which sequence lies where. No CUDA needed.
 *
 * Rows are tokens: those of the prefill chunks in order, then one for each decode. Pages of a
 * sequence are drawn at random from a layer's part of the KV pool, none twice, and are the same in
 * all layers. The arrays lie in one piece, so that they go to the device in one copy. */
#ifndef KERNELS_BATCH_LAYOUT_H
#define KERNELS_BATCH_LAYOUT_H
#include "calib/backend.h"
#include "kernels/split_kv.h"
#include <stdlib.h>

/* What malloc has given; without memory the program ends. */
static inline void *must(void *memory) {
  if (!memory) abort();
  return memory;
}

/* What the layout depends on besides the batch. */
typedef struct BatchPlace {
  int32_t block_size, group, kv_heads; // `group` query heads share a kv head
  int32_t layers;                      // whose KV is to be distinct
  int64_t n_pages;                     // in the pool
  int32_t max_positions;               // of a table of positions; 0: there is none
  /* Blocks of attention that run at once, of prefills by tiles of 64 and of 128 rows. */
  int32_t decode_blocks, prefill_blocks[2];
  int32_t wgmma_blocks; // of prefill attention by wgmma; 0: it is not asked for
  uint64_t seed;
} BatchPlace;

/* The arrays, in host or in device memory. */
typedef struct BatchArrays {
  int32_t *positions;       // [tokens]
  int32_t *slots;           // [tokens]
  int32_t *row_starts;      // [n_prefills + 1]
  int32_t *past;            // [n_prefills]
  int32_t *prefill_starts;  // [n_prefills + 1], rows of partial results
  int32_t *contexts;        // [n_decodes], the new token included
  int32_t *split_starts;    // [n_decodes + 1]
  int32_t *split_sequences; // [decode_splits.rows]
  int32_t *logit_rows;      // [n_logits]
  int32_t *page_table;      // [n_prefills + n_decodes][max_pages]
} BatchArrays;

typedef struct BatchLayout {
  int32_t tokens, prefill_tokens, n_prefills, n_decodes, n_logits;
  int32_t max_new, max_pages;
  int32_t tile_rows;                       // of prefill attention
  int32_t wgmma_rows;                      // of it by wgmma, which has no splits; 0: it is not
  SplitPlan prefill_splits, decode_splits; // of attention
  int32_t kv_layers;                       // distinct parts of the pool
  int64_t pages, part_pages;               // of the batch; of a part
  int32_t *words;                          // all arrays; by malloc
  size_t n_words;
  BatchArrays at;
} BatchLayout;

/* CALIB_REJECTED for a batch of no or of negative tokens or of too many logits, or one that is
 * longer than max_positions; CALIB_OUT_OF_MEMORY if its pages do not fit the pool once. On success
 * the layout is to be released by batch_layout_done. */
CalibStatus batch_layout_init(BatchLayout *self, const BatchPlace *place, const CalibBatch *batch,
                              char *error);
void batch_layout_done(BatchLayout *self);
/* Pages of KV that a batch has in each layer. */
int64_t batch_pages(const CalibBatch *batch, int32_t block_size);
/* The same arrays in a copy of `words`. */
BatchArrays batch_layout_arrays(const BatchLayout *self, int32_t *words);
/* `n` numbers below `limit`, none twice, in random order; n ≤ limit < 2³¹. */
void draw_pages(int32_t *ret_pages, int64_t n, int64_t limit, uint64_t seed);
#endif
