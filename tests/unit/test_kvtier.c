/* Who gives way when KV memory runs out. Pinned: vLLM takes the last to arrive of all who hold
 * KV and could decode, wherever they wait, and which batchers may be combined with a tier that
 * evicts, swaps or does neither. What happens to the victim is in test_engine. */
#include "sim/kvtier/kvtier.h"
#include "sim/policies.h"
#include "tests/unit/sim_testing.h"

static Stage stage;

static void begin(void) {
  setup();
  stage_init(&stage, "M", 1000, 16, &arena);
}

TestSuite(kvtier, .init = begin, .fini = teardown);

static RequestIx victim(const char *name) {
  const KvTier *tier = (const KvTier *)policy_find(POLICY_KVTIER, name);
  const InstanceView view = stage_view(&stage, 0);
  return tier->pick(policy_state(POLICY_KVTIER, name, NULL, &arena), &view);
}

static const char *const of_vllm[] = {"recompute", "swap"};

Test(kvtier, vllm_takes_the_last_to_arrive_wherever_it_waits) {
  static const RequestState states[] = {REQUEST_RUNS, REQUEST_WAITS_DECODE, REQUEST_BLOCKED};
  RequestIx members[6];
  for (size_t i = 0; i < COUNT(members); i++)
    members[i] = stage_decode(&stage, 0, states[i % COUNT(states)], 20, 20);
  stage_prefill(&stage, 0, 10);                     // arrived later than all, but holds no KV
  stage_decode(&stage, 0, REQUEST_SWAPPED, 20, 20); // nor does this one, here
  for (size_t last = 0; last < COUNT(members); last++) {
    const uint64_t id = stage.requests.slots[members[last]].id;
    stage.requests.slots[members[last]].id = 1000; // slots are recycled: not in order of arrival
    for (size_t i = 0; i < COUNT(of_vllm); i++)
      cr_expect_eq(victim(of_vllm[i]), members[last], "%s, member %zu", of_vllm[i], last);
    stage.requests.slots[members[last]].id = id;
  }
}

Test(kvtier, vllm_finds_nobody_where_nobody_holds_kv) {
  stage_prefill(&stage, 0, 10);
  stage_decode(&stage, 0, REQUEST_SWAPPED, 20, 20);
  for (size_t i = 0; i < COUNT(of_vllm); i++)
    cr_expect_eq(victim(of_vllm[i]), REQUEST_NONE);
}

Test(kvtier, a_tier_goes_with_batchers_that_can_do_with_it) {
  static const struct {
    const char *batcher;
    bool recompute, swap, splitwise_sim;
  } cases[] = {
      {"continuous", true, true, false},     {"mixed", true, true, false},
      {"splitwise", true, true, false},      {"request_level", true, false, true},
      {"splitwise_sim", false, false, true}, {"splitwise_sim_orca", false, false, true},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Policy *batcher = policy_find(POLICY_BATCHER, cases[i].batcher);
    const char *const tiers[] = {"recompute", "swap", "splitwise_sim"};
    const bool good[] = {cases[i].recompute, cases[i].swap, cases[i].splitwise_sim};
    for (size_t k = 0; k < COUNT(tiers); k++) {
      const char *conflict = sim_conflict(policy_find(POLICY_POOL, "fixed"), batcher,
                                          policy_find(POLICY_KVTIER, tiers[k]));
      cr_expect_eq(conflict == NULL, good[k], "%s with %s", cases[i].batcher, tiers[k]);
    }
  }
}
