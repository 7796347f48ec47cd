/* The radix tree of a prefix cache: what is found, who owns pages, and what is evicted first. */
#include "base/rng.h"
#include "sim/core/radix.h"
#include "tests/unit/testing.h"
#include <criterion/parameterized.h>
#include <signal.h>

static Radix radix;

TestSuite(radix, .init = setup, .fini = teardown);

/* `shared` tokens of segment 1, then its own. */
static Content content_of(TraceSegment *segments, int32_t shared, uint64_t own) {
  segments[0] = (TraceSegment){1, shared};
  segments[1] = (TraceSegment){own, INT32_MAX};
  return (Content){.segments = segments, .n_segments = 2};
}

/* Computes `tokens` of it on pages of its own, and ends. */
static void serve(const Content *content, int64_t tokens) {
  RadixHold hold = {0};
  RadixIx node;
  const int64_t hits = radix_match(&radix, content, tokens, &node) / radix.tree.page;
  const int64_t pages = (tokens + radix.tree.page - 1) / radix.tree.page;
  radix_hit(&radix, &hold, node, hits);
  radix_take(&radix, pages - hits);
  radix_insert(&radix, &hold, content, tokens, tokens);
  const RadixHold *holds[] = {&hold};
  radix_audit(&radix, holds, 1);
  radix_release(&radix, &hold, pages);
  radix_audit(&radix, NULL, 0);
}

Test(radix, a_match_ends_at_the_token_where_contents_part) {
  TraceSegment a[2], b[2];
  const Content one = content_of(a, 30, 100), two = content_of(b, 30, 200);
  RadixIx node;
  radix_init(&radix, 1000, 1, &arena);
  serve(&one, 50);
  cr_expect_eq(radix_peek(&radix, &two, 60), 30);
  cr_expect_eq(radix_peek(&radix, &one, 60), 50);
  cr_expect_eq(radix_peek(&radix, &one, 20), 20);
  cr_expect_eq(radix_match(&radix, &two, 60, &node), 30);
  cr_expect_eq(radix.n_owned, 50); // in two nodes now
  serve(&two, 60);
  cr_expect_eq(radix.n_owned, 80);
}

Test(radix, pages_are_whole) {
  TraceSegment a[2], b[2];
  const Content one = content_of(a, 30, 100), two = content_of(b, 30, 200);
  radix_init(&radix, 100, 16, &arena);
  serve(&one, 50);
  cr_expect_eq(radix.n_owned, 3);
  cr_expect_eq(radix_peek(&radix, &two, 60), 16);
  cr_expect_eq(radix.n_free, 97);
}

/* Equal prompts that are computed at once: the copy of the one that is entered later is free. */
Test(radix, a_copy_is_given_back) {
  TraceSegment a[2];
  const Content content = content_of(a, 30, 100);
  RadixHold first = {0}, second = {0};
  radix_init(&radix, 100, 1, &arena);
  radix_take(&radix, 80);
  radix_insert(&radix, &first, &content, 40, 40);
  radix_insert(&radix, &second, &content, 40, 40);
  cr_expect_eq(radix.n_free, 60);
  radix_release(&radix, &first, 40);
  cr_expect_eq(radix.n_evictable, 0);
  radix_release(&radix, &second, 40);
  cr_expect_eq(radix.n_evictable, 40);
}

/* Leaves go whole, the one touched longest ago first, and beginnings that others have last. */
Test(radix, the_leaf_not_touched_for_longest_goes_first) {
  TraceSegment a[2], b[2], c[2];
  const Content one = content_of(a, 10, 100), two = content_of(b, 10, 200);
  const Content three = content_of(c, 10, 300);
  RadixIx node;
  radix_init(&radix, 100, 1, &arena);
  serve(&one, 20);
  serve(&two, 25);
  serve(&three, 30);
  radix_match(&radix, &one, 20, &node);
  cr_expect_eq(radix.n_free, 100 - 10 - 10 - 15 - 20);
  radix_make_room(&radix, 46); // one page more than there are
  cr_expect_eq(radix_peek(&radix, &two, 25), 10);
  cr_expect_eq(radix_peek(&radix, &three, 30), 30);
  cr_expect_eq(radix.n_free, 60);
  radix_make_room(&radix, 61);
  cr_expect_eq(radix_peek(&radix, &three, 30), 10);
  cr_expect_eq(radix_peek(&radix, &one, 20), 20);
  radix_audit(&radix, NULL, 0);
}

Test(radix, what_is_locked_stays) {
  TraceSegment a[2], b[2];
  const Content one = content_of(a, 10, 100), two = content_of(b, 10, 200);
  RadixHold hold = {0};
  RadixIx node;
  radix_init(&radix, 100, 1, &arena);
  serve(&one, 20);
  serve(&two, 20);
  radix_hit(&radix, &hold, (radix_match(&radix, &two, 15, &node), node), 15);
  radix_make_room(&radix, 100);
  cr_expect_eq(radix_peek(&radix, &two, 20), 15);
  cr_expect_eq(radix_peek(&radix, &one, 20), 10);
  radix_release(&radix, &hold, 15);
  radix_forget(&radix);
  cr_expect_eq(radix.n_free, 100);
}

/* A naive cache beside it: the longest beginning that anybody has computed, while nothing goes. */
Test(radix, finds_what_was_computed_whatever_the_order) {
  enum { CONTENTS = 40, SEGMENTS = 4 };
  static TraceSegment segments[CONTENTS][SEGMENTS];
  static Content contents[CONTENTS];
  int32_t computed[CONTENTS] = {0};
  Rng rng;
  rng_init(&rng, 1, "radix");
  for (int i = 0; i < CONTENTS; i++) {
    int32_t end = 0;
    uint64_t id = 1;
    for (int k = 0; k < SEGMENTS; k++) {
      end = k == SEGMENTS - 1 ? INT32_MAX : end + 5 + 5 * (int32_t)rng_below(&rng, 2);
      segments[i][k] = (TraceSegment){id, end};
      id = id * 1000003 + (uint64_t)end * 7 + rng_below(&rng, 2);
    }
    contents[i] = (Content){.segments = segments[i], .n_segments = SEGMENTS};
  }
  radix_init(&radix, 100000, 1, &arena);
  for (int round = 0; round < 400; round++) {
    const int i = (int)rng_below(&rng, CONTENTS);
    const int32_t tokens = 1 + (int32_t)rng_below(&rng, 60);
    int64_t most = 0;
    for (int j = 0; j < CONTENTS; j++) {
      int64_t n = tokens < computed[j] ? tokens : computed[j];
      while (n > 0 && content_key(&contents[i], n) != content_key(&contents[j], n))
        n--;
      if (n > most) most = n;
    }
    cr_assert_eq(radix_peek(&radix, &contents[i], tokens), most);
    serve(&contents[i], tokens);
    if (tokens > computed[i]) computed[i] = tokens;
  }
}

/* A field of the books that is changed by one. */
typedef struct Plant {
  const char *name;
  enum { TREE, NODE, LEAF, HOLD } in;
  int by;
  size_t offset, size;
} Plant;

#define PLANT(name, in, by, type, field)                                                           \
  { name, in, by, offsetof(type, field), sizeof(((type *)0)->field) }

ParameterizedTestParameters(radix, audit_finds) {
  static Plant plants[] = {
      PLANT("a lock", NODE, -1, RadixNode, locks),
      PLANT("a child", NODE, 1, RadixNode, n_children),
      PLANT("a page", NODE, 1, RadixNode, pages),
      PLANT("a touch later than the clock", NODE, 1, RadixNode, time),
      PLANT("the key of a child", NODE, 1, RadixNode, key),
      PLANT("the beginning of a node", NODE, 1, RadixNode, from),
      PLANT("a leaf later than its last touch", LEAF, 1, RadixLeaf, time),
      PLANT("a leaf twice", LEAF, 1, RadixLeaf, node),
      PLANT("a leaf less", TREE, -1, Radix, n_leaves),
      PLANT("an evictable page", TREE, -1, Radix, n_evictable),
      PLANT("a page of the tree", TREE, -1, Radix, n_owned),
      PLANT("a free page", TREE, 1, Radix, n_free),
      PLANT("a page of a request", HOLD, -1, RadixHold, owned_pages),
      PLANT("the node of a request", HOLD, -1, RadixHold, node),
  };
  return cr_make_param_array(Plant, plants, COUNT(plants));
}

static void spoil(void *of, const Plant *plant) {
  unsigned char *field = (unsigned char *)of + plant->offset;
  uint64_t value = 0;
  memcpy(&value, field, plant->size);
  value += (uint64_t)plant->by;
  memcpy(field, &value, plant->size);
}

/* Three contents with one beginning, of which a request holds all of the last: five nodes. */
ParameterizedTest(Plant *plant, radix, audit_finds, .init = setup, .fini = teardown,
                  .signal = SIGABRT) {
  TraceSegment segments[3][2];
  RadixHold hold = {0};
  const RadixHold *holds[] = {&hold};
  RadixIx node;
  Content content;
  radix_init(&radix, 100, 1, &arena);
  for (uint64_t i = 0; i < 3; i++) {
    content = content_of(segments[i], 10, 100 * (i + 1));
    serve(&content, 20);
  }
  radix_hit(&radix, &hold, (radix_match(&radix, &content, 20, &node), node), 20);
  radix_audit(&radix, holds, 1);
  void *const in[] = {[TREE] = &radix,
                      [NODE] = &radix.tree.nodes[hold.node],
                      [LEAF] = &radix.leaves[1],
                      [HOLD] = &hold};
  spoil(in[plant->in], plant);
  radix_audit(&radix, holds, 1);
  cr_assert_fail("%s: nothing is found", plant->name);
}
