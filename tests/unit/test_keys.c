/* Rows of keys say all that the page of keys has of them. */
#include "experiments/keys/keys.h"
#include "tests/unit/testing.h"

TestSuite(keys, .init = setup, .fini = teardown);

Test(keys, each_says_what_it_is_and_what_holds_without_it) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  cr_assert_gt(n, 40);
  for (size_t i = 0; i < n; i++)
    for (const OptionSpec *spec = blocks[i].specs; spec && spec->key; spec++) {
      const char *name = keys_name(&blocks[i], spec, &arena);
      cr_expect(spec->help && *spec->help, "'%s' has no help", name);
      cr_expect_not_null(option_default(spec), "'%s' has neither fallback nor absent", name);
      cr_expect_null(spec->help ? strstr(spec->help, "absent: ") : NULL,
                     "what holds without '%s' is in its help, not in absent", name);
    }
}

Test(keys, those_of_policies_are_there_with_their_defaults) {
  size_t n = 0;
  const KeyBlock *blocks = keys_blocks(&n, &arena);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(blocks[i].place, "policies.router") != 0 || strcmp(blocks[i].which, "llm_d") != 0)
      continue;
    cr_assert_str_eq(keys_name(&blocks[i], blocks[i].specs, &arena),
                     "policies.router.queue_weight");
    cr_assert_str_eq(option_default(blocks[i].specs), "2");
    cr_assert_str_eq(option_values(blocks[i].specs, &arena), "number, 0 to 1000000");
    return;
  }
  cr_assert_fail("no block of llm_d");
}
