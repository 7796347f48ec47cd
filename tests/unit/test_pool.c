/* Pool policies. Pinned: the role a claimed machine takes, when it returns, when it is re-purposed;
 * when a machine flips. That the engine acts on it is in test_engine and test_flip. */
#include "sim/policies.h"
#include "sim/pool/pool.h"
#include "tests/unit/sim_testing.h"

static Stage stage;

TestSuite(pool, .init = setup, .fini = teardown);

static const PoolPolicy *find(const char *name) {
  return (const PoolPolicy *)policy_find(POLICY_POOL, name);
}

Test(pool, fixed_roles_neither_move_nor_settle) {
  cr_expect_not(find("fixed")->moves_roles);
  cr_expect_null(find("fixed")->review_role);
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

/* Instance 0 has been in its role for 10 s. */
static void expect_settled(const char *name, const char *options, const Case *cases, size_t n) {
  const PoolPolicy *pool = find(name);
  void *state = policy_state(POLICY_POOL, name, options, &arena);
  stage_init(&stage, "M", 10, 16, &arena);
  stage.view.now = 30 * TICKS_PER_SECOND;
  Instance *machine = &stage.machines[0];
  machine->role_since = 20 * TICKS_PER_SECOND;
  for (size_t i = 0; i < n; i++) {
    machine->role = cases[i].role;
    machine->home = cases[i].home;
    machine->n_prefills = cases[i].n_prefills;
    machine->n_decodes = cases[i].n_decodes;
    Role home = machine->home;
    const Role role = pool->review_role(state, &stage.view, machine, cases[i].idle, &home);
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

/* --- TetriInfer's flips */

typedef struct Watched {
  const PoolPolicy *pool;
  void *state;
} Watched;

/* Machines that have been idle since 0, and are now at 100 s. */
static Watched watch_stage(const char *roles, const char *options) {
  stage_init(&stage, roles, 10, 16, &arena);
  stage.view.now = 100 * TICKS_PER_SECOND;
  const Watched watched = {find("tetriinfer_flip"),
                           policy_state(POLICY_POOL, "tetriinfer_flip", options, &arena)};
  watched.pool->start(watched.state, &stage.view, &arena);
  return watched;
}

static void expect_role(const Watched *watched, InstanceIx m, Role want, const char *what) {
  Tick ticks = -1;
  const Role role = watched->pool->watch(watched->state, &stage.view, &stage.machines[m], &ticks);
  cr_expect_eq(role, want, "%s: %s", what, role_name(role));
  if (role != stage.machines[m].role) cr_expect_eq(ticks, 6 * MS, "%s: the time it takes", what);
}

Test(pool, tetriinfer_flips_a_machine_that_is_idle_where_the_other_role_has_work) {
  const Watched watched = watch_stage("PPDDM", NULL);
  expect_role(&watched, 0, P, "at rest nobody flips");
  expect_role(&watched, 2, D, "at rest nobody flips");
  stage.machines[2].idle_since = -1;
  expect_role(&watched, 0, P, "one of two decode machines is free");
  column_set(stage.view.columns.n_assigned, 3, 1);
  expect_role(&watched, 0, D, "all decode machines have work");
  expect_role(&watched, 4, M, "mixed machines stay");
  expect_role(&watched, 3, D, "the prefill machines have none, and this one has");
  column_set(stage.view.columns.n_assigned, 0, 1);
  expect_role(&watched, 0, P, "it has work itself");
  column_set(stage.view.columns.n_assigned, 0, 0);
  column_set(stage.view.columns.n_present, 0, 1);
  expect_role(&watched, 0, P, "a request is there");
  column_set(stage.view.columns.n_present, 0, 0);
  cluster_withdraw(&stage.view, 1, P);
  expect_role(&watched, 0, P, "the last prefill machine");
}

Test(pool, tetriinfer_flips_after_a_minute_in_this_role) {
  static const struct {
    const char *what;
    Tick idle_since_s, role_since_s;
    Role want;
  } cases[] = {
      {"idle for a minute", 40, 0, D},
      {"not quite", 41, 0, P},
      {"for longer, but in this role for a minute", 0, 40, D},
      {"and not quite", 0, 41, P},
      {"busy", -1, 0, P},
  };
  const Watched watched = watch_stage("PPD", NULL);
  column_set(stage.view.columns.n_assigned, 2, 1);
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Tick idle_since = cases[i].idle_since_s;
    stage.machines[0].idle_since = idle_since < 0 ? -1 : idle_since * TICKS_PER_SECOND;
    stage.machines[0].role_since = cases[i].role_since_s * TICKS_PER_SECOND;
    expect_role(&watched, 0, cases[i].want, cases[i].what);
  }
}

Test(pool, tetriinfer_keeps_as_many_machines_as_it_is_told) {
  Watched watched = watch_stage("PPPD", "{min_prefill: 3}");
  column_set(stage.view.columns.n_assigned, 3, 1);
  expect_role(&watched, 0, P, "three of three stay");
  watched = watch_stage("PPPD", "{min_prefill: 2}");
  column_set(stage.view.columns.n_assigned, 3, 1);
  expect_role(&watched, 0, D, "two of three stay");
  watched = watch_stage("PDD", "{min_decode: 2}");
  column_set(stage.view.columns.n_assigned, 0, 1);
  expect_role(&watched, 1, D, "two of two stay");
  watched = watch_stage("PDD", NULL);
  column_set(stage.view.columns.n_assigned, 0, 1);
  expect_role(&watched, 1, P, "one of two");
}

Test(pool, tetriinfer_to_the_letter_flips_whatever_the_others_do) {
  const Watched watched = watch_stage("PPDD", "{only_if_other_busy: false}");
  expect_role(&watched, 0, D, "a prefill machine at rest");
  expect_role(&watched, 2, P, "a decode machine at rest");
}

/* Asks at broadcasts a second apart, machine 0 busy for `busy` of each second, and returns the
 * first at which it flips; 0 if it does not until `last`. */
static int64_t first_flip(const Watched *watched, int64_t from, int64_t last, Tick busy) {
  for (int64_t s = from; s <= last; s++) {
    stage.view.now = s * TICKS_PER_SECOND;
    stage.view.loads[0].idle_ticks += TICKS_PER_SECOND - busy;
    Tick ticks;
    if (watched->pool->watch(watched->state, &stage.view, &stage.machines[0], &ticks) !=
        stage.machines[0].role)
      return s;
  }
  return 0;
}

Test(pool, tetriinfer_takes_load_over_a_window) {
  const char *options = "{when: load, load_below: 10%, window: 10 s}";
  Watched watched = watch_stage("PPD", options);
  column_set(stage.view.columns.n_assigned, 2, 1);
  cr_expect_eq(first_flip(&watched, 1, 30, 99 * MS), 10, "a window has to pass");
  watched = watch_stage("PPD", options);
  column_set(stage.view.columns.n_assigned, 2, 1);
  cr_expect_eq(first_flip(&watched, 1, 200, 100 * MS), 0, "a tenth is not below a tenth");
  // ten seconds of which nine are at 0 and the first at 1, 0.95 …: below once the last busy one is
  // out of the window but for less than a second
  cr_expect_eq(first_flip(&watched, 201, 205, 1000 * MS), 0, "busy");
  cr_expect_eq(first_flip(&watched, 206, 300, 0), 215, "all but a tenth of a window later, and on");
}

Test(pool, tetriinfer_forgets_the_load_of_another_role) {
  const Watched watched = watch_stage("PPD", "{when: load, load_below: 10%, window: 10 s}");
  column_set(stage.view.columns.n_assigned, 2, 1);
  cr_expect_eq(first_flip(&watched, 1, 9, 0), 0);
  stage.machines[0].role_since = 95 * TICKS_PER_SECOND / 10;
  cr_expect_eq(first_flip(&watched, 10, 30, 0), 20, "ten seconds after the first broadcast in it");
}

/* More broadcasts in a window than are kept. */
Test(pool, tetriinfer_looks_at_a_window_in_64ths) {
  const Watched watched = watch_stage("PPD", "{when: load, load_below: 10%, window: 1000 s}");
  column_set(stage.view.columns.n_assigned, 2, 1);
  cr_expect_eq(first_flip(&watched, 1, 2000, 100 * MS), 0);
  const int64_t flips = first_flip(&watched, 2001, 4000, 99 * MS);
  cr_expect(2001 <= flips && flips <= 3017, "at %lld s", (long long)flips);
}

Test(pool, tetriinfer_cannot_keep_more_than_there_are) {
  const PoolPolicy *pool = find("tetriinfer_flip");
  const void *state =
      policy_state(POLICY_POOL, "tetriinfer_flip", "{min_prefill: 3, min_decode: 4}", &arena);
  cr_expect_null(pool->excess(state, 4));
  cr_expect_str_eq(pool->excess(state, 3), "min_decode");
  cr_expect_str_eq(pool->excess(state, 2), "min_prefill");
}
