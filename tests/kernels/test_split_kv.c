/* split_kv.h on the host, over random batches: each token is in exactly one split and each split
 * knows its sequence; a plan keeps thread blocks about as busy as the best one does; chunks of
 * prefills are split where their tiles are few; joined partial softmaxes are the softmax over all
 * keys; rows of pages are where the layout has them. */
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
  int32_t tokens = split_kv_tokens(contexts, n, 1 + random_below(8), 1 + random_below(MAX_SLOTS),
                                   random_below(2) ? split_kv_decodes() : split_kv_prefills(64));
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

/* What runs in a slot: first the block's start, then tokens, at a share of the bandwidth. */
typedef struct Slot {
  double start, tokens;
} Slot;

/* Lets all slots run until the first of them has ended a part; returns how long that took. */
static double run_slots(Slot *slots, int32_t n) {
  int32_t n_streams = 0;
  double least = INFINITY;
  for (int32_t i = 0; i < n; i++) {
    n_streams += slots[i].start <= 0 && slots[i].tokens > 0;
  }
  double rate = n_streams > 0 ? fmin(100.0 / SPLIT_KV_DECODE_ALONE, (double)n / n_streams) : 1;
  for (int32_t i = 0; i < n; i++) {
    double left = slots[i].start > 0 ? slots[i].start : slots[i].tokens / rate;
    least = left > 0 ? fmin(least, left) : least;
  }
  for (int32_t i = 0; i < n; i++) {
    double *part = slots[i].start > 0 ? &slots[i].start : &slots[i].tokens;
    *part -= part == &slots[i].start ? least : least * rate;
    *part = *part < 1e-6 ? 0 : *part;
  }
  return least;
}

/* When the join ends, if each split starts, in order, on the slot that is free first. */
static double makespan_of(const int32_t *contexts, int32_t n, int32_t kv_heads, int32_t n_slots,
                          int32_t tokens) {
  Slot slots[MAX_SLOTS] = {{0, 0}};
  int32_t pair = 0, split = 0, most = split_kv_plan_of(contexts, n, tokens).most;
  double now = most > 1 ? SPLIT_KV_JOIN_TOKENS + (double)most / SPLIT_KV_JOINED_SPLITS : 0;
  for (bool is_busy = true; is_busy;) {
    is_busy = false;
    for (int32_t i = 0; i < n_slots; i++) {
      if (slots[i].start <= 0 && slots[i].tokens <= 0 && pair < n * kv_heads) {
        SplitRange range = split_kv_range(split, contexts[pair % n], tokens);
        slots[i] = (Slot){SPLIT_KV_OVERHEAD_TOKENS, range.end - range.begin};
        bool is_last = range.end == contexts[pair % n];
        split = is_last ? 0 : split + 1;
        pair += is_last;
      }
      is_busy = is_busy || slots[i].start > 0 || slots[i].tokens > 0;
    }
    now += is_busy ? run_slots(slots, n_slots) : 0;
  }
  return now;
}

static double balance_of(const int32_t *contexts, int32_t n, int32_t kv_heads, int32_t slots) {
  double best = INFINITY;
  for (int32_t tiles = 1; tiles * SPLIT_KV_TILE_TOKENS <= MAX_CONTEXT * 2; tiles += tiles / 8 + 1) {
    best = fmin(best, makespan_of(contexts, n, kv_heads, slots, tiles * SPLIT_KV_TILE_TOKENS));
  }
  int32_t planned = split_kv_plan(contexts, n, kv_heads, slots).tokens;
  return makespan_of(contexts, n, kv_heads, slots, planned) / best;
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

/* One sequence and kv head on the multiprocessors of an A100 (a block each), an H100 and a B200
 * (two each): a short context stays whole, a long one has as many blocks as read as fast as any. */
static void test_one_sequence(void) {
  static const int32_t slots[] = {108, 264, 296}, most[] = {64, 128, 128};
  for (int i = 0; i < 3; i++) {
    int32_t context = 128;
    assert(split_kv_plan(&context, 1, 1, slots[i]).most == 1);
    context = 16384;
    SplitPlan plan = split_kv_plan(&context, 1, 1, slots[i]);
    printf("split_kv: 16384 tokens on %d slots: %d splits of %d\n", slots[i], plan.most,
           plan.tokens);
    assert(plan.most == most[i] && plan.rows == plan.most);
  }
}

/* Chunks as prefill attention splits them: each row sees the first token of each split of its tile,
 * what rows see is split without gaps, and no two results share a place. */
static void test_prefills(void) {
  int32_t past[9], starts[10], row_starts[10] = {0}, sees[MAX_SLOTS];
  int32_t n = 1 + random_below(8), group = 1 + random_below(12), kv_heads = 1 + random_below(3);
  for (int32_t i = 0; i < n; i++) {
    past[i] = random_below(random_below(2) ? 9000 : 200);
    row_starts[i + 1] = row_starts[i] + 1 + random_below(random_below(2) ? 90 : 9);
  }
  int32_t slots = 60 + random_below(MAX_SLOTS - 60);
  int32_t tokens = split_kv_prefill_tokens(row_starts, past, n, group, kv_heads, 64, slots, sees);
  SplitPlan plan = split_kv_prefill_plan(row_starts, past, n, group, 64, tokens, starts);
  unsigned char *taken = calloc((size_t)plan.rows + 1, 1);
  for (int32_t i = 0; i < n; i++) {
    int32_t rows = row_starts[i + 1] - row_starts[i];
    for (int32_t row = 0; row < rows; row++) { // the first head of each
      int32_t tile = row * group / 64, own = past[i] + row + 1, covered = 0;
      int32_t first_sees = split_kv_tile_sees(past[i], tile, 64, group);
      int32_t n_splits = split_kv_count(first_sees, tokens);
      assert(first_sees <= own && n_splits <= plan.most);
      for (int32_t split = 0; split < n_splits; split++) {
        SplitRange range = split_kv_range(split, own, tokens);
        assert(range.begin == covered && range.begin < own);
        covered = split + 1 == n_splits ? own : range.end;
        int32_t at = starts[i] + split * rows + row;
        assert(n_splits == 1 || (at < starts[i + 1] && taken[at]++ == 0));
      }
      assert(covered == own);
    }
  }
  free(taken);
}

/* 128 tokens behind 8,192 on one kv head of 8 query heads: 16 tiles of 64 rows fill the slots. A
 * long prompt fills them by itself and has no splits, a short one has too little to split. */
static void test_short_grid(void) {
  static const int32_t slots[] = {216, 264, 296};
  for (int i = 0; i < 3; i++) {
    int32_t row_starts[2] = {0, 128}, past = 8192, starts[2], sees[296];
    int32_t tokens = split_kv_prefill_tokens(row_starts, &past, 1, 8, 1, 64, slots[i], sees);
    SplitPlan plan = split_kv_prefill_plan(row_starts, &past, 1, 8, 64, tokens, starts);
    printf("split_kv: 16 tiles behind 8192 tokens on %d slots: %d splits of %d\n", slots[i],
           plan.most, plan.tokens);
    assert(plan.most * 16 > slots[i] / 2 && plan.most * 16 <= slots[i]);
    assert(plan.rows == plan.most * 128);
    row_starts[1] = 2400;
    tokens = split_kv_prefill_tokens(row_starts, &past, 1, 8, 1, 64, slots[i], sees);
    assert(tokens == SPLIT_KV_WHOLE);
    assert(split_kv_prefill_plan(row_starts, &past, 1, 8, 64, tokens, starts).rows == 0);
  }
  static const int32_t prompts[] = {64, 128, 256}; // alone, 8 kv heads of 4 query heads: no join
  for (int i = 0; i < 3; i++) {
    int32_t row_starts[2] = {0, prompts[i]}, past = 0, starts[2], sees[264];
    int32_t tokens = split_kv_prefill_tokens(row_starts, &past, 1, 4, 8, 64, 264, sees);
    assert(split_kv_prefill_plan(row_starts, &past, 1, 4, 64, tokens, starts).most == 1);
  }
}

/* One prompt on one kv head of 8 query heads and on eight, the 132 multiprocessors of an H100: many
 * tiles have 192 rows, about as many as there are blocks 128, and few behind a long context are
 * left to splits. No blocks, no choice. */
static void test_wgmma_rows(void) {
  static const struct {
    int32_t added, past, kv_heads, rows;
  } cases[] = {{8192, 0, 8, 192}, {2048, 0, 8, 192},   {4096, 0, 1, 128},    {512, 0, 1, 128},
               {64, 0, 1, 128},   {256, 8192, 8, 128}, {1024, 8192, 1, 128}, {128, 8192, 8, 128},
               {64, 8192, 8, 0},  {512, 8192, 1, 0},   {64, 8192, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int32_t row_starts[] = {0, cases[i].added};
    int32_t rows = split_kv_wgmma_rows(row_starts, &cases[i].past, 1, 8, cases[i].kv_heads, 132);
    printf("split_kv: %d tokens after %d on %d kv heads: %d rows\n", cases[i].added, cases[i].past,
           cases[i].kv_heads, rows);
    assert(rows == cases[i].rows);
    assert(split_kv_wgmma_rows(row_starts, &cases[i].past, 1, 8, cases[i].kv_heads, 0) == 0);
  }
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
    test_prefills();
    test_join();
    test_rows();
  }
  test_one_sequence();
  test_short_grid();
  test_wgmma_rows();
  test_balance();
  return 0;
}
