/* Rows of keys say all that the page of keys has of them. */
#include "experiments/keys/keys.h"
#include "tests/unit/testing.h"

TestSuite(keys, .init = setup, .fini = teardown);

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
