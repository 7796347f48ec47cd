/* The registry. Pinned: which policies there are, that each is found by its name, names and help
 * are fit to print, the hooks that the core calls unasked are there, and the options' defaults bind
 * without touching anything beside the state. What each policy decides is in the test of its kind.
 */
#include "sim/policies.h"
#include "sim/pool/pool.h"
#include "sim/router/router.h"
#include "sim/transfer/transfer_policy.h"
#include "tests/unit/sim_testing.h"
#include <ctype.h>

TestSuite(policy, .init = setup, .fini = teardown);

Test(policy, those_of_the_papers_and_their_baselines_are_listed) {
  static const struct {
    PolicyKind kind;
    const char *kind_name;
    const char *names[16];
  } kinds[] = {
      {POLICY_ROUTER,
       "router",
       {"random", "round_robin", "jsq", "token_jsq", "least_kv", "power_of_two", "prefix_affinity",
        "llm_d", "splitwise", "splitwise_sim_kv_jsq", "splitwise_sim_kv_token_jsq",
        "splitwise_sim_mixed_pool"}},
      {POLICY_PREDICTOR, "predictor", {"none", "oracle", "buckets"}},
      {POLICY_DISPATCHER, "dispatcher", {"router"}},
      {POLICY_POOL, "pool", {"fixed", "splitwise_mixed", "splitwise_sim"}},
      {POLICY_BATCHER,
       "batcher",
       {"request_level", "continuous", "mixed", "splitwise", "splitwise_sim",
        "splitwise_sim_orca"}},
      {POLICY_TRANSFER,
       "transfer",
       {"serialized", "layerwise", "chunked", "splitwise", "splitwise_sim"}},
      {POLICY_KVTIER, "kvtier", {"recompute", "splitwise_sim"}},
      {POLICY_SCALER, "scaler", {"none", "target", "forecast", "schedule", "dynamo_planner"}},
  };
  cr_assert_eq(COUNT(kinds), (size_t)POLICY_KINDS);
  for (size_t i = 0; i < COUNT(kinds); i++) {
    cr_expect_str_eq(policy_kind_name(kinds[i].kind), kinds[i].kind_name);
    for (const char *const *name = kinds[i].names; *name; name++)
      cr_expect_not_null(policy_find(kinds[i].kind, *name), "%s '%s'", kinds[i].kind_name, *name);
  }
}

Test(policy, each_is_found_by_a_name_of_its_own) {
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++) {
    const Policy *const *list = policy_list(kind);
    cr_assert_not_null(list[0], "no %s", policy_kind_name(kind));
    for (size_t i = 0; list[i]; i++) // the first of that name is found: so it is the only one
      cr_expect_eq(policy_find(kind, list[i]->name), list[i], "%s", list[i]->name);
    cr_expect_null(policy_find(kind, "jsqq"));
    cr_expect_null(policy_find(kind, ""));
  }
}

static bool is_word(const char *text) {
  if (!*text) return false;
  for (; *text; text++)
    if (!islower((unsigned char)*text) && *text != '_') return false;
  return true;
}

Test(policy, names_are_words) {
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *list = policy_list(kind); *list; list++) {
      const Policy *policy = *list;
      cr_expect(is_word(policy->name), "'%s'", policy->name);
      for (const OptionSpec *spec = policy->options; spec && spec->key; spec++)
        cr_expect(is_word(spec->key), "'%s' of '%s'", spec->key, policy->name);
    }
}

Test(policy, the_hooks_that_the_core_calls_unasked_are_there) {
  for (const Policy *const *p = policy_list(POLICY_ROUTER); *p; p++)
    cr_expect_not_null(((const Router *)*p)->pick, "%s", (*p)->name);
  for (const Policy *const *p = policy_list(POLICY_POOL); *p; p++) {
    const PoolPolicy *pool = (const PoolPolicy *)*p;
    cr_expect(!pool->moves_roles || pool->claim, "%s", (*p)->name);
  }
  for (const Policy *const *p = policy_list(POLICY_BATCHER); *p; p++) {
    const Batcher *batcher = (const Batcher *)*p;
    cr_expect(batcher->wake && (batcher->schedules != NULL) != (batcher->plan != NULL), "%s",
              (*p)->name);
  }
  for (const Policy *const *p = policy_list(POLICY_TRANSFER); *p; p++)
    cr_expect_not_null(((const TransferPolicy *)*p)->pick, "%s", (*p)->name);
}

Test(policy, defaults_bind_and_stay_inside_the_state) {
  enum { BEYOND = 64, MARK = 0x5a };
  for (PolicyKind kind = 0; kind < POLICY_KINDS; kind++)
    for (const Policy *const *list = policy_list(kind); *list; list++) {
      const Policy *policy = *list;
      if (!policy->options) continue;
      unsigned char *state = arena_alloc(&arena, policy->state_size + BEYOND);
      memset(state + policy->state_size, MARK, BEYOND);
      const int rc = option_bind(policy->options, NULL, NULL, place_of_file("none"), state, &diag);
      cr_expect(rc == 0 && diag.n_entries == 0, "defaults of '%s'", policy->name);
      for (int i = 0; i < BEYOND; i++)
        cr_assert_eq(state[policy->state_size + (size_t)i], MARK, "'%s'", policy->name);
    }
}
