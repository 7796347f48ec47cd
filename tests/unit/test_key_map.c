/* Keys that name numbers, held against an array that holds the same; and what a router remembers of
 * prompts that it sent, which is the last so many blocks. */
#include "base/key_map.h"
#include "base/rng.h"
#include "sim/router/prefix_lru.h"
#include "tests/unit/testing.h"

TestSuite(key_map, .init = setup, .fini = teardown);

Test(key_map, what_is_put_is_found_until_it_is_removed) {
  enum { KEYS = 300, ACTS = 20000 };
  Rng rng;
  rng_init(&rng, 1, "keys");
  KeyMap map = {0};
  uint32_t plain[KEYS] = {0}; // 0: not there
  size_t n = 0;
  for (int act = 1; act <= ACTS; act++) {
    const uint64_t k = rng_below(&rng, KEYS), key = 1000 * (k + 1);
    const uint32_t *found = key_map_find(&map, key);
    cr_assert_eq(found ? *found : 0, plain[k], "key %llu", (unsigned long long)key);
    const bool remove = rng_below(&rng, 2);
    n += !remove && plain[k] == 0;
    n -= remove && plain[k] != 0;
    if (remove)
      key_map_remove(&map, key);
    else
      *key_map_put(&map, key, &arena) = (uint32_t)act;
    plain[k] = remove ? 0 : (uint32_t)act;
    cr_assert_eq(map.n_keys, n);
  }
}

/* A prompt of which nothing is shared but with those of the same id. */
static PromptKeys prompt(uint64_t id) {
  Content *content = ARENA_NEW(&arena, Content);
  content_set(content, &(TraceRow){.prompt_tokens = 1}, id, &arena);
  PromptKeys keys = {.arena = &arena};
  prompt_keys_begin(&keys, content);
  return keys;
}

static Holders holders;

static int64_t found(PromptKeys *keys, int64_t block_size, int64_t n) {
  return holders_match(&holders, keys, block_size, n)[0];
}

Test(key_map, the_blocks_sent_longest_ago_are_forgotten) {
  PrefixLru sent = {.capacity = 5, .holders = &holders};
  holders_init(&holders, 1, &arena);
  PromptKeys a = prompt(1), b = prompt(2);
  cr_expect_eq(found(&a, 64, 3), 0);
  prefix_lru_add(&sent, &a, 64, 3);
  prefix_lru_add(&sent, &b, 64, 2);
  cr_expect_eq(found(&a, 64, 4), 3, "all that was sent");
  cr_expect_eq(found(&a, 64, 2), 2, "no more than asked for");
  cr_expect_eq(found(&a, 32, 4), 0, "blocks of another size");
  prefix_lru_add(&sent, &a, 64, 2); // the third of a is the oldest then
  prefix_lru_add(&sent, &b, 64, 3);
  cr_expect_eq(found(&a, 64, 3), 2);
  cr_expect_eq(found(&b, 64, 3), 3);
  prefix_lru_add(&sent, &b, 64, 5);
  cr_expect_eq(found(&b, 64, 9), 5);
  cr_expect_eq(found(&a, 64, 3), 0);
}
