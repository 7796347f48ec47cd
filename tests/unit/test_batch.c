/* The decode batch. Pinned: random pushes, removals and advances against a list of sequences gone
 * through one by one, for block sizes 1 … 64, growth and fitting among them. Not pinned: the order
 * among sequences that finish together. */
#include "base/rng.h"
#include "sim/core/batch.h"
#include "tests/unit/testing.h"

TestSuite(batch, .init = setup, .fini = teardown);

enum { SLOTS = 40 };

typedef struct Seq {
  bool runs;
  int64_t context, remaining;
} Seq;

typedef struct Naive {
  Seq seqs[SLOTS];
  int64_t block_size;
} Naive;

static int64_t naive_blocks(const Naive *self, int64_t tokens) {
  return (tokens + self->block_size - 1) / self->block_size;
}

static int64_t naive_growth(const Naive *self, int64_t n) {
  int64_t blocks = 0;
  for (int i = 0; i < SLOTS; i++) {
    const Seq *seq = &self->seqs[i];
    if (seq->runs)
      blocks += naive_blocks(self, seq->context - 1 + n) - naive_blocks(self, seq->context - 1);
  }
  return blocks;
}

static int64_t naive_fitting(const Naive *self, int64_t free_blocks, int64_t limit) {
  int64_t n = 0;
  while (n < limit && naive_growth(self, n + 1) <= free_blocks)
    n++;
  return n;
}

static int64_t naive_until_finish(const Naive *self) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < SLOTS; i++)
    if (self->seqs[i].runs && self->seqs[i].remaining < least) least = self->seqs[i].remaining;
  return least;
}

static void expect_equal(const Batch *batch, const Request *slots, const Naive *naive, Rng *rng) {
  size_t n_seqs = 0;
  int64_t context = 0;
  for (uint32_t i = 0; i < SLOTS; i++) {
    const Seq *seq = &naive->seqs[i];
    if (!seq->runs) continue;
    n_seqs++;
    context += seq->context;
    cr_assert_eq(batch_remaining(batch, &slots[i]), seq->remaining);
  }
  cr_assert_eq(batch->n_seqs, n_seqs);
  cr_assert_eq(batch->context_tokens, context);
  if (n_seqs > 0) cr_assert_eq(batch_until_finish(batch), naive_until_finish(naive));
  const int64_t n = (int64_t)rng_below(rng, 200);
  const int64_t free_blocks = (int64_t)rng_below(rng, 300);
  cr_assert_eq(batch_growth(batch, n), naive_growth(naive, n), "%lld iterations, blocks of %lld",
               (long long)n, (long long)naive->block_size);
  cr_assert_eq(batch_fitting(batch, free_blocks, n), naive_fitting(naive, free_blocks, n),
               "%lld blocks, at most %lld, blocks of %lld", (long long)free_blocks, (long long)n,
               (long long)naive->block_size);
}

/* All of `n` iterations, and those whose last token was made leave, as they do in the engine. */
static void advance(Batch *batch, Request *slots, Naive *naive, int64_t n) {
  batch_advance(batch, n);
  for (int i = 0; i < SLOTS; i++) {
    naive->seqs[i].context += n;
    naive->seqs[i].remaining -= n;
  }
  while (batch->n_seqs > 0 && batch_until_finish(batch) == 0) {
    Seq *first = &naive->seqs[batch->entries[0].request];
    cr_assert(first->runs && first->remaining == 0);
    cr_assert_eq(batch_remove(batch, slots, batch->entries[0].request, first->context), 0);
    first->runs = false;
  }
}

static void operate(Batch *batch, Request *slots, Naive *naive, Rng *rng) {
  const RequestIx ix = (RequestIx)rng_below(rng, SLOTS);
  Seq *seq = &naive->seqs[ix];
  if (rng_below(rng, 3) == 0 && batch->n_seqs > 0) {
    const int64_t until = naive_until_finish(naive);
    advance(batch, slots, naive,
            rng_below(rng, 2) ? until : (int64_t)rng_below(rng, (uint64_t)until));
  } else if (seq->runs) {
    cr_assert_eq(batch_remove(batch, slots, ix, seq->context), seq->remaining);
    seq->runs = false;
  } else {
    *seq = (Seq){true, 1 + (int64_t)rng_below(rng, 300), 1 + (int64_t)rng_below(rng, 100)};
    batch_push(batch, slots, ix, seq->context, seq->remaining, &arena);
  }
}

Test(batch, agrees_with_a_list_of_sequences_for_every_block_size) {
  for (int64_t block_size = 1; block_size <= 64; block_size++) {
    Rng rng;
    rng_init(&rng, (uint64_t)block_size, "batch");
    Request slots[SLOTS] = {0};
    Naive naive = {.block_size = block_size};
    Batch batch;
    batch_init(&batch, block_size, &arena);
    for (int i = 0; i < 200; i++) {
      operate(&batch, slots, &naive, &rng);
      expect_equal(&batch, slots, &naive, &rng);
    }
  }
}

Test(batch, a_block_is_taken_when_the_newest_token_is_the_first_in_it) {
  Request slots[2] = {0};
  Batch batch;
  batch_init(&batch, 16, &arena);
  batch_push(&batch, slots, 0, 32, 100, &arena);
  batch_push(&batch, slots, 1, 33, 100, &arena);
  cr_expect_eq(batch_growth(&batch, 0), 0);
  cr_expect_eq(batch_growth(&batch, 1), 1, "the second one's 33rd token");
  cr_expect_eq(batch_growth(&batch, 2), 2, "the first one's 33rd");
  cr_expect_eq(batch_growth(&batch, 17), 3);
  cr_expect_eq(batch_fitting(&batch, 0, 100), 0);
  cr_expect_eq(batch_fitting(&batch, 1, 100), 1);
  cr_expect_eq(batch_fitting(&batch, 2, 100), 16);
  cr_expect_eq(batch_fitting(&batch, 2, 9), 9);
}

Test(batch, the_first_to_finish_is_found_after_others_leave) {
  Request slots[3] = {0};
  Batch batch;
  batch_init(&batch, 16, &arena);
  batch_push(&batch, slots, 0, 10, 5, &arena);
  batch_push(&batch, slots, 1, 10, 3, &arena);
  batch_advance(&batch, 2);
  batch_push(&batch, slots, 2, 40, 2, &arena);
  cr_expect_eq(batch_until_finish(&batch), 1);
  cr_expect_eq(batch.entries[0].request, 1u);
  cr_expect_eq(batch_remove(&batch, slots, 1, 12), 1);
  cr_expect_eq(batch_until_finish(&batch), 2);
  cr_expect_eq(batch.entries[0].request, 2u);
  cr_expect_eq(batch.context_tokens, 12 + 40);
}

/* A block each up to blocks of 16 tokens; of larger ones what 16 tokens of each take. */
Test(batch, the_margin_is_of_tokens_where_blocks_are_large) {
  Request slots[2] = {0};
  Batch small, large;
  batch_init(&small, 16, &arena);
  batch_init(&large, 64, &arena);
  batch_push(&small, slots, 0, 40, 100, &arena);
  batch_push(&small, slots, 1, 41, 100, &arena);
  cr_expect_eq(batch_margin(&small, 0, 3), 2 + 3);
  batch_push(&large, slots, 0, 40, 100, &arena); // 25 iterations until it computes its 65th token
  cr_expect_eq(batch_margin(&large, 9, 0), 0);
  cr_expect_eq(batch_margin(&large, 10, 0), 1);
  cr_expect_eq(batch_margin(&large, 26, 0), 0);
  cr_expect_eq(batch_margin(&large, 10, 5), 1 + 2);
}
