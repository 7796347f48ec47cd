/* The view of routers. Pinned: machines by role in the order in which they took it, the first
 * minimum of a column however it and the lists change, which role covers which phase. */
#include "base/rng.h"
#include "tests/unit/sim_testing.h"
#include <string.h>

static Stage stage;

TestSuite(cluster, .init = setup, .fini = teardown);

static void expect_list(Role role, const InstanceIx *want, uint32_t count) {
  const RoleList *list = &stage.view.by_role[role];
  cr_assert_eq(list->count, count, "%s: %u", role_name(role), list->count);
  for (uint32_t i = 0; i < count; i++)
    cr_assert_eq(list->items[i], want[i], "%s[%u] is %u", role_name(role), i, list->items[i]);
}

Test(cluster, machines_are_listed_by_role_in_the_order_in_which_they_took_it) {
  stage_init(&stage, "PDPMDP", 10, 16, &arena);
  expect_list(ROLE_PREFILL, (InstanceIx[]){0, 2, 5}, 3);
  expect_list(ROLE_DECODE, (InstanceIx[]){1, 4}, 2);
  expect_list(ROLE_MIXED, (InstanceIx[]){3}, 1);
  cluster_move(&stage.view, 0, ROLE_PREFILL, ROLE_MIXED);
  expect_list(ROLE_PREFILL, (InstanceIx[]){2, 5}, 2);
  cluster_move(&stage.view, 2, ROLE_PREFILL, ROLE_MIXED);
  expect_list(ROLE_PREFILL, (InstanceIx[]){5}, 1);
  expect_list(ROLE_MIXED, (InstanceIx[]){3, 0, 2}, 3);
  cluster_move(&stage.view, 2, ROLE_MIXED, ROLE_PREFILL);
  expect_list(ROLE_PREFILL, (InstanceIx[]){5, 2}, 2);
  expect_list(ROLE_MIXED, (InstanceIx[]){3, 0}, 2);
}

Test(cluster, all_machines_may_gather_in_one_role) {
  stage_init(&stage, "PDMPDMPD", 10, 16, &arena);
  for (InstanceIx m = 0; m < 8; m++)
    if (stage.machines[m].role != ROLE_MIXED)
      cluster_move(&stage.view, m, stage.machines[m].role, ROLE_MIXED);
  expect_list(ROLE_MIXED, (InstanceIx[]){2, 5, 0, 1, 3, 4, 6, 7}, 8);
  expect_list(ROLE_PREFILL, NULL, 0);
}

Test(cluster, the_columns_begin_at_zero) {
  stage_init(&stage, "PDM", 10, 16, &arena);
  cr_assert_eq(stage.view.n_instances, 3u);
  for (InstanceIx m = 0; m < 3; m++)
    cr_expect(column_at(stage.view.columns.pending_tokens, m) == 0 &&
              column_at(stage.view.columns.n_assigned, m) == 0 &&
              column_at(stage.view.columns.n_present, m) == 0 &&
              column_at(stage.view.columns.kv_blocks, m) == 0);
}

Test(cluster, the_first_of_equal_minima_wins) {
  static const int64_t figures[] = {5, -9, 5, 7, 6};
  stage_init(&stage, "DPDDD", 10, 16, &arena);
  Column *column = column_new(stage.view.columns.all);
  const RoleList *list = &stage.view.by_role[ROLE_DECODE];
  for (InstanceIx m = 0; m < 5; m++)
    column_set(column, m, figures[m]);
  cr_expect_eq(column_least(column, list), 0u, "of equals the first");
  cluster_move(&stage.view, 0, ROLE_DECODE, ROLE_DECODE);
  cr_expect_eq(column_least(column, list), 2u, "2 is listed before 0");
  cr_expect_eq(column_least_but(column, list, 2), 0u);
  cr_expect_eq(column_least_but(column, list, 1), 2u, "not of this list");
  for (InstanceIx m = 0; m < 4; m++)
    if (m != 1) cluster_withdraw(&stage.view, m, ROLE_DECODE);
  cr_expect_eq(column_least(column, list), 4u);
  cr_expect_eq(column_least_but(column, list, 4), INSTANCE_NONE);
  cluster_withdraw(&stage.view, 4, ROLE_DECODE);
  cr_expect_eq(column_least(column, list), INSTANCE_NONE);
  cr_expect_eq(column_least_but(column, list, 4), INSTANCE_NONE);
}

/* What the trees are held to. */
static InstanceIx scan(const Column *column, const RoleList *list, InstanceIx but) {
  InstanceIx best = INSTANCE_NONE;
  for (uint32_t i = 0; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    if (m != but && (best == INSTANCE_NONE || column->of[m] < column->of[best])) best = m;
  }
  return best;
}

/* A column may grow only when it is asked, as kv_blocks does. */
static int64_t grown[STAGE_MACHINES];
static void grow(void *column, InstanceIx m) {
  column_set(column, m, grown[m]);
}

static void expect_in_order(const ClusterView *view, const RoleList *list) {
  for (uint32_t i = 1; i < list->count; i++) {
    cr_assert_lt(view->columns.all->joined[list->items[i - 1]],
                 view->columns.all->joined[list->items[i]]);
    cr_assert_lt(list->by_number[i - 1], list->by_number[i]);
  }
}

/* One machine moves now and then, perhaps to no list or back from it. */
static void move_at_random(ClusterView *view, InstanceIx m, Rng *rng) {
  const Role from = view->columns.all->listed[m];
  if (from < ROLES) cluster_withdraw(view, m, from);
  if (from == ROLES || rng_below(rng, 3)) cluster_join(view, m, (Role)rng_below(rng, ROLES));
}

Test(cluster, the_least_is_what_a_scan_finds_whatever_changes) {
  static const char *const clusters[] = {"M", "DM", "PDM", "PPPDDDMM"};
  for (uint64_t seed = 0; seed < 40; seed++) {
    stage_init(&stage, clusters[seed % 4], 10, 16, &arena);
    ClusterView *view = &stage.view;
    Column *columns[] = {view->columns.n_assigned, view->columns.kv_blocks},
           *lazy = view->columns.n_present;
    lazy->refresh = grow;
    lazy->context = lazy;
    memset(grown, 0, sizeof grown);
    Rng rng;
    rng_init(&rng, seed, "columns");
    for (int step = 0; step < 400; step++) {
      const InstanceIx m = (InstanceIx)rng_below(&rng, view->n_instances);
      column_set(columns[step % 2], m, (int64_t)rng_below(&rng, 4) - 2); // many are equal
      grown[m] += (int64_t)rng_below(&rng, 3);
      if (step % 5 == 0) move_at_random(view, m, &rng);
      const RoleList *list = &view->by_role[rng_below(&rng, ROLES)];
      expect_in_order(view, list);
      for (size_t c = 0; c < COUNT(columns); c++) {
        cr_assert_eq(column_least(columns[c], list), scan(columns[c], list, INSTANCE_NONE));
        cr_assert_eq(column_least_but(columns[c], list, m), scan(columns[c], list, m));
      }
      const InstanceIx least = column_least(lazy, list);
      cr_assert_eq(least, scan(&(Column){.of = grown}, list, INSTANCE_NONE), "as they are now");
    }
  }
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
