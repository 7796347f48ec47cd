/* Several pools for one phase of a model. Pinned: two pools of identical instances are one; KV goes
 * over the links of the instances at its ends; `by_speed` against a greedy scan of its own, and
 * that it changes nothing among equals. */
#include "tests/unit/scene_testing.h"

enum { PROMPT = 100 };

TestSuite(disaggregation, .init = setup_scene, .fini = teardown);

/* Three times as slow as the plain model. */
static const PerfModel *slow_model(void) {
  static const PwlKnot linear[] = {{1, 0.003}, {1000, 3}};
  static const PwlKnot attention[] = {{0, 0}, {10000, 0.3}};
  PerfModel *model = ARENA_NEW(&arena, PerfModel);
  *model = (PerfModel){.name = "slow", .form = PERF_COMPOSED, .overhead = 30 * MS};
  pwl_init(&model->linear, linear, COUNT(linear), false, &arena);
  CurveRow only = {.key = 1};
  pwl_init(&only.curve, attention, COUNT(attention), false, &arena);
  const CurveTable table = {.rows = &only, .n_rows = 1, .low = 1, .high = 64};
  perfmodel_compile(model, &table, 256, &arena);
  return model;
}

/* In place of the scene that there is. */
static void new_scene(void) {
  teardown();
  setup_scene();
}

/* `n` pools of prefill and one that decodes, of so many instances each. */
static void split(uint32_t n, const uint32_t *counts, uint32_t n_decode) {
  scene_split(&scene, counts[0], n_decode);
  scene.pools[n] = scene.pools[1];
  for (uint32_t p = 1; p < n; p++) {
    scene.pools[p] = scene.pools[0];
    scene.pools[p].name = "prefill too";
    scene.pools[p].count = counts[p];
  }
  scene.config.n_pools = n + 1;
}

static void drawn_rows(TraceRow rows[SCENE_REQUESTS]) {
  Rng rng;
  rng_init(&rng, 7, "rows");
  Tick at = 0;
  for (int i = 0; i < SCENE_REQUESTS; i++) {
    at += (Tick)rng_below(&rng, 60) * MS;
    const int32_t prompt = 10 + (int32_t)rng_below(&rng, 400);
    rows[i] = row(at, prompt, 2 + (int32_t)rng_below(&rng, 30));
  }
}

Test(disaggregation, two_pools_of_identical_instances_are_one_of_their_sum) {
  static const char *const routers[] = {"jsq", "token_jsq", "least_kv", "random", "power_of_two"};
  TraceRow rows[SCENE_REQUESTS];
  drawn_rows(rows);
  for (size_t i = 0; i < COUNT(routers); i++) {
    new_scene();
    split(1, (uint32_t[]){5}, 2);
    scene_choose(&scene, POLICY_ROUTER, routers[i], NULL);
    run(rows, COUNT(rows));
    const uint64_t digest = scene.result.digest;
    new_scene();
    split(2, (uint32_t[]){2, 3}, 2);
    scene_choose(&scene, POLICY_ROUTER, routers[i], NULL);
    run(rows, COUNT(rows));
    cr_expect_eq(scene.result.digest, digest, "%s", routers[i]);
  }
}

/* One request at a time: the prompt takes 10 ms and 1 ms for each token, its KV 1 MB for each token
 * over the slower of both links. */
Test(disaggregation, kv_goes_over_the_links_of_its_own_two_ends) {
  static const int64_t nics[] = {1000000000, 2000000000};
  split(2, (uint32_t[]){1, 1}, 1);
  for (int p = 0; p < 2; p++)
    scene.pools[p].nic_bandwidth = nics[p];
  scene.pools[2].nic_bandwidth = 4000000000;
  const TraceRow rows[] = {row(0, PROMPT, 2), row(1000 * MS, PROMPT, 2)};
  run(rows, COUNT(rows));
  for (int i = 0; i < 2; i++) {
    const RequestRecord *record = &scene.records[i];
    cr_expect_eq(record->prefill_instance, (InstanceIx)i);
    cr_expect_eq(record->decode_instance, 2u);
    const Tick first = 10000 + 1000 * PROMPT, sent = PROMPT * 1000 / (nics[i] / 1000000000);
    expect_at(record->first_token_at - rows[i].at, first, "first token");
    expect_at(record->decode_began_at - rows[i].at, first + sent, "decode");
  }
  cr_expect_eq(scene.result.metrics.transferred_bytes, 2 * PROMPT * INT64_C(1000000));
}

static Tick last_prefill(int n) {
  Tick last = 0;
  for (int i = 0; i < n; i++)
    if (scene.records[i].first_token_at > last) last = scene.records[i].first_token_at;
  return last;
}

/* All at once: each to the instance whose prompts take the least time, of equals to the one that
 * had none for the longest time. */
Test(disaggregation, loads_over_speed_are_those_of_a_greedy_scan) {
  enum { REQUESTS = 40, INSTANCES = 3 };
  static const int slowness[INSTANCES] = {1, 1, 3};
  TraceRow rows[REQUESTS];
  int64_t pending[INSTANCES] = {0};
  int turn[INSTANCES] = {-3, -2, -1}, n[INSTANCES] = {0}, want[REQUESTS];
  for (int i = 0; i < REQUESTS; i++) {
    rows[i] = row(0, 50 + i * 37 % 100, 2);
    int best = 0;
    for (int m = 1; m < INSTANCES; m++) {
      const int64_t more = pending[m] * slowness[m] - pending[best] * slowness[best];
      if (more < 0 || (more == 0 && turn[m] < turn[best])) best = m;
    }
    pending[best] += rows[i].prompt_tokens;
    turn[best] = i;
    n[want[i] = best]++;
  }
  cr_assert(n[2] > 3 && n[0] > 2 * n[2] && n[1] > 2 * n[2]);
  split(2, (uint32_t[]){2, 1}, 1);
  scene.pools[1].perfmodel = slow_model();
  scene_choose(&scene, POLICY_ROUTER, "token_jsq", "{by_speed: true}");
  run(rows, COUNT(rows));
  const Tick balanced = last_prefill(REQUESTS);
  for (int i = 0; i < REQUESTS; i++)
    cr_expect_eq(scene.records[i].prefill_instance, (InstanceIx)want[i], "request %d", i);
  scene_choose(&scene, POLICY_ROUTER, "token_jsq", NULL);
  run(rows, COUNT(rows));
  cr_expect_lt(balanced, last_prefill(REQUESTS));
}

Test(disaggregation, speed_makes_no_difference_among_equals) {
  static const char *const ties[] = {"round_robin", "first", "random"};
  TraceRow rows[SCENE_REQUESTS];
  drawn_rows(rows);
  for (size_t i = 0; i < COUNT(ties); i++) {
    uint64_t digest = 0;
    for (int by_speed = 0; by_speed < 2; by_speed++) {
      new_scene();
      split(2, (uint32_t[]){2, 2}, 2);
      scene_choose(
          &scene, POLICY_ROUTER, "jsq",
          arena_printf(&arena, "{ties: %s, by_speed: %s}", ties[i], by_speed ? "true" : "false"));
      run(rows, COUNT(rows));
      if (by_speed) cr_expect_eq(scene.result.digest, digest, "%s", ties[i]);
      digest = scene.result.digest;
    }
  }
}
