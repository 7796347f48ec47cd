/* split_kv.h on the host, over random batches: each token is in exactly one split and each split
 * knows its sequence; a plan keeps thread blocks about as busy as the best one does; joined partial
 * softmaxes are the softmax over all keys; rows of pages are where the layout has them. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/split_kv.h"

enum { MAX_SEQUENCES = 64, MAX_CONTEXT = 20000, MAX_SLOTS = 264 };

static uint32_t random_state = 1;

static int32_t random_below(int32_t limit) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int32_t)((uint64_t)random_state * (uint64_t)limit >> 32);
}

/* Contexts that are mostly short, some long; returns how many. */
static int32_t random_batch(int32_t *contexts) {
  int32_t n = 1 + random_below(MAX_SEQUENCES);
  int32_t limits[] = {40, 600, 600, MAX_CONTEXT};
  for (int32_t i = 0; i < n; i++) {
    contexts[i] = 1 + random_below(limits[random_below(4)]);
  }
  return n;
}

static void test_cover(void) {
  int32_t contexts[MAX_SEQUENCES], starts[MAX_SEQUENCES + 1];
  int32_t n = random_batch(contexts);
  int32_t tokens = split_kv_tokens(contexts, n, 1 + random_below(8), 1 + random_below(MAX_SLOTS));
  assert(tokens > 0 && tokens % SPLIT_KV_TILE_TOKENS == 0);
  int32_t n_splits = split_kv_starts(contexts, n, tokens, starts);
  int32_t *owners = malloc((size_t)n_splits * sizeof *owners);
  split_kv_owners(starts, n, owners);
  for (int32_t i = 0, split = 0; i < n; i++) {
    assert(starts[i] == split);
    for (int32_t covered = 0; covered < contexts[i]; split++) {
      SplitRange range = split_kv_range(split - starts[i], contexts[i], tokens);
      assert(owners[split] == i && range.begin == covered && range.end > covered);
      assert(range.end == contexts[i] || range.end == covered + tokens);
      assert(range.end <= contexts[i]);
      covered = range.end;
    }
    assert(starts[i + 1] == split);
  }
  assert(starts[n] == n_splits);
  free(owners);
}

/* When the last split ends if each starts, in order, on the slot that is free first. */
static int64_t makespan_of(const int32_t *contexts, int32_t n, int32_t kv_heads, int32_t slots,
                           int32_t tokens) {
  int64_t ends[MAX_SLOTS] = {0}, last = 0;
  for (int32_t i = 0; i < n * kv_heads; i++) {
    int32_t context = contexts[i % n];
    for (int32_t split = 0; split < split_kv_count(context, tokens); split++) {
      SplitRange range = split_kv_range(split, context, tokens);
      int32_t first = 0;
      for (int32_t slot = 1; slot < slots; slot++) {
        first = ends[slot] < ends[first] ? slot : first;
      }
      ends[first] += range.end - range.begin + SPLIT_KV_OVERHEAD_TOKENS;
      last = ends[first] > last ? ends[first] : last;
    }
  }
  return last;
}

static double balance_of(const int32_t *contexts, int32_t n, int32_t kv_heads, int32_t slots) {
  int64_t best = INT64_MAX;
  for (int32_t tiles = 1; tiles * SPLIT_KV_TILE_TOKENS <= MAX_CONTEXT * 2; tiles += tiles / 8 + 1) {
    int64_t other = makespan_of(contexts, n, kv_heads, slots, tiles * SPLIT_KV_TILE_TOKENS);
    best = other < best ? other : best;
  }
  int32_t planned = split_kv_tokens(contexts, n, kv_heads, slots);
  return (double)makespan_of(contexts, n, kv_heads, slots, planned) / (double)best;
}

/* Batches of unequal and of equal contexts. */
static void test_balance(void) {
  enum { N_BATCHES = 60 };
  int32_t contexts[MAX_SEQUENCES];
  double worst = 0, sum = 0;
  for (int i = 0; i < N_BATCHES; i++) {
    int32_t n = random_batch(contexts), kv_heads = 1 + random_below(4);
    for (int32_t k = 1; k < n && i % 2 == 1; k++) {
      contexts[k] = contexts[0];
    }
    double balance = balance_of(contexts, n, kv_heads, 16 + random_below(64));
    worst = fmax(worst, balance);
    sum += balance;
  }
  printf("split_kv: plans take %.3f of the best one's time, at most %.2f\n", sum / N_BATCHES,
         worst);
  assert(worst < 1.2 && sum / N_BATCHES < 1.02);
}

/* Keys in random parts, some of them empty, joined in pairs from left to right. */
static void test_join(void) {
  int32_t n = 1 + random_below(300), parts = 1 + random_below(9), at = 0;
  double sum = 0, value = 0, joined_value = 0;
  PartialSoftmax joined = {-INFINITY, 0};
  float *logits = malloc((size_t)n * sizeof *logits);
  for (int32_t i = 0; i < n; i++) {
    logits[i] = (float)(random_below(60000) - 30000) / 1000;
    sum += exp2(logits[i]);
    value += exp2(logits[i]) * i;
  }
  for (int32_t part = 1; part <= parts; part++) {
    int32_t end = part == parts ? n : at + random_below(n - at + 1);
    PartialSoftmax own = {-INFINITY, 0};
    double own_value = 0;
    for (int32_t i = at; i < end; i++) {
      own.max = logits[i] > own.max ? logits[i] : own.max;
    }
    for (int32_t i = at; i < end; i++) {
      own.sum += exp2f(logits[i] - own.max);
      own_value += exp2(logits[i] - own.max) * i;
    }
    if (joined.sum > 0 || own.sum > 0) {
      PartialSoftmax both = partial_softmax_join(joined, own);
      joined_value = joined_value * partial_softmax_weight(joined, both.max) +
                     own_value * partial_softmax_weight(own, both.max);
      joined = both;
    }
    at = end;
  }
  assert(fabs(joined_value / joined.sum - value / sum) <= 1e-4 * (1 + value / sum));
  assert(fabs(log2(joined.sum) + joined.max - log2(sum)) <= 1e-5);
  free(logits);
}

/* Rows are counted through [page][K or V][kv_head][token]. */
static void test_rows(void) {
  int32_t page_shift = 4 + random_below(4), block_size = 1 << page_shift;
  int32_t kv_heads = 1 + random_below(9), pages[4] = {6, 0, 9, 3};
  for (int32_t token = 0; token < 4 * block_size; token++) {
    int32_t head = random_below(kv_heads), page = pages[token / block_size];
    int32_t offset = token % block_size;
    int32_t row = kv_row(pages, token, page_shift, kv_heads, head);
    assert(row == ((page * 2 + 0) * kv_heads + head) * block_size + offset);
    assert(row + kv_value_rows(page_shift, kv_heads) ==
           ((page * 2 + 1) * kv_heads + head) * block_size + offset);
    assert(kv_slot(pages, token, block_size) == page * block_size + offset);
  }
}

int main(void) {
  for (int i = 0; i < 300; i++) {
    test_cover();
    test_join();
    test_rows();
  }
  test_balance();
  return 0;
}
