/* The swarm's comparison of two runs. Pinned: it notices a change of any byte of what is reported,
 * but for pointers, what they point to being compared instead, events and gaps between fields; and
 * one more observation in any histogram. */
#include "base/histogram.h"
#include "tests/swarm/compare.h"
#include "tests/unit/testing.h"
#include <stddef.h>

TestSuite(compare, .init = setup, .fini = teardown);

/* Bytes that may differ. */
typedef struct Span {
  size_t from, to;
} Span;

#define FIELD(type, field)                                                                         \
  { offsetof(type, field), offsetof(type, field) + sizeof((type *)0)->field }

typedef bool (*Same)(const void *a, const void *b);

/* `same` holds for a struct and its copy, and not once any byte outside `free` has changed. */
static void expect_each_byte(Same same, void *a, const void *b, size_t size, const Span *free,
                             size_t n_free) {
  cr_assert(same(a, b));
  size_t n_compared = 0;
  for (size_t i = 0; i < size; i++) {
    bool compared = true;
    for (size_t k = 0; k < n_free; k++)
      compared &= i < free[k].from || i >= free[k].to;
    if (!compared) continue;
    ((unsigned char *)a)[i] ^= 1;
    cr_expect_not(same(a, b), "byte %zu of %zu", i, size);
    ((unsigned char *)a)[i] ^= 1;
    n_compared++;
  }
  cr_assert(same(a, b) && n_compared > 0);
}

static bool records(const void *a, const void *b) {
  return same_record(a, b);
}

static bool totals(const void *a, const void *b) {
  return same_totals(a, b);
}

static bool metrics(const void *a, const void *b) {
  return same_metrics(a, b);
}

static bool pools(const void *a, const void *b) {
  return same_pool(a, b);
}

static bool results(const void *a, const void *b) {
  return compare_results(a, b) == NULL;
}

Test(compare, every_byte_of_a_record_and_of_totals_counts) {
  RequestRecord record = {.id = 7}, its_copy = record;
  expect_each_byte(records, &record, &its_copy, sizeof record, NULL, 0);
  InstanceTotals all, copy;
  memset(&all, 1, sizeof all);
  memcpy(&copy, &all, sizeof all);
  expect_each_byte(totals, &all, &copy, sizeof all, NULL, 0);
}

Test(compare, every_byte_of_the_metrics_and_every_histogram_counts) {
  Metrics a, b;
  metrics_init(&a, &arena);
  metrics_init(&b, &arena);
  const Span free[] = {FIELD(Metrics, histograms), FIELD(Metrics, components)};
  expect_each_byte(metrics, &a, &b, sizeof a, free, 2);
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    histogram_add(&a.histograms[i], 1000, 1);
    cr_expect_not(same_metrics(&a, &b), "histogram %d", i);
    histogram_add(&b.histograms[i], 1000, 1);
    cr_expect(same_metrics(&a, &b), "histogram %d", i);
    // fifty ticks on one of three seconds, in one bucket and between the others
    static const int64_t second = TICKS_PER_SECOND;
    for (int k = 0; k < 3; k++) {
      histogram_add(&a.histograms[i], second + k * 100, 1);
      histogram_add(&b.histograms[i], second + k * 100 + (k == 1 ? 50 : 0), 1);
    }
    cr_expect_not(same_metrics(&a, &b), "histogram %d", i);
    histogram_add(&a.histograms[i], second + 150, 1);
    histogram_add(&b.histograms[i], second + 100, 1);
    cr_expect(same_metrics(&a, &b), "histogram %d", i);
  }
}

/* A result with one machine in one pool. */
static SimResult make_result(void) {
  SimResult result = {.n_pools = 1, .n_instances = 1, .n_models = 1, .n_groups = 1};
  metrics_init(&result.metrics, &arena);
  Histogram *batch_tokens = ARENA_NEW(&arena, Histogram);
  histogram_init(batch_tokens, &arena);
  result.pools = ARENA_NEW(&arena, PoolResult);
  result.pools->batch_tokens = batch_tokens;
  result.instances = ARENA_NEW(&arena, InstanceTotals);
  result.groups = ARENA_NEW(&arena, Group);
  result.rooms = ARENA_NEW(&arena, ModelRoom);
  return result;
}

Test(compare, every_byte_of_a_result_counts_but_for_pointers_and_events) {
  static const Span free_of_result[] = {
      FIELD(SimResult, metrics), // above
      FIELD(SimResult, pools),
      FIELD(SimResult, instances),
      FIELD(SimResult, groups),
      FIELD(SimResult, rooms),
      FIELD(SimResult, caches),
      FIELD(SimResult, batches),
      FIELD(SimResult, timeline),
      FIELD(SimResult, events),
      FIELD(SimResult, hour_joules),
      {offsetof(SimResult, n_models) + sizeof(uint32_t), offsetof(SimResult, groups)},
      {offsetof(SimResult, n_groups) + sizeof(uint32_t), offsetof(SimResult, timeline)},
      {offsetof(SimResult, stopped) + sizeof(bool), offsetof(SimResult, unfinished)},
      FIELD(SimResult, n_pools), // how many there are of what is below
      FIELD(SimResult, n_instances),
      FIELD(SimResult, n_models),
      FIELD(SimResult, n_groups),
  };
  static const Span free_of_pool[] = {FIELD(PoolResult, batch_tokens)};
  SimResult a = make_result(), b = make_result();
  expect_each_byte(results, &a, &b, sizeof a, free_of_result,
                   sizeof free_of_result / sizeof *free_of_result);
  PoolResult *pool = a.pools;
  expect_each_byte(pools, pool, b.pools, sizeof *pool, free_of_pool, 1);
  histogram_add((Histogram *)pool->batch_tokens, 5, 1);
  cr_expect_not(results(&a, &b), "tokens in a batch");
  histogram_add((Histogram *)b.pools->batch_tokens, 5, 1);
  cr_expect(results(&a, &b));
  pool->energy_j = 1;
  cr_expect_not(results(&a, &b), "a pool");
  pool->energy_j = 0;
  a.instances->decode_tokens = 1;
  cr_expect_not(results(&a, &b), "a machine");
  a.instances->decode_tokens = 0;
  ((Group *)a.groups)->totals.turns = 1;
  cr_expect_not(results(&a, &b), "a group");
  ((Group *)a.groups)->totals.turns = 0;
  a.rooms->tokens[PHASE_DECODE] = 1;
  cr_expect_not(results(&a, &b), "a model's room");
}
