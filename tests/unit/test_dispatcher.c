/* Dispatchers, each from a cluster made by hand. Pinned: what each looks at and prefers, broadcast
 * or present; that draws are even and follow from the seed; mixed machines in place of missing
 * decode machines, and none that flips. Not pinned: which machines a draw gives. */
#include "sim/dispatcher/dispatcher.h"
#include "sim/policies.h"
#include "tests/unit/sim_testing.h"

enum { DRAWS = 50 };

static Stage stage;

TestSuite(dispatcher, .init = setup, .fini = teardown);

/* A dispatcher at work on the stage. */
typedef struct Subject {
  const Dispatcher *dispatcher;
  void *state;
} Subject;

static Subject start(const char *name, const char *options, uint64_t seed) {
  const Subject subject = {(const Dispatcher *)policy_find(POLICY_DISPATCHER, name),
                           policy_state(POLICY_DISPATCHER, name, options, &arena)};
  if (subject.dispatcher->start)
    subject.dispatcher->start(subject.state, &stage.view, seed, &arena);
  return subject;
}

/* A request of 16 prompt tokens and an output of low to high - 1, by prediction. */
static RequestIx predicted(int32_t low, int32_t high) {
  const RequestIx ix = stage_request(&stage, 16, low);
  stage.requests.slots[ix].predicted_low = low;
  stage.requests.slots[ix].predicted_high = high;
  return ix;
}

static InstanceIx pick(const Subject *subject, RequestIx request) {
  return subject->dispatcher->pick(subject->state, &stage.view, request);
}

/* Whatever is drawn, the pick is the same. */
static void expect_always(const Subject *subject, RequestIx request, InstanceIx want,
                          const char *what) {
  for (int i = 0; i < DRAWS; i++) {
    const InstanceIx got = pick(subject, request);
    cr_expect_eq(got, want, "%s: %u, not %u", what, got, want);
  }
}

static void set_load(InstanceIx m, int64_t free_blocks, int64_t n_heavy, int64_t n_light) {
  stage.view.loads[m] = (InstanceLoad){.free_blocks = free_blocks,
                                       .pending_tokens = n_heavy + n_light,
                                       .n_heavy = n_heavy,
                                       .n_light = n_light};
}

Test(dispatcher, the_router_decides_where_none_is_named) {
  const Dispatcher *none = (const Dispatcher *)policy_list(POLICY_DISPATCHER)[0];
  cr_expect_str_eq(none->policy.name, "router");
  cr_expect(none->pick == NULL && !none->reads_loads);
}

/* --- power of two */

Test(dispatcher, power_of_two_prefers_the_lower_ratio_of_heavy_decodes) {
  static const struct {
    const char *what;
    int64_t heavy[2], light[2], tokens[2];
    bool request_is_heavy;
    InstanceIx want;
  } cases[] = {
      {"2/1 and 2/2", {1, 1}, {1, 2}, {0, 9}, true, 1},
      {"2/3 and 1/2", {2, 1}, {2, 1}, {0, 9}, false, 1},
      {"4/7 and 3/5", {3, 2}, {7, 5}, {9, 0}, true, 0},
      {"equal, 1/1 and 2/2: tokens", {1, 2}, {0, 1}, {9, 8}, false, 1},
      {"equal, 0/6 and 0/1: tokens", {0, 0}, {5, 0}, {5, 6}, false, 0},
      {"light ones against none: 1/4 and 1/0", {0, 0}, {4, 0}, {9, 0}, true, 0},
      {"none light, 1/0 and 4/0: tokens", {0, 3}, {0, 0}, {7, 5}, true, 1},
      {"products past 32 bits", {1 << 20, 1 << 20}, {1 << 20, (1 << 20) + 1}, {0, 9}, true, 1},
  };
  stage_init(&stage, "PDD", 100, 16, &arena);
  stage.view.heavy_above = 128;
  const Subject subject = start("power_of_two", NULL, 1);
  const RequestIx light = predicted(128, 129), heavy = predicted(129, 130);
  for (size_t i = 0; i < COUNT(cases); i++) {
    for (InstanceIx m = 0; m < 2; m++) {
      set_load(1 + m, 1000, cases[i].heavy[m], cases[i].light[m]);
      stage.view.loads[1 + m].pending_tokens = cases[i].tokens[m];
    }
    expect_always(&subject, cases[i].request_is_heavy ? heavy : light, 1 + cases[i].want,
                  cases[i].what);
  }
}

/* The prompt and an output of 16 take two blocks, with 48 four. Instance 0 has the lower ratio. */
Test(dispatcher, power_of_two_looks_for_room_first) {
  static const struct {
    const char *what, *options;
    int64_t free_blocks[2];
    InstanceIx want;
  } cases[] = {
      {"both have room: the lower ratio", NULL, {9, 9}, 0},
      {"just enough", NULL, {2, 9}, 0},
      {"one short", NULL, {1, 2}, 1},
      {"the lower end is the default", "{estimate: low}", {2, 1}, 0},
      {"by the upper end", "{estimate: high}", {3, 4}, 1},
      {"more is promised than there is", NULL, {-5, 2}, 1},
  };
  stage_init(&stage, "DD", 100, 16, &arena);
  const RequestIx request = predicted(16, 49);
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Subject subject = start("power_of_two", cases[i].options, 1);
    for (InstanceIx m = 0; m < 2; m++)
      set_load(m, cases[i].free_blocks[m], m, 3);
    expect_always(&subject, request, cases[i].want, cases[i].what);
  }
}

Test(dispatcher, power_of_two_takes_all_machines_where_none_has_room) {
  stage_init(&stage, "DD", 100, 16, &arena);
  const Subject subject = start("power_of_two", NULL, 1);
  set_load(0, 0, 2, 1);
  set_load(1, 1, 1, 1);
  expect_always(&subject, predicted(16, 48), 1, "the lower ratio of the two");
  set_load(1, 1, 3, 1);
  expect_always(&subject, predicted(16, 48), 0, "though it has less room");
}

/* --- draws */

static const char *const drawing[] = {"random", "power_of_two"};

Test(dispatcher, draws_are_even_and_follow_from_the_seed) {
  enum { N = 6000 };
  for (size_t d = 0; d < COUNT(drawing); d++) {
    stage_init(&stage, "PDDD", 100, 16, &arena);
    const RequestIx request = predicted(16, 17);
    const Subject one = start(drawing[d], NULL, 1), same = start(drawing[d], NULL, 1),
                  other = start(drawing[d], NULL, 2);
    int counts[4] = {0}, n_differ = 0;
    for (int i = 0; i < N; i++) {
      const InstanceIx m = pick(&one, request);
      counts[m]++;
      cr_assert_eq(pick(&same, request), m);
      n_differ += pick(&other, request) != m;
    }
    cr_expect_eq(counts[0], 0, "a prefill machine");
    for (int m = 1; m < 4; m++)
      cr_expect(N / 3 - 200 < counts[m] && counts[m] < N / 3 + 200, "%s: %d times machine %d",
                drawing[d], counts[m], m);
    cr_expect_gt(n_differ, N / 2, "%s: another seed, the same draws", drawing[d]);
  }
}

/* --- by one figure */

Test(dispatcher, least_loaded_reads_the_broadcast_or_the_present) {
  stage_init(&stage, "PDDD", 100, 16, &arena);
  static const int64_t broadcast[] = {0, 5, 3, 3}, present[] = {0, 4, 4, 2};
  for (InstanceIx m = 0; m < 4; m++) {
    stage.view.loads[m].pending_tokens = broadcast[m];
    column_set(stage.view.columns.pending_tokens, m, present[m]);
  }
  const RequestIx request = predicted(16, 17);
  const Subject stale = start("least_loaded", NULL, 1);
  expect_always(&stale, request, 2, "the first of the fewest, as broadcast");
  const Subject fresh = start("least_loaded", "{stale: false}", 1);
  expect_always(&fresh, request, 3, "the fewest now");
}

/* --- the worst case */

static void expect_turns(const Subject *subject, RequestIx request, const InstanceIx *want,
                         size_t n) {
  for (size_t i = 0; i < n; i++) {
    const InstanceIx got = pick(subject, request);
    cr_expect_eq(got, want[i], "turn %zu: %u, not %u", i, got, want[i]);
  }
}

Test(dispatcher, imbalance_sends_heavy_decodes_to_the_same_machines) {
  stage_init(&stage, "PDDD", 100, 16, &arena);
  stage.view.heavy_above = 128;
  const RequestIx light = predicted(128, 129), heavy = predicted(129, 130);
  cluster_move(&stage.view, 1, ROLE_DECODE, ROLE_DECODE); // to the end of the list
  const Subject one = start("imbalance", NULL, 1);
  expect_turns(&one, light, (const InstanceIx[]){1, 2}, 2);
  expect_turns(&one, heavy, (const InstanceIx[]){1, 1, 1}, 3);
  expect_turns(&one, light, (const InstanceIx[]){3, 1}, 2);
  const Subject two = start("imbalance", "{heavy_machines: 2}", 1);
  expect_turns(&two, heavy, (const InstanceIx[]){1, 2, 1, 2}, 4);
  const Subject many = start("imbalance", "{heavy_machines: 9}", 1);
  expect_turns(&many, heavy, (const InstanceIx[]){1, 2, 3, 1}, 4);
}

/* --- whom they choose among */

Test(dispatcher, none_chooses_a_machine_that_is_in_no_list) {
  for (const Policy *const *policy = policy_list(POLICY_DISPATCHER) + 1; *policy; policy++) {
    stage_init(&stage, "MDD", 100, 16, &arena);
    const Subject subject = start((*policy)->name, NULL, 1);
    const RequestIx request = predicted(16, 17);
    cluster_withdraw(&stage.view, 1, ROLE_DECODE);
    expect_always(&subject, request, 2, (*policy)->name);
    cluster_withdraw(&stage.view, 2, ROLE_DECODE);
    expect_always(&subject, request, 0, (*policy)->name);
  }
}
