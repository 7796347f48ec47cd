/* What makes a stored run stale: the rules that it used. */
#include "experiments/base/epoch.h"
#include "tests/unit/testing.h"

TestSuite(epoch, .init = setup, .fini = teardown);

static const char *of(const char *a, const char *b) {
  const char *const names[] = {a, b};
  return epoch_of(names, 2, &arena);
}

Test(epoch, no_two_rules_are_written_alike) {
  size_t n = 0;
  const OutcomeRule *rules = outcome_rules(&n);
  cr_assert_gt(n, 40);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++) {
      const char *one = epoch_of(&rules[i].name, 1, &arena);
      const char *other = epoch_of(&rules[k].name, 1, &arena);
      const size_t last = strlen(one) - EPOCH_RULE;
      if (last != strlen(other) - EPOCH_RULE) continue;
      cr_expect(strncmp(one + last, other + last, 4) != 0, "'%s' and '%s'", rules[i].name,
                rules[k].name);
    }
}

Test(epoch, neither_order_nor_number_of_the_rules_matters) {
  const char *one = of("router.jsq", "batcher.vllm");
  cr_expect_str_eq(one, of("batcher.vllm", "router.jsq"));
  cr_expect_str_eq(epoch_join(one, of("router.jsq", "router.jsq"), &arena), one);
  cr_expect_str_eq(epoch_join(of("faults", "faults"), one, &arena),
                   epoch_join(one, of("faults", "router.jsq"), &arena));
  cr_expect_eq(strlen(one), 4 * EPOCH_RULE);
  cr_expect_eq(strlen(epoch_of(NULL, 0, &arena)), 2 * EPOCH_RULE);
}

Test(epoch, another_digest_of_a_rule_is_stale_and_agrees_with_what_has_not_used_it) {
  const char *ours = of("router.jsq", "batcher.vllm"), *others = of("router.random", "faults");
  cr_expect(!epoch_is_stale(ours) && epoch_agrees(ours, others) && epoch_agrees(others, ours));
  for (size_t i = 0; i < strlen(ours); i++) {
    char *changed = arena_copy(&arena, ours, strlen(ours));
    changed[i] = changed[i] == '0' ? '1' : '0';
    cr_expect(epoch_is_stale(changed), "digit %zu", i);
    cr_expect(i % EPOCH_RULE < 4 || !epoch_agrees(changed, ours), "digit %zu", i);
    if (i >= 2 * EPOCH_RULE) cr_expect(epoch_agrees(changed, others), "digit %zu", i);
  }
}

Test(epoch, what_is_no_epoch_is_stale_and_agrees_with_itself_alone) {
  const char *ours = of("router.jsq", "faults");
  static const char *const texts[] = {"", "0", "0000000000000001", "measured", "5cf865d1a5598d1d"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cr_expect(epoch_is_stale(texts[i]), "'%s'", texts[i]);
    cr_expect(epoch_agrees(texts[i], texts[i]) && !epoch_agrees(texts[i], ours) &&
                  !epoch_agrees(ours, texts[i]),
              "'%s'", texts[i]);
  }
}
