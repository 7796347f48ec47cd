/* The index of several radix trees: what each has of a content is what that tree says itself. */
#include "base/rng.h"
#include "sim/core/radix.h"
#include "tests/unit/testing.h"

TestSuite(radix_index, .init = setup, .fini = teardown);

enum { INSTANCES = 70, CONTENTS = 12, TOKENS = 64, PAGES = 60 };

static Radix trees[INSTANCES];
static TraceSegment segments[CONTENTS][2];
static int n_looks;

static bool look(void *context, InstanceIx instance) {
  (void)context, (void)instance;
  n_looks++;
  return instance == 1;
}

/* They agree on 10, 20 or 30 tokens, as one of four groups does. */
static Content content_of(int i) {
  segments[i][0] = (TraceSegment){(uint64_t)(1 + i % 4), 10 * (1 + i % 3)};
  segments[i][1] = (TraceSegment){(uint64_t)(100 + i), INT32_MAX};
  return (Content){.segments = segments[i], .n_segments = 2};
}

static void serve(Radix *radix, const Content *content, int64_t tokens) {
  RadixHold hold = {0};
  RadixIx node;
  const int64_t pages = tokens / radix->tree.page;
  const int64_t hits = radix_match(radix, content, tokens, &node) / radix->tree.page;
  radix_hit(radix, &hold, node, hits);
  radix_take(radix, pages - hits);
  radix_insert(radix, &hold, content, tokens, tokens / 2);
  radix_release(radix, &hold, pages);
}

/* Trees that are full evict, and one in a hundred times all that one has is lost. */
Test(radix_index, says_of_all_what_each_tree_says) {
  for (int64_t page = 1; page <= 4; page += 3) {
    RadixIndex index;
    Rng rng;
    rng_init(&rng, 1, "radix_index");
    radix_index_init(&index, INSTANCES, page, &arena);
    for (uint32_t m = 0; m < INSTANCES; m++) {
      radix_init(&trees[m], PAGES, page, &arena);
      radix_join_index(&trees[m], &index, m);
    }
    for (int round = 0; round < 4000; round++) {
      Radix *radix = &trees[rng_below(&rng, INSTANCES)];
      const Content content = content_of((int)rng_below(&rng, CONTENTS));
      const int64_t tokens = page * (1 + (int64_t)rng_below(&rng, (uint64_t)(TOKENS / page - 4)));
      if (rng_below(&rng, 100) == 0) radix_forget(radix);
      serve(radix, &content, tokens < PAGES * page ? tokens : PAGES * page);
      radix_audit(radix, NULL, 0);
      const int64_t n = 1 + (int64_t)rng_below(&rng, (uint64_t)(TOKENS / page));
      const int32_t *runs = radix_index_match(&index, &content, n, look, NULL);
      for (uint32_t m = 0; m < INSTANCES; m++)
        cr_assert_eq(runs[m], radix_peek(&trees[m], &content, n * page) / page);
    }
    for (uint32_t m = 0; m < INSTANCES; m++)
      radix_forget(&trees[m]);
    cr_expect_eq(index.tree.children.n_keys, 0);
  }
}

/* Only those are looked at that have the first page and have changed since; one of them always. */
Test(radix_index, looks_at_those_that_changed) {
  static const int looks[] = {2, 1, 2};
  RadixIndex index;
  radix_index_init(&index, 3, 1, &arena);
  const Content content = content_of(0), other = content_of(1);
  for (uint32_t m = 0; m < 3; m++) {
    radix_init(&trees[m], PAGES, 1, &arena);
    radix_join_index(&trees[m], &index, m);
    serve(&trees[m], m < 2 ? &content : &other, 20);
  }
  for (int i = 0; i < 3; i++) {
    n_looks = 0;
    if (i == 2) radix_stir(&trees[0]);
    radix_index_match(&index, &content, 20, look, NULL);
    cr_expect_eq(n_looks, looks[i]);
  }
}
