/* Who gives way when KV memory runs out. Pinned: recompute takes the last to arrive of all who hold
 * KV and could decode, wherever they wait, and which batchers may be combined with a tier that
 * evicts or with one that does not. What happens to the victim is in test_engine. */
#include "sim/kvtier/kvtier.h"
#include "tests/unit/sim_testing.h"
#include <criterion/criterion.h>

static Arena arena;
static Stage stage;

static void setup(void) {
  arena_init(&arena);
  stage_init(&stage, "M", 1000, 16, &arena);
}
static void teardown(void) {
  arena_done(&arena);
}

TestSuite(kvtier, .init = setup, .fini = teardown);

static RequestIx victim(const char *name) {
  const KvTier *tier = (const KvTier *)policy_find(POLICY_KVTIER, name);
  const MachineView view = stage_view(&stage, 0);
  return tier->pick(policy_state(POLICY_KVTIER, name, NULL, &arena), &view);
}

Test(kvtier, recompute_takes_the_last_to_arrive_wherever_it_waits) {
  static const RequestState states[] = {REQUEST_RUNS, REQUEST_WAITS_DECODE, REQUEST_BLOCKED};
  RequestIx members[6];
  for (size_t i = 0; i < COUNT(members); i++)
    members[i] = stage_decode(&stage, 0, states[i % COUNT(states)], 20, 20);
  stage_prefill(&stage, 0, 10); // arrived later than all, but holds no KV
  for (size_t last = 0; last < COUNT(members); last++) {
    const uint64_t id = stage.requests.slots[members[last]].id;
    stage.requests.slots[members[last]].id = 1000; // slots are recycled: not in order of arrival
    cr_expect_eq(victim("recompute"), members[last], "member %zu", last);
    stage.requests.slots[members[last]].id = id;
  }
}

Test(kvtier, recompute_finds_nobody_where_nobody_holds_kv) {
  stage_prefill(&stage, 0, 10);
  cr_expect_eq(victim("recompute"), REQUEST_NONE);
}

Test(kvtier, a_tier_goes_with_batchers_that_can_do_with_it) {
  static const struct {
    const char *batcher;
    bool recompute, splitwise_sim;
  } cases[] = {
      {"continuous", true, false},    {"mixed", true, false},
      {"splitwise", true, false},     {"request_level", true, true},
      {"splitwise_sim", false, true}, {"splitwise_sim_orca", false, true},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Policy *batcher = policy_find(POLICY_BATCHER, cases[i].batcher);
    const char *conflict = sim_conflict(policy_find(POLICY_POOL, "fixed"), batcher,
                                        policy_find(POLICY_KVTIER, "recompute"));
    cr_expect_eq(conflict == NULL, cases[i].recompute, "%s", cases[i].batcher);
    conflict = sim_conflict(policy_find(POLICY_POOL, "fixed"), batcher,
                            policy_find(POLICY_KVTIER, "splitwise_sim"));
    cr_expect_eq(conflict == NULL, cases[i].splitwise_sim, "%s", cases[i].batcher);
  }
}
