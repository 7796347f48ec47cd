/* Knobs: values to try are values of their rows, and engines have the knobs of their batchers. */
#include "experiments/plan/plan.h"
#include "sim/policies.h"
#include "tests/unit/testing.h"
#include <stdlib.h>
#include <string.h>

TestSuite(tune, .init = setup, .fini = teardown);

/* Calls `check` with each value of a row. */
static void each_value(const OptionSpec *spec, void (*check)(const OptionSpec *, const char *)) {
  for (const char *at = spec->tries; at && *at;) {
    const size_t length = strcspn(at, " ");
    check(spec, arena_copy(&arena, at, length));
    at += length + strspn(at + length, " ");
  }
}

/* Bound and told again it is the same. */
static void binds(const OptionSpec *spec, const char *text) {
  OptionSpec row = *spec;
  const Node value = {.kind = NODE_SCALAR, .text = text};
  double target[2] = {0};
  row.offset = 0;
  cr_expect_eq(option_bind_one(&row, &value, target, &diag), 0, "%s: %s", spec->key, text);
  const char *told = option_text(&row, target, &arena);
  cr_assert_not_null(told, "%s", spec->key);
  cr_expect_str_eq(told, text, "%s", spec->key);
}

Test(tune, values_are_values_of_their_rows) {
  int n = 0;
  for (const Policy *const *batcher = policy_list(POLICY_BATCHER); *batcher; batcher++)
    for (const OptionSpec *spec = (*batcher)->options; spec && spec->key; spec++) {
      each_value(spec, binds);
      n += spec->tries != NULL;
    }
  for (const OptionSpec *spec = config_pool_options; spec->key; spec++)
    each_value(spec, binds);
  cr_expect_gt(n, 30);
}

static void is_router(const OptionSpec *spec, const char *text) {
  (void)spec;
  cr_expect_not_null(policy_find(POLICY_ROUTER, text), "%s", text);
}

Test(tune, routers_to_try_are_routers) {
  each_value(&config_policy_options[POLICY_ROUTER], is_router);
}

Test(tune, engines_have_the_knobs_of_their_batchers) {
  static const char *const of[][3] = {{"vllm", "vllm-0.33", "trtllm-1.3"},
                                      {"sglang", "sglang-0.5", "sglang-0.5"}};
  for (size_t i = 0; i < COUNT(of); i++)
    for (const OptionSpec *spec = policy_find(POLICY_BATCHER, of[i][0])->options; spec->key; spec++)
      if (spec->tries && strcmp(spec->key, "enable_chunked_prefill") != 0)
        cr_expect(plan_engine_has(of[i][1], spec->key) || plan_engine_has(of[i][2], spec->key),
                  "%s", spec->key);
  cr_expect(plan_engine_has("vllm-0.24", "enable_chunked_prefill"));
  cr_expect_not(plan_engine_has("sglang-0.5", "prefill_schedule_interval"));
  cr_expect_not(plan_engine_has("vllm-0.33", "no_such_key"));
}

Test(tune, other_types_have_no_text) {
  const OptionSpec row = {.key = "a", .type = OPTION_TICKS};
  const Tick target = 0;
  cr_expect_null(option_text(&row, &target, &arena));
}
