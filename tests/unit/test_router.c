/* Routers, each from a cluster made by hand. Pinned: which column each looks at, which of
 * equals wins, two pools and mixed ones, Splitwise's limits and fallbacks, and the five steps and
 * quirks of the splitwise-sim set. Not pinned: which machine a random draw gives. */
#include "sim/policies.h"
#include "sim/router/router.h"
#include "tests/unit/sim_testing.h"

static Stage stage;

TestSuite(router, .init = setup, .fini = teardown);

/* A router at work on the stage. */
typedef struct Subject {
  const Router *router;
  void *state;
} Subject;

static Subject start(const char *name, const char *options, uint64_t seed) {
  const Subject subject = {(const Router *)policy_find(POLICY_ROUTER, name),
                           policy_state(POLICY_ROUTER, name, options, &arena)};
  if (subject.router->start) subject.router->start(subject.state, &stage.view, seed, &arena);
  return subject;
}

static Placement route(const Subject *subject, RequestIx request) {
  return subject->router->pick(subject->state, &stage.view, request);
}

static Placement route_new(const Subject *subject, int32_t prompt_tokens, int32_t output_tokens) {
  return route(subject, stage_request(&stage, prompt_tokens, output_tokens));
}

static void expect(Placement got, InstanceIx prefill, InstanceIx decode, const char *what) {
  cr_expect(got.prefill == prefill && got.decode == decode, "%s: %u and %u, not %u and %u", what,
            got.prefill, got.decode, prefill, decode);
}

/* --- by one column */

static Column *column_of(const char *router) {
  switch (router[0]) {
  case 'j':
    return stage.view.columns.n_assigned;
  case 't':
    return stage.view.columns.pending_tokens;
  case 'l':
    return stage.view.columns.kv_blocks;
  default:
    return stage.view.columns.n_present; // splitwise_sim_kv_jsq: KV on its way is not counted
  }
}

static const char *const by_column[] = {"jsq", "token_jsq", "least_kv", "splitwise_sim_kv_jsq"};

static void set_columns(const int64_t *all, const int64_t *own, const char *router) {
  Column *const columns[] = {stage.view.columns.n_assigned, stage.view.columns.pending_tokens,
                             stage.view.columns.kv_blocks, stage.view.columns.n_present};
  for (size_t c = 0; c < COUNT(columns); c++)
    for (InstanceIx m = 0; m < stage.view.n_instances; m++)
      column_set(columns[c], m, columns[c] == column_of(router) ? own[m] : all[m]);
}

Test(router, each_pool_gives_its_first_machine_with_the_least_in_the_routers_column) {
  static const int64_t others[] = {0, 9, 9, 0, 9, 9}, own[] = {5, 3, 3, 8, 7, 7};
  for (size_t i = 0; i < COUNT(by_column); i++) {
    stage_init(&stage, "PPPDDD", 100, 1, &arena);
    const Subject subject = start(by_column[i], NULL, 1);
    set_columns(others, own, by_column[i]);
    expect(route_new(&subject, 10, 10), 1, 4, by_column[i]);
  }
}

Test(router, mixed_machines_serve_both_phases) {
  static const int64_t others[] = {0, 0, 9}, own[] = {4, 2, 2};
  for (size_t i = 0; i < COUNT(by_column); i++) {
    stage_init(&stage, "MMM", 100, 1, &arena);
    const Subject subject = start(by_column[i], NULL, 1);
    set_columns(others, own, by_column[i]);
    expect(route_new(&subject, 10, 10), 1, 1, by_column[i]);
  }
}

Test(router, a_missing_pool_is_taken_from_the_mixed_machines) {
  static const int64_t own[] = {4, 2, 2};
  for (size_t i = 0; i < COUNT(by_column); i++) {
    stage_init(&stage, "PMM", 100, 1, &arena);
    Subject subject = start(by_column[i], NULL, 1);
    set_columns(own, own, by_column[i]);
    expect(route_new(&subject, 10, 10), 0, 1, by_column[i]);
    stage_init(&stage, "DMM", 100, 1, &arena);
    subject = start(by_column[i], NULL, 1);
    set_columns(own, own, by_column[i]);
    expect(route_new(&subject, 10, 10), 1, 0, by_column[i]);
  }
}

/* Requests that come one by one to an idle fleet. */
Test(router, equals_are_taken_in_turn_or_first_or_at_random) {
  enum { MACHINES = 8, REQUESTS = 800 };
  static const char *const routers[] = {"jsq", "token_jsq", "least_kv", "splitwise"};
  for (size_t i = 0; i < COUNT(routers); i++) {
    stage_init(&stage, "MMMMMMMM", 100, 1, &arena);
    const Subject in_turn = start(routers[i], NULL, 1);
    const Subject first = start(routers[i], "{ties: first}", 1);
    const Subject drawn = start(routers[i], "{ties: random}", 1);
    int n_drawn[MACHINES] = {0};
    for (InstanceIx k = 0; k < REQUESTS; k++) {
      expect(route_new(&in_turn, 10, 10), k % MACHINES, k % MACHINES, routers[i]);
      expect(route_new(&first, 10, 10), 0, 0, routers[i]);
      n_drawn[route_new(&drawn, 10, 10).prefill]++;
    }
    for (InstanceIx m = 0; m < MACHINES; m++) // within five standard deviations
      cr_expect_leq(abs(n_drawn[m] - REQUESTS / MACHINES), 47, "%s: %u has %d", routers[i], m,
                    n_drawn[m]);
  }
}

/* By a scan: of those with the least the one whose turn, or coming, was first. */
static InstanceIx whose_turn(const RoleList *list, const Column *figure, const int *since) {
  InstanceIx best = list->items[0];
  for (uint32_t i = 1; i < list->count; i++) {
    const InstanceIx m = list->items[i];
    const int64_t more = column_at(figure, m) - column_at(figure, best);
    if (more < 0 || (more == 0 && since[m] < since[best])) best = m;
  }
  return best;
}

/* Loads change, of which many are equal, and machines go and come back. */
Test(router, turns_are_kept_as_loads_and_machines_change) {
  enum { MACHINES = 6, STEPS = 3000 };
  for (size_t i = 0; i < 3; i++) {
    stage_init(&stage, "PPPDDD", 100, 1, &arena);
    Column *figure = column_of(by_column[i]);
    const Subject subject = start(by_column[i], NULL, 1);
    const RoleList *lists = stage.view.by_role;
    int since[MACHINES] = {0, 1, 2, 3, 4, 5}, n = MACHINES;
    Rng rng;
    rng_init(&rng, i, "turns");
    for (int step = 0; step < STEPS; step++) {
      const InstanceIx m = (InstanceIx)rng_below(&rng, MACHINES);
      column_set(figure, m, (int64_t)rng_below(&rng, 3));
      if (rng_below(&rng, 20) == 0) {
        const Role role = m < 3 ? ROLE_PREFILL : ROLE_DECODE;
        cluster_withdraw(&stage.view, m, role);
        cluster_join(&stage.view, m, role);
        since[m] = n++;
      }
      const InstanceIx prefill = whose_turn(&lists[ROLE_PREFILL], figure, since);
      const InstanceIx decode = whose_turn(&lists[ROLE_DECODE], figure, since);
      expect(route_new(&subject, 10, 10), prefill, decode, by_column[i]);
      since[prefill] = n++;
      since[decode] = n++;
    }
  }
}

/* --- without looking, or looking at few */

Test(router, round_robin_takes_each_machine_in_turn) {
  stage_init(&stage, "PPDDD", 100, 1, &arena);
  const Subject subject = start("round_robin", NULL, 1);
  static const InstanceIx want[][2] = {{0, 2}, {1, 3}, {0, 4}, {1, 2}, {0, 3}, {1, 4}, {0, 2}};
  for (size_t i = 0; i < COUNT(want); i++)
    expect(route_new(&subject, 10, 10), want[i][0], want[i][1], "two pools");
  stage_init(&stage, "MMM", 100, 1, &arena);
  const Subject mixed = start("round_robin", NULL, 1);
  for (InstanceIx i = 0; i < 7; i++)
    expect(route_new(&mixed, 10, 10), i % 3, i % 3, "one pool");
}

Test(router, random_takes_each_machine_of_a_pool_equally_often) {
  enum { N = 6000 };
  stage_init(&stage, "PPDDDM", 100, 1, &arena);
  const Subject subject = start("random", NULL, 1);
  const RequestIx request = stage_request(&stage, 10, 10);
  int prefills[6] = {0}, decodes[6] = {0};
  for (int i = 0; i < N; i++) {
    const Placement placement = route(&subject, request);
    prefills[placement.prefill]++;
    decodes[placement.decode]++;
  }
  for (InstanceIx m = 0; m < 6; m++) { // within five standard deviations
    const int want_prefills = m < 2 ? N / 2 : 0, want_decodes = m >= 2 && m < 5 ? N / 3 : 0;
    cr_expect_leq(abs(prefills[m] - want_prefills), m < 2 ? 200 : 0);
    cr_expect_leq(abs(decodes[m] - want_decodes), m < 5 ? 200 : 0);
  }
}

Test(router, draws_follow_from_the_seed) {
  static const char *const names[] = {"random", "power_of_two"};
  for (size_t i = 0; i < COUNT(names); i++) {
    stage_init(&stage, "MMMMMMMM", 100, 1, &arena);
    const Subject a = start(names[i], NULL, 7), b = start(names[i], NULL, 7),
                  c = start(names[i], NULL, 8);
    const RequestIx request = stage_request(&stage, 10, 10);
    int n_same = 0;
    for (int k = 0; k < 100; k++) {
      const Placement placement = route(&a, request);
      expect(route(&b, request), placement.prefill, placement.decode, names[i]);
      cr_expect_eq(placement.prefill, placement.decode, "one machine for both");
      n_same += route(&c, request).prefill == placement.prefill;
    }
    cr_expect_lt(n_same, 50, "%s under another seed", names[i]);
  }
}

Test(router, power_of_two_takes_the_less_loaded_of_two_different_machines) {
  enum { N = 3000 };
  stage_init(&stage, "MMM", 100, 1, &arena);
  const Subject subject = start("power_of_two", NULL, 1);
  const RequestIx request = stage_request(&stage, 10, 10);
  static const int64_t pending[] = {10, 30, 20};
  int picked[3] = {0};
  for (InstanceIx m = 0; m < 3; m++)
    column_set(stage.view.columns.pending_tokens, m, pending[m]);
  for (int i = 0; i < N; i++)
    picked[route(&subject, request).prefill]++;
  cr_expect_eq(picked[1], 0, "the most loaded is never the lesser of two");
  cr_expect_leq(abs(picked[0] - N * 2 / 3), 150);
  stage_init(&stage, "PD", 100, 1, &arena);
  const Subject alone = start("power_of_two", NULL, 1);
  expect(route_new(&alone, 10, 10), 0, 1, "one machine in each pool");
}

/* --- splitwise */

typedef struct SplitwiseCase {
  const char *what;
  const char *roles;
  int64_t pending[6];
  int32_t prompt;
  InstanceIx prefill, decode;
  bool roles_stay;
} SplitwiseCase;

static void expect_splitwise(const SplitwiseCase *cases, size_t n, bool roles_move) {
  for (size_t i = 0; i < n; i++) {
    stage_init(&stage, cases[i].roles, 100000, 1, &arena);
    stage.view.roles_move = roles_move;
    for (InstanceIx m = 0; m < stage.view.n_instances; m++)
      column_set(stage.view.columns.pending_tokens, m, cases[i].pending[m]);
    const Subject subject = start("splitwise", NULL, 1);
    const Placement placement = route_new(&subject, cases[i].prompt, 10);
    expect(placement, cases[i].prefill, cases[i].decode, cases[i].what);
    cr_expect_eq(placement.roles_stay, cases[i].roles_stay, "%s", cases[i].what);
  }
}

Test(router, splitwise_joins_the_shortest_queues_then_the_mixed_pool_then_the_opposite_one) {
  static const SplitwiseCase cases[] = {
      {"all idle", "PPDDM", {0}, 1000, 0, 2, false},
      {"shortest", "PPDDM", {900, 800, 7, 5, 0}, 1000, 1, 3, false},
      {"just within 8192", "PPDDM", {8000, 8100, 0, 0, 0}, 192, 0, 2, false},
      {"past it: mixed", "PPDDM", {8000, 8100, 0, 0, 50}, 193, 4, 2, false},
      {"a prompt past it alone, idle", "PPDDM", {0, 9, 0, 0, 0}, 9000, 0, 2, false},
      {"the same behind one token", "PPDDM", {1, 9, 0, 0, 0}, 9000, 4, 2, false},
      {"mixed full too: a decode machine", "PPDDM", {8000, 8000, 70, 60, 8000}, 200, 3, 3, false},
      {"just within 512", "PPDDM", {0, 0, 511, 600, 0}, 1000, 0, 2, false},
      {"past it: mixed", "PPDDM", {0, 0, 512, 600, 0}, 1000, 0, 4, false},
      {"mixed full too: a prefill machine", "PPDDM", {9, 5, 512, 600, 512}, 1000, 1, 1, false},
      {"no mixed machine: the opposite pool", "PD", {8000, 40}, 200, 1, 1, false},
      {"only mixed ones", "MM", {5, 4}, 200, 1, 1, false},
  };
  expect_splitwise(cases, COUNT(cases), true);
}

Test(router, splitwise_gives_both_phases_to_the_least_loaded_when_all_are_past_their_limits) {
  static const SplitwiseCase cases[] = {
      {"prefill nowhere", "PPDDM", {8000, 8100, 8010, 8020, 8030}, 1000, 0, 0, true},
      {"decode nowhere", "PPDDM", {600, 700, 550, 560, 570}, 1000, 2, 2, true},
      {"the mixed one is least", "PDM", {9000, 9000, 8500}, 1000, 2, 2, true},
  };
  expect_splitwise(cases, COUNT(cases), true);
}

Test(router, splitwise_without_role_moves_keeps_the_pools_apart) {
  static const SplitwiseCase cases[] = {
      {"past both limits", "PPDDM", {9000, 8500, 700, 600, 0}, 1000, 1, 3, false},
      {"mixed only", "MM", {9000, 8500}, 1000, 1, 1, false},
  };
  expect_splitwise(cases, COUNT(cases), false);
}

Test(router, splitwise_takes_other_limits) {
  stage_init(&stage, "PDM", 100000, 1, &arena);
  stage.view.roles_move = true;
  column_set(stage.view.columns.pending_tokens, 0, 50);
  column_set(stage.view.columns.pending_tokens, 1, 2);
  const Subject wide = start("splitwise", "{prefill_queue_limit: 150, decode_queue_limit: 3}", 1);
  const Subject tight = start("splitwise", "{prefill_queue_limit: 149, decode_queue_limit: 2}", 1);
  expect(route_new(&wide, 100, 10), 0, 1, "within");
  expect(route_new(&tight, 100, 10), 2, 2, "past");
}

/* --- the splitwise-sim set */

static void observe(const Subject *subject, RequestIx request, Observation what, InstanceIx m) {
  subject->router->observe(subject->state, &stage.view, request, what, m);
}

Test(router, kv_token_jsq_sends_everything_to_the_first_machines) {
  stage_init(&stage, "PPDD", 100, 1, &arena);
  const Subject subject = start("splitwise_sim_kv_token_jsq", NULL, 1);
  for (int i = 0; i < 5; i++) {
    const RequestIx request = stage_request(&stage, 10, 10);
    column_set(stage.view.columns.pending_tokens, 0, 1000); // not its books
    column_set(stage.view.columns.pending_tokens, 2, 1000);
    expect(route(&subject, request), 0, 2, "books only shrink");
    if (i % 2) observe(&subject, request, OBSERVED_PREFILLED, 0);
    if (i % 2) observe(&subject, request, OBSERVED_FINISHED, 2);
  }
}

static Subject mixed_pool(const char *roles, int64_t kv_tokens) {
  stage_init(&stage, roles, kv_tokens, 1, &arena);
  stage.view.roles_move = true;
  return start("splitwise_sim_mixed_pool", "{prefill_queue_limit: 100}", 1);
}

Test(router, mixed_pool_step_1_prefill_by_pending_tokens_while_nothing_waits_past_the_limit) {
  const Subject subject = mixed_pool("PPDDM", 1000);
  expect(route_new(&subject, 60, 10), 0, 2, "first of equals");
  expect(route_new(&subject, 70, 10), 1, 3, "the others");
  expect(route_new(&subject, 60, 10), 0, 2, "past the limit, but no task waits");
  stage_prefill(&stage, 1, 70);
  expect(route_new(&subject, 31, 10), 4, 3, "70 + 31 with a task that waits: mixed");
  const Subject again = mixed_pool("PD", 1000);
  route_new(&again, 60, 10);
  stage_prefill(&stage, 0, 60);
  expect(route_new(&again, 40, 10), 0, 1, "just within");
}

Test(router, mixed_pool_counts_as_waiting_whatever_is_outside_the_batch) {
  static const RequestState waits[] = {REQUEST_WAITS_DECODE, REQUEST_BLOCKED};
  for (size_t i = 0; i < COUNT(waits); i++) {
    const Subject subject = mixed_pool("PPD", 1000);
    route_new(&subject, 60, 10);
    route_new(&subject, 60, 10);
    stage_decode(&stage, 0, waits[i], 20, 5);
    expect(route_new(&subject, 60, 10), 2, 2, "step 3");
  }
  for (InstanceIx decode = 0; decode < 2; decode++) { // in prefill on 0
    const Subject subject = mixed_pool("MD", 1000);
    RequestIx chunk = stage_request(&stage, 60, 10);
    route(&subject, chunk);
    stage.requests.slots[chunk].decode_instance = decode;
    stage.machines[0].chunks = &chunk;
    stage.machines[0].n_chunks = 1;
    expect(route_new(&subject, 60, 10), decode == 0 ? 1 : 0, 1,
           "its decode waits here only if it is to be decoded here");
  }
}

Test(router, mixed_pool_step_2_decode_by_reserved_memory) {
  const Subject subject = mixed_pool("PPDDM", 150);
  expect(route_new(&subject, 20, 60), 0, 2, "80 tokens on machine 2");
  expect(route_new(&subject, 10, 60), 1, 3, "70 on machine 3");
  expect(route_new(&subject, 10, 10), 1, 3, "90 on machine 3");
  expect(route_new(&subject, 20, 45), 0, 2, "145 on machine 2");
  expect(route_new(&subject, 20, 45), 1, 4, "155 on machine 3: mixed");
}

Test(router, mixed_pool_step_3_prefill_on_the_decode_machine_with_the_fewest_pending_tokens) {
  const Subject subject = mixed_pool("PDD", 1000);
  route_new(&subject, 90, 100); // leaves 190 reserved, one pending on machine 1
  stage_prefill(&stage, 0, 90);
  const Placement placement = route_new(&subject, 20, 10);
  expect(placement, 2, 2, "no mixed machine, both of the request on the idle one");
  cr_expect_not(placement.roles_stay);
}

Test(router, mixed_pool_step_4_decode_on_the_prefill_machine_with_the_least_reserved) {
  const Subject subject = mixed_pool("PPD", 100);
  route_new(&subject, 60, 10); // 61 on machine 0, 70 on machine 2
  const Placement placement = route_new(&subject, 20, 20);
  expect(placement, 1, 1, "machine 2 would hold 110");
  cr_expect_not(placement.roles_stay);
}

Test(router, mixed_pool_steps_3_and_4_may_swap_the_pools) {
  const Subject subject = mixed_pool("PD", 200);
  route_new(&subject, 90, 20);
  stage_prefill(&stage, 0, 90);
  const Placement placement = route_new(&subject, 90, 20);
  expect(placement, 1, 0, "neither has room for its own");
  cr_expect_not(placement.roles_stay);
}

Test(router, mixed_pool_step_5_both_on_the_least_loaded_whose_role_stays) {
  const Subject subject = mixed_pool("MM", 1000);
  expect(route_new(&subject, 90, 10), 0, 0, "first of equals");
  expect(route_new(&subject, 80, 10), 1, 1, "81 pending there");
  stage_prefill(&stage, 1, 80);
  const Placement placement = route_new(&subject, 30, 10);
  expect(placement, 1, 1, "over the limit everywhere");
  cr_expect(placement.roles_stay);
  cr_expect_eq(placement.claimed, INSTANCE_NONE);
}

/* Steps 1 and 2 refuse; 4 moves machine 0 behind machine 1, which step 5 then meets first. */
Test(router, mixed_pool_step_5_after_step_4_leaves_what_that_moved_mixed) {
  const Subject subject = mixed_pool("PM", 200);
  expect(route_new(&subject, 90, 10), 0, 1, "100 reserved on machine 1");
  stage_prefill(&stage, 0, 90);
  expect(route_new(&subject, 88, 10), 1, 1, "198 reserved on machine 1, 90 pending on each");
  stage_prefill(&stage, 1, 88);
  const Placement placement = route_new(&subject, 50, 10);
  expect(placement, 1, 1, "the first of equals once 0 is behind it");
  cr_expect(placement.roles_stay);
  cr_expect_eq(placement.claimed, 0);
}

/* The same with step 3: machine 0 decodes and is mixed before machine 1 is asked. */
Test(router, mixed_pool_step_5_after_step_3_leaves_what_that_moved_mixed) {
  const Subject subject = mixed_pool("DM", 100);
  expect(route_new(&subject, 80, 10), 1, 0, "90 reserved on machine 0, 80 pending on 1");
  stage_prefill(&stage, 1, 80);
  const Placement placement = route_new(&subject, 30, 10);
  expect(placement, 0, 0, "over the limit on 1, 121 tokens there");
  cr_expect(placement.roles_stay);
  cr_expect_eq(placement.claimed, 0);
}

Test(router, mixed_pool_step_5_prefers_the_prefill_list_among_equals) {
  const Subject subject = mixed_pool("MP", 1000);
  const RequestIx first = stage_request(&stage, 90, 10);
  expect(route(&subject, first), 1, 0, "the mixed machine decodes");
  stage_prefill(&stage, 1, 90);
  expect(route_new(&subject, 89, 10), 0, 0, "90 pending on each, but for two decodes");
  observe(&subject, first, OBSERVED_FINISHED, 0);
  stage_prefill(&stage, 0, 89);
  expect(route_new(&subject, 50, 10), 1, 1, "over the limit everywhere");
}

Test(router, mixed_pool_reserves_once_for_both_phases_on_one_machine) {
  const Subject subject = mixed_pool("M", 100);
  cr_expect_not(route_new(&subject, 40, 20).roles_stay);
  cr_expect_not(route_new(&subject, 20, 19).roles_stay, "60 + 39 fit");
  cr_expect(route_new(&subject, 1, 1).roles_stay, "two more do not");
}

Test(router, mixed_pool_books_are_even_after_a_request) {
  const Subject subject = mixed_pool("PPDD", 1000);
  for (int i = 0; i < 3; i++) {
    const RequestIx request = stage_request(&stage, 60, 10);
    expect(route(&subject, request), 0, 2, "as if nothing had been");
    expect(route_new(&subject, 60, 10), 1, 3, "machines 0 and 2 are busy with it");
    observe(&subject, request, OBSERVED_PREFILLED, 0);
    observe(&subject, request, OBSERVED_TRANSFERRED, 0);
    observe(&subject, request, OBSERVED_FINISHED, 2);
    observe(&subject, request + 1, OBSERVED_PREFILLED, 1);
    observe(&subject, request + 1, OBSERVED_TRANSFERRED, 1);
    observe(&subject, request + 1, OBSERVED_FINISHED, 3);
  }
}
