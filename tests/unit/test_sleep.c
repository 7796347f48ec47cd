/* Models that take turns on the same GPUs, against closed forms: what a request waits for is the
 * sleep of one and the wake of the other; GPUs are of one instance at a time; who is up stays for
 * the minimum residence, and finishes what it has. And the times of vLLM's own benchmark, from
 * which the defaults are. */
#include "experiments/config/config.h"
#include "tests/unit/scene_testing.h"

enum { ONE, OTHER, MODELS };
static const Tick ASLEEP[MODELS] = {300 * MS, 200 * MS}, AWAKE[MODELS] = {500 * MS, 700 * MS};

TestSuite(sleep, .init = setup_scene, .fini = teardown);

/* A pool of `units` for each model, of which the first begins with all that may be awake. */
static void take_turns(uint32_t units, uint32_t awake) {
  static const ModelSpec models[MODELS] = {{.name = "one"}, {.name = "other"}};
  static const ComponentSpec components[MODELS] = {{.name = "one"}, {.name = "other", .model = 1}};
  scene.config.n_pools = scene.config.n_models = scene.config.n_components = MODELS;
  scene.config.models = models;
  scene.config.components = components;
  scene.pools[OTHER] = scene.pools[ONE];
  for (uint32_t p = 0; p < MODELS; p++) {
    PoolSpec *pool = &scene.pools[p];
    pool->model = p;
    pool->count = units;
    pool->scaling = (PoolScaling){.max = units, .start = p == ONE ? awake : 0};
    pool->sleep_ticks = ASLEEP[p];
    pool->wake_ticks = AWAKE[p];
  }
  scene.config.sleep = (SleepOptions){.awake = awake};
}

static TraceRow of(int model, Tick at, int32_t output) {
  TraceRow made = row(at, 90, output); // 100 ms, and steps of about 12
  made.component = (uint16_t)model;
  return made;
}

static Tick switch_ticks(int from) {
  return ASLEEP[from] + AWAKE[!from];
}

/* All units but those awake are off at any time, and each start is a sleep and a wake. */
static void expect_turns(uint32_t units, uint32_t awake, int64_t starts) {
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_eq(totals->scale_ups, starts);
  cr_expect_eq(totals->scale_downs, starts);
  const Total off = (Total)scene.result.span * (MODELS * units - awake);
  cr_expect(totals->off_ticks == off, "%.6f s off, not %.6f", total_seconds(totals->off_ticks),
            total_seconds(off));
}

Test(sleep, who_comes_in_turn_waits_for_one_to_sleep_and_one_to_wake) {
  take_turns(1, 1);
  const TraceRow rows[] = {of(OTHER, 1000 * MS, 1), of(ONE, 10000 * MS, 1),
                           of(OTHER, 20000 * MS, 1), of(ONE, 30000 * MS, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(scene.records[i].first_token_at,
                 rows[i].at + switch_ticks(rows[i].component == OTHER ? ONE : OTHER) + 100 * MS);
  expect_turns(1, 1, 4);
  cr_expect(scene.result.totals.starting_ticks == 2 * (switch_ticks(ONE) + switch_ticks(OTHER)));
}

/* Up at 0 and at 6.0 s, for 5 s each. Both models' requests that came meanwhile share the turn. */
Test(sleep, who_is_up_stays_for_its_residence) {
  take_turns(1, 1);
  scene.config.sleep.min_residence = 5000 * MS;
  const TraceRow rows[] = {of(OTHER, 1000 * MS, 1), of(ONE, 4900 * MS, 1), of(ONE, 7000 * MS, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  const Tick up = 5000 * MS + switch_ticks(ONE);
  cr_expect_eq(scene.records[1].first_token_at, 4900 * MS + 100 * MS);
  cr_expect_eq(scene.records[0].first_token_at, up + 100 * MS);
  cr_expect_eq(scene.records[2].first_token_at, up + 5000 * MS + switch_ticks(OTHER) + 100 * MS);
  expect_turns(1, 1, 2);
}

/* 30 tokens take 100 ms and 29 steps of 11.91 ms and on: 449.45 ms. */
Test(sleep, who_has_requests_finishes_them_first) {
  take_turns(1, 1);
  const TraceRow rows[] = {of(ONE, 0, 30), of(OTHER, 150 * MS, 1), of(ONE, 200 * MS, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  const Tick done = scene.records[0].last_token_at;
  expect_at(done / US * US, 449450, "the first");
  const Tick second = done + switch_ticks(ONE) + 100 * MS;
  cr_expect_eq(scene.records[1].first_token_at, second);
  // It asked while its instance drained, and has the GPUs as soon as that is possible.
  cr_expect_eq(scene.records[2].first_token_at, second + switch_ticks(OTHER) + 100 * MS);
  expect_turns(1, 1, 2);
}

/* Of two sets of GPUs one is free: the other model wakes on it, and nobody has to sleep. */
Test(sleep, free_gpus_are_taken_first) {
  take_turns(2, 2);
  scene.pools[ONE].scaling.start = 1;
  const TraceRow rows[] = {of(OTHER, 1000 * MS, 1), of(ONE, 1000 * MS, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.records[0].first_token_at, 1000 * MS + AWAKE[OTHER] + 100 * MS);
  cr_expect_eq(scene.records[1].first_token_at, 1000 * MS + 100 * MS);
  cr_expect_eq(scene.result.totals.scale_downs, 0);
}

/* Each begins with one of two. Of six prompts of one model five wait, more than 2 for each of its
 * instances, and the other model has nothing to do. */
Test(sleep, a_queue_takes_an_idle_instance_of_another_model) {
  static const double queues[] = {0, 2, 10};
  for (size_t q = 0; q < COUNT(queues); q++) {
    take_turns(2, 2);
    scene.pools[ONE].scaling.start = scene.pools[OTHER].scaling.start = 1;
    scene.config.sleep.queue = queues[q];
    scene_choose(&scene, POLICY_BATCHER, "continuous", "{max_num_seqs: 1}");
    TraceRow rows[6];
    for (size_t i = 0; i < COUNT(rows); i++)
      rows[i] = of(ONE, 1000 * MS + (Tick)i, 30);
    scene_run_both(&scene, rows, COUNT(rows));
    expect_turns(2, 2, queues[q] == 2);
  }
}

/* ---- Keys ---- */

static Config load(const char *model, const char *sleep) {
  Config config;
  const char *text =
      arena_printf(&arena,
                   "models: {a: %s, b: llama3.1-8b}\nperfmodel: roofline\n"
                   "workload: {mix: [{model: a, name: a, lengths: {prompt: {constant: 9}, output: "
                   "{constant: 2}}, arrivals: {process: poisson, rate: 1 /s}}], requests: 3}\n"
                   "pools: {a: {machine: dgx-a100, model: a, tensor_parallel_size: 1, start_up: "
                   "{weights: {from: disk, bandwidth: 4.1 GB/s}}}, b: {machine: dgx-a100, count: "
                   "0, model: b, tensor_parallel_size: 1, start_up: {weights: {from: disk, "
                   "bandwidth: 4.1 GB/s}}}}\nsleep: %s\n",
                   model, sleep);
  Node *root = yaml_parse("test", text, strlen(text), &arena, &diag);
  cr_assert_not_null(root);
  const int status = config_bind(&config, "test", root, NULL, NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  return config;
}

/* vLLM 0.11 on an A100: 1.2 GB (Qwen3-0.6B) and 8.3 GB (Phi-3-vision) wake from level 1 in 0.26 and
 * 0.82 s, from level 2 in 0.85 and 2.58 s. A wake is linear in bytes: its line is that of two other
 * models. The defaults are a fit to these figures, which are no test of them elsewhere. */
Test(sleep, the_defaults_are_those_of_a_published_benchmark) {
  static const struct {
    const char *sleep;
    double seconds[2];
  } cases[] = {{"{instances: 1}", {0.26, 0.82}}, {"{instances: 1, level: 2}", {0.85, 2.58}}};
  static const double bytes[] = {1.2e9, 8.3e9};
  for (size_t c = 0; c < COUNT(cases); c++) {
    const Config config = load("qwen3-32b", cases[c].sleep);
    const PoolSpec *large = &config.sim.pools[0], *small = &config.sim.pools[1];
    const double first = tick_seconds(small->wake_ticks),
                 slope = (tick_seconds(large->wake_ticks) - first) /
                         (double)(large->weight_bytes - small->weight_bytes);
    for (int i = 0; i < 2; i++) {
      const double wake = first + slope * (bytes[i] - (double)small->weight_bytes);
      cr_expect_float_eq(wake, cases[c].seconds[i], 0.05 * cases[c].seconds[i], "case %zu: %g s", c,
                         wake);
    }
  }
}
