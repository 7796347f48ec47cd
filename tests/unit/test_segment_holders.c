/* Which instances have which blocks of segments: held against a table, by what random blocks come
 * and go; and that ranges which touch are one. */
#include "base/rng.h"
#include "sim/core/segment_holders.h"
#include "tests/unit/testing.h"

TestSuite(segment_holders, .init = setup, .fini = teardown);

enum { INSTANCES = 5, IDS = 3, BLOCKS = 12, BLOCK = 16 };

static bool table[INSTANCES][IDS][BLOCKS];

/* The blocks of the first id, those behind them of the second, those behind of the third. */
static int64_t naive_match(InstanceIx m, const TraceSegment *segments, int32_t n_segments,
                           int64_t n) {
  int64_t i = 0;
  for (int32_t s = 0; s < n_segments; s++)
    for (; i < n && (i + 1) * BLOCK <= segments[s].end; i++)
      if (!table[m][segments[s].id][i]) return i;
  return i;
}

static void expect_as_in_table(SegmentHolders *holders, Rng *rng) {
  TraceSegment segments[IDS];
  Content content = {0};
  int32_t end = 0;
  for (int i = 0; i < IDS; i++) {
    end += 1 + (int32_t)rng_below(rng, BLOCKS * BLOCK / IDS);
    segments[i] = (TraceSegment){(uint64_t)i, i + 1 < IDS ? end : INT32_MAX};
  }
  content_set(&content, &(TraceRow){.segments = segments, .n_segments = IDS}, 1, &arena);
  const int64_t n = (int64_t)rng_below(rng, BLOCKS + 1);
  const int32_t *runs = segment_holders_match(holders, &content, BLOCK, n);
  for (InstanceIx m = 0; m < INSTANCES; m++) {
    const int64_t want = naive_match(m, segments, IDS, n);
    cr_assert_eq(runs[m], want);
    cr_assert_eq(segment_holders_match_one(holders, m, &content, BLOCK, n), want);
  }
}

/* Calls `change` for each stretch of the blocks that are there or not. */
static void change(SegmentHolders *holders, InstanceIx m, int id, int64_t from, int64_t to,
                   bool adds) {
  for (int64_t i = from, end; i < to; i = end) {
    for (end = i; end < to && table[m][id][end] == table[m][id][i];)
      end++;
    if (table[m][id][i] == adds) continue;
    (adds ? segment_holders_add : segment_holders_remove)(holders, m, (uint64_t)id, i, end);
  }
  for (int64_t i = from; i < to; i++)
    table[m][id][i] = adds;
}

Test(segment_holders, a_match_says_how_many_blocks_each_instance_has) {
  SegmentHolders holders;
  Rng rng;
  rng_init(&rng, 1, "segment_holders");
  segment_holders_init(&holders, INSTANCES, &arena);
  memset(table, 0, sizeof table);
  int64_t n_by_row = 0, n_by_holder = 0;
  for (int round = 0; round < 5000; round++) {
    const InstanceIx m = (InstanceIx)rng_below(&rng, INSTANCES);
    const int id = (int)rng_below(&rng, IDS);
    const int64_t from = (int64_t)rng_below(&rng, BLOCKS), n = (int64_t)rng_below(&rng, BLOCKS);
    const bool adds = rng_below(&rng, 3) > 0;
    change(&holders, m, id, from, from + n < BLOCKS ? from + n : BLOCKS, adds);
    expect_as_in_table(&holders, &rng);
    n_by_row += holders.by_row;
    n_by_holder += holders.n_some;
  }
  cr_expect_gt(n_by_row, 1000);
  cr_expect_gt(n_by_holder, 1000);
  for (InstanceIx m = 0; m < INSTANCES; m++)
    for (int id = 0; id < IDS; id++)
      change(&holders, m, id, 0, BLOCKS, false);
  cr_expect_eq(holders.names.n_keys + holders.segments.n_keys, 0);
  cr_expect_leq(holders.n_rows, IDS);
}

Test(segment_holders, ranges_that_touch_are_one) {
  SegmentHolders holders;
  segment_holders_init(&holders, 1, &arena);
  segment_holders_add(&holders, 0, 7, 4, 6);
  segment_holders_add(&holders, 0, 7, 8, 9);
  segment_holders_add(&holders, 0, 7, 6, 8);
  segment_holders_add(&holders, 0, 7, 0, 4);
  const SegmentHolder *holder = &holders.holders[0];
  cr_expect_eq(holders.ranges[holder->first].to, 9);
  cr_expect_eq(holders.ranges[holder->first].next, RANGE_NONE);
}
