/* Pool policies. Pinned: the role a claimed machine takes, when it returns, when it is re-purposed.
 * That the engine acts on it is in test_engine. */
#include "sim/pool/pool.h"
#include "tests/unit/sim_testing.h"
#include <criterion/criterion.h>

static Arena arena;
static Stage stage;

static void setup(void) {
  arena_init(&arena);
}
static void teardown(void) {
  arena_done(&arena);
}

TestSuite(pool, .init = setup, .fini = teardown);

static const PoolPolicy *find(const char *name) {
  return (const PoolPolicy *)policy_find(POLICY_POOL, name);
}

Test(pool, fixed_roles_neither_move_nor_settle) {
  cr_expect_not(find("fixed")->moves_roles);
  cr_expect_null(find("fixed")->settle);
}

Test(pool, a_claimed_machine_turns_to_mixed) {
  static const char *const names[] = {"splitwise_mixed", "splitwise_sim"};
  stage_init(&stage, "PD", 10, 16, &arena);
  for (size_t i = 0; i < COUNT(names); i++) {
    const PoolPolicy *pool = find(names[i]);
    void *state = policy_state(POLICY_POOL, names[i], NULL, &arena);
    cr_assert(pool->moves_roles);
    cr_expect_eq(pool->claim(state, &stage.view, &stage.machines[0], PHASE_DECODE), ROLE_MIXED);
    cr_expect_eq(pool->claim(state, &stage.view, &stage.machines[1], PHASE_PREFILL), ROLE_MIXED);
  }
}

typedef struct Case {
  Role role, home;
  int32_t n_prefills, n_decodes;
  bool idle;
  Role want_role, want_home;
} Case;

/* Machine 0 has been in its role for 10 s. */
static void expect_settled(const char *name, const char *options, const Case *cases, size_t n) {
  const PoolPolicy *pool = find(name);
  void *state = policy_state(POLICY_POOL, name, options, &arena);
  stage_init(&stage, "M", 10, 16, &arena);
  stage.view.now = 30 * TICKS_PER_SECOND;
  Machine *machine = &stage.machines[0];
  machine->role_since = 20 * TICKS_PER_SECOND;
  for (size_t i = 0; i < n; i++) {
    machine->role = cases[i].role;
    machine->home = cases[i].home;
    machine->n_prefills = cases[i].n_prefills;
    machine->n_decodes = cases[i].n_decodes;
    Role home = machine->home;
    const Role role = pool->settle(state, &stage.view, machine, cases[i].idle, &home);
    cr_expect_eq(role, cases[i].want_role, "case %zu: %s", i, role_name(role));
    cr_expect_eq(home, cases[i].want_home, "home in case %zu: %s", i, role_name(home));
  }
}

#define P ROLE_PREFILL
#define D ROLE_DECODE
#define M ROLE_MIXED

Test(pool, splitwise_returns_when_no_task_of_the_opposite_kind_is_left) {
  static const Case cases[] = {
      {M, P, 5, 1, false, M, P}, {M, P, 5, 0, false, P, P}, {M, P, 0, 0, true, P, P},
      {M, D, 1, 5, false, M, D}, {M, D, 0, 5, false, D, D}, {P, P, 5, 0, false, P, P},
      {D, D, 0, 0, true, D, D},  {M, M, 3, 3, false, M, M}, {M, M, 0, 0, true, M, M},
  };
  expect_settled("splitwise_mixed", NULL, cases, COUNT(cases));
}

Test(pool, splitwise_repurposes_a_machine_that_stayed_mixed) {
  static const Case before[] = {{M, P, 0, 3, false, M, P}, {M, D, 3, 0, false, M, D}};
  expect_settled("splitwise_mixed", "{repurpose_after: 10.5 s}", before, COUNT(before));
  static const Case after[] = {
      {M, P, 0, 3, false, D, D}, // nothing of its old role is left
      {M, P, 2, 3, false, M, D}, // serves the rest of it from the mixed pool
      {M, D, 3, 0, false, P, P}, {M, D, 3, 2, false, M, P},
      {M, P, 2, 0, false, P, P}, // returns: nothing of the opposite role is left
      {M, M, 2, 2, false, M, M}, {P, P, 2, 0, false, P, P},
  };
  expect_settled("splitwise_mixed", "{repurpose_after: 10 s}", after, COUNT(after));
}

Test(pool, splitwise_sim_returns_only_when_idle) {
  static const Case cases[] = {
      {M, P, 5, 0, false, M, P},                           // though only its own tasks are left
      {M, D, 0, 5, false, M, D}, {M, P, 0, 1, true, P, P}, // though a decode is on its way
      {M, D, 0, 0, true, D, D},  {P, P, 0, 0, true, P, P}, {M, M, 0, 0, true, M, M},
  };
  expect_settled("splitwise_sim", NULL, cases, COUNT(cases));
}
