/* Blocks of a request in one group of layers. Pinned, by examples worked by hand: what slides out
 * of a run that others hold, in which order what is given back is evicted, and that blocks which
 * are passed over stay without a name; and by a random walk, that parts are in order and all blocks
 * come back. */
#include "base/rng.h"
#include "sim/core/group_blocks.h"
#include "tests/unit/testing.h"

TestSuite(group_blocks, .init = setup, .fini = teardown);

enum { BLOCKS = 20, SIZE = 4 };

static PrefixCache pool;
static Content content;

/* Segments of 8 and 16 tokens, then one without end. */
static void start(void) {
  static const TraceSegment segments[] = {{11, 8}, {22, 24}, {33, INT32_MAX}};
  content = (Content){0};
  content_set(&content, &(TraceRow){.segments = segments, .n_segments = 3}, 0, &arena);
  prefix_cache_init(&pool, BLOCKS, &arena);
}

static BlockNames names_of(uint64_t group) {
  return (BlockNames){&content, SIZE, group};
}

static bool found(uint64_t group, int64_t i) {
  int64_t from, before;
  const bool finds = prefix_cache_finds(&pool, names_of(group), i, &from);
  for (int64_t k = from; !finds && k < i; k++)
    cr_expect(!prefix_cache_finds(&pool, names_of(group), k, &before));
  return finds;
}

static HeldBlocks registered(uint64_t group, int64_t n) {
  HeldBlocks held = {0};
  group_blocks_take(&pool, &held, n);
  group_blocks_name(&pool, &held, names_of(group), 0, n);
  held.n_registered = (int32_t)n;
  return held;
}

Test(group_blocks, what_others_hold_stays_when_it_slides_out) {
  start();
  HeldBlocks a = registered(1, 10), b = {0};
  group_blocks_hit(&pool, &b, names_of(1), 9);
  cr_expect_eq(pool.n_free, 10);
  cr_expect_eq(group_blocks_slide(&pool, &a, 4), 4); // 2 of each of the first segments
  cr_expect_eq(pool.n_free, 10);
  cr_expect_eq(group_blocks_audit(&pool, &a), 6);
  cr_expect_eq(group_blocks_slide(&pool, &a, 4), 0);
  cr_expect_eq(group_blocks_slide(&pool, &a, 10), 6);
  cr_expect_eq(pool.n_free, 11); // the tenth was its own
  cr_expect_eq(group_blocks_audit(&pool, &b), 9);
  cr_expect_eq(group_blocks_release(&pool, &b), 9);
  cr_expect_eq(group_blocks_release(&pool, &a), 0);
  cr_expect_eq(pool.n_free, BLOCKS);
  prefix_cache_audit(&pool, 0);
}

Test(group_blocks, what_slid_out_first_is_evicted_first) {
  static const int64_t order[] = {3, 2, 1, 0, 9, 8, 7, 6, 5, 4};
  start();
  HeldBlocks a = registered(2, 10), other = {0};
  group_blocks_slide(&pool, &a, 4);
  group_blocks_release(&pool, &a);
  group_blocks_take(&pool, &other, 10); // those that have no name
  for (int k = 0; k < 10; k++) {
    cr_expect(found(2, order[k]), "block %d", (int)order[k]);
    group_blocks_take(&pool, &other, 1);
    cr_expect(!found(2, order[k]), "block %d", (int)order[k]);
  }
  group_blocks_release(&pool, &other);
  prefix_cache_audit(&pool, 0);
}

Test(group_blocks, names_are_of_a_group_and_some_are_passed_over) {
  start();
  HeldBlocks a = {0};
  group_blocks_take(&pool, &a, 9);
  group_blocks_name(&pool, &a, names_of(1), 1, 3);
  group_blocks_name(&pool, &a, names_of(1), 5, 8);
  group_blocks_take(&pool, &a, 1);
  cr_expect_eq(group_blocks_audit(&pool, &a), 10);
  for (int64_t i = 0; i < 10; i++) {
    cr_expect_eq(found(1, i), (1 <= i && i < 3) || (5 <= i && i < 8));
    cr_expect(!found(0, i) && !found(2, i));
  }
  cr_expect_eq(group_blocks_slide(&pool, &a, 9), 9);
  group_blocks_name(&pool, &a, names_of(1), 8, 10); // of which the first is null
  cr_expect(found(1, 9) && !found(1, 8));
  group_blocks_release(&pool, &a);
  prefix_cache_audit(&pool, 0);
}

Test(group_blocks, all_come_back) {
  enum { REQUESTS = 5, STEPS = 5000 };
  Rng rng;
  rng_init(&rng, 7, "group_blocks");
  start();
  HeldBlocks held[REQUESTS] = {0};
  for (int i = 0; i < STEPS; i++) {
    HeldBlocks *one = &held[rng_below(&rng, REQUESTS)];
    const int64_t more = 1 + (int64_t)rng_below(&rng, 4);
    if (one->n == 0) {
      const int64_t skipped = (int64_t)rng_below(&rng, 3);
      int64_t unheld;
      const int64_t n = prefix_cache_found(&pool, names_of(1), skipped, 9, &unheld);
      group_blocks_skip(&pool, one, skipped);
      group_blocks_hit(&pool, one, names_of(1), n);
    } else if (more > pool.n_free || one->n + more > 12 || rng_below(&rng, 9) == 0) {
      group_blocks_release(&pool, one);
    } else {
      const int64_t from = one->n_registered + (int64_t)rng_below(&rng, 2);
      group_blocks_take(&pool, one, more);
      group_blocks_name(&pool, one, names_of(1), from, one->n - 1);
      if (from < one->n - 1) one->n_registered = one->n - 1;
      group_blocks_slide(&pool, one, (int64_t)rng_below(&rng, (uint64_t)one->n_registered + 1));
    }
    int64_t n_references = 0;
    for (int k = 0; k < REQUESTS; k++)
      n_references += group_blocks_audit(&pool, &held[k]);
    prefix_cache_audit(&pool, n_references);
  }
  for (int k = 0; k < REQUESTS; k++)
    group_blocks_release(&pool, &held[k]);
  cr_expect_eq(pool.n_free, BLOCKS);
}
