/* Which instances have the blocks of a prompt, all at once: held against a table. */
#include "base/rng.h"
#include "sim/core/holders.h"
#include "tests/unit/testing.h"

TestSuite(holders, .init = setup, .fini = teardown);

enum { INSTANCES = 70, CONTENTS = 3, BLOCKS = 12, BLOCK = 16 };

static Content contents[CONTENTS];
static bool table[INSTANCES][CONTENTS][BLOCKS];

static uint64_t key_of(int c, int64_t i) {
  return content_key(&contents[c], (i + 1) * BLOCK);
}

static void expect_as_in_table(Holders *holders, int c, int64_t n) {
  PromptKeys keys = {.arena = &arena};
  prompt_keys_begin(&keys, &contents[c]);
  const int32_t *runs = holders_match(holders, &keys, BLOCK, n);
  for (InstanceIx m = 0; m < INSTANCES; m++) {
    int64_t run = 0;
    while (run < n && table[m][c][run])
      run++;
    cr_assert_eq(runs[m], run, "%u has %d of content %d, not %d", m, (int)run, c, (int)runs[m]);
  }
}

/* Some blocks come and some go, by all numbers of instances. */
Test(holders, a_match_says_how_many_blocks_each_instance_has) {
  Holders holders;
  Rng rng;
  rng_init(&rng, 1, "holders");
  holders_init(&holders, INSTANCES, &arena);
  memset(table, 0, sizeof table);
  for (int c = 0; c < CONTENTS; c++)
    content_set(&contents[c], &(TraceRow){.prompt_tokens = 1}, (uint64_t)c, &arena);
  for (int round = 0; round < 3000; round++) {
    const int c = (int)rng_below(&rng, CONTENTS);
    const InstanceIx m = (InstanceIx)rng_below(&rng, c == 0 ? 2 : INSTANCES);
    const int64_t from = (int64_t)rng_below(&rng, BLOCKS), n = (int64_t)rng_below(&rng, BLOCKS);
    const bool adds = rng_below(&rng, 2) == 0;
    for (int64_t i = from; i < BLOCKS && i < from + n; i++) {
      (adds ? holders_add : holders_remove)(&holders, key_of(c, i), m);
      table[m][c][i] = adds;
      cr_assert_eq(holders_has(&holders, key_of(c, i), m), adds);
    }
    expect_as_in_table(&holders, c, (int64_t)rng_below(&rng, BLOCKS + 1));
  }
  for (InstanceIx m = 0; m < INSTANCES; m++)
    for (int c = 0; c < CONTENTS; c++)
      for (int64_t i = 0; i < BLOCKS; i++)
        holders_remove(&holders, key_of(c, i), m);
  cr_expect_eq(holders.keys.n_keys, 0);
}

/* As of a system prompt that all have, of which a few have lost some, and a few have more. */
Test(holders, a_match_of_what_nearly_all_have) {
  Holders holders;
  holders_init(&holders, INSTANCES, &arena);
  memset(table, 0, sizeof table);
  content_set(&contents[0], &(TraceRow){.prompt_tokens = 1}, 1, &arena);
  for (InstanceIx m = 0; m < INSTANCES; m++)
    for (int64_t i = 0; i < (m % 20 == 3 ? BLOCKS : m % 20 == 7 ? 2 : 6); i++) {
      holders_add(&holders, key_of(0, i), m);
      table[m][0][i] = true;
    }
  for (int64_t n = 0; n <= BLOCKS; n++)
    expect_as_in_table(&holders, 0, n);
}
