/* The view of routers. Pinned: machines by role in the order in which they took it, the first
 * minimum of a column, which role covers which phase. */
#include "tests/unit/sim_testing.h"

static Stage stage;

TestSuite(cluster, .init = setup, .fini = teardown);

static void expect_list(Role role, const MachineIx *want, uint32_t count) {
  const RoleList *list = &stage.view.by_role[role];
  cr_assert_eq(list->count, count, "%s: %u", role_name(role), list->count);
  for (uint32_t i = 0; i < count; i++)
    cr_assert_eq(list->items[i], want[i], "%s[%u] is %u", role_name(role), i, list->items[i]);
}

Test(cluster, machines_are_listed_by_role_in_the_order_in_which_they_took_it) {
  stage_init(&stage, "PDPMDP", 10, 16, &arena);
  expect_list(ROLE_PREFILL, (MachineIx[]){0, 2, 5}, 3);
  expect_list(ROLE_DECODE, (MachineIx[]){1, 4}, 2);
  expect_list(ROLE_MIXED, (MachineIx[]){3}, 1);
  cluster_move(&stage.view, 0, ROLE_PREFILL, ROLE_MIXED);
  expect_list(ROLE_PREFILL, (MachineIx[]){2, 5}, 2);
  cluster_move(&stage.view, 2, ROLE_PREFILL, ROLE_MIXED);
  expect_list(ROLE_PREFILL, (MachineIx[]){5}, 1);
  expect_list(ROLE_MIXED, (MachineIx[]){3, 0, 2}, 3);
  cluster_move(&stage.view, 2, ROLE_MIXED, ROLE_PREFILL);
  expect_list(ROLE_PREFILL, (MachineIx[]){5, 2}, 2);
  expect_list(ROLE_MIXED, (MachineIx[]){3, 0}, 2);
}

Test(cluster, all_machines_may_gather_in_one_role) {
  stage_init(&stage, "PDMPDMPD", 10, 16, &arena);
  for (MachineIx m = 0; m < 8; m++)
    if (stage.machines[m].role != ROLE_MIXED)
      cluster_move(&stage.view, m, stage.machines[m].role, ROLE_MIXED);
  expect_list(ROLE_MIXED, (MachineIx[]){2, 5, 0, 1, 3, 4, 6, 7}, 8);
  expect_list(ROLE_PREFILL, NULL, 0);
}

Test(cluster, the_columns_begin_at_zero) {
  stage_init(&stage, "PDM", 10, 16, &arena);
  cr_assert_eq(stage.view.n_machines, 3u);
  for (MachineIx m = 0; m < 3; m++)
    cr_expect(stage.view.pending_tokens[m] == 0 && stage.view.n_assigned[m] == 0 &&
              stage.view.n_present[m] == 0 && stage.view.kv_blocks[m] == 0);
}

Test(cluster, the_first_of_equal_minima_wins) {
  MachineIx items[] = {4, 2, 0, 3};
  const int64_t column[] = {5, -9, 5, 7, 6};
  cr_expect_eq(role_list_least(&(RoleList){items, 4}, column), 2u, "2 is listed before 0");
  cr_expect_eq(role_list_least(&(RoleList){items, 1}, column), 4u);
  cr_expect_eq(role_list_least(&(RoleList){items, 0}, column), MACHINE_NONE);
}

Test(cluster, a_role_covers_its_own_phase_and_mixed_covers_both) {
  static const struct {
    Role role;
    bool prefill, decode;
    const char *name;
  } cases[] = {{ROLE_PREFILL, true, false, "prefill"},
               {ROLE_DECODE, false, true, "decode"},
               {ROLE_MIXED, true, true, "mixed"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    cr_expect_eq(role_covers(cases[i].role, PHASE_PREFILL), cases[i].prefill);
    cr_expect_eq(role_covers(cases[i].role, PHASE_DECODE), cases[i].decode);
    cr_expect_str_eq(role_name(cases[i].role), cases[i].name);
  }
}
