/* Starts in closed form, what each scaler wants on cases computed by hand, and when machines come
 * and go by that. */
#include "sim/policies.h"
#include "sim/scaling/scaler.h"
#include "tests/unit/sim_testing.h"

#define GB INT64_C(1000000000)
#define S  TICKS_PER_SECOND

static Scene scene;

static void setup_scene(void) {
  setup();
  scene_init(&scene, &arena, &diag);
}

TestSuite(scaling, .init = setup_scene, .fini = teardown);

/* --- starts */

Test(scaling, a_start_is_the_sum_of_its_parts) {
  StartUp start_up = {.boot = 10 * S, .image = 5 * S, .capture = 3 * S, .warm_up = 2 * S};
  cr_expect_eq(start_up_alone(&start_up, 140 * GB, 1), 20 * S, "weights take no time");
  start_up.bandwidth = 7 * GB;
  cr_expect_eq(start_up_alone(&start_up, 140 * GB, GB), 40 * S, "20 s from disk");
  start_up.weights_from = WEIGHTS_PEER;
  cr_expect_eq(start_up_alone(&start_up, 140 * GB, 4 * GB), 55 * S, "35 s through the NIC");
  const StartUp at_once = {0};
  cr_expect_eq(start_up_alone(&at_once, 140 * GB, GB), 1);
}

Test(scaling, a_store_serves_in_turn_with_all_of_its_bandwidth) {
  const StartUp start_up = {.boot = 1 * S, .weights_from = WEIGHTS_STORE, .bandwidth = 10 * GB};
  Tick free_at = 0;
  cr_expect_eq(start_up_end(&start_up, 100 * GB, 50 * GB, 0, &free_at), 11 * S);
  cr_expect_eq(start_up_end(&start_up, 100 * GB, 50 * GB, 2 * S, &free_at), 21 * S);
  cr_expect_eq(start_up_end(&start_up, 100 * GB, 5 * GB, 30 * S, &free_at), 51 * S, "by its NIC");
  cr_expect_eq(free_at, 41 * S);
}

/* --- what scalers want */

static void expect_wanted(const char *name, const char *options, const ScalingView *views, int n,
                          const double *wanted) {
  const Scaler *scaler = (const Scaler *)policy_find(POLICY_SCALER, name);
  void *state = policy_state(POLICY_SCALER, name, options, &arena);
  if (scaler->start) scaler->start(state, &views[0], &arena);
  for (int i = 0; i < n; i++) {
    double machines[2] = {views[i].pools[0].n_machines, 0};
    if (views[i].n_pools > 1) machines[1] = views[i].pools[1].n_machines;
    scaler->plan(state, &views[i], machines);
    for (uint32_t p = 0; p < views[i].n_pools; p++)
      cr_expect_float_eq(machines[p], wanted[i * (int)views[i].n_pools + (int)p], 0,
                         "%s, view %d, pool %u: %g", name, i, p, machines[p]);
  }
}

static void expect_target(const char *options, const PoolLoad *load, double wanted) {
  const ScalingView view = {.interval = 15 * S, .pools = load, .n_pools = 1};
  expect_wanted("target", options, &view, 1, &wanted);
}

Test(scaling, target_wants_machines_in_proportion) {
  const PoolSpec spec = {.role = ROLE_MIXED};
  PoolLoad load = {.spec = &spec,
                   .n_machines = 4,
                   .n_assigned = 60,
                   .n_waiting = 9,
                   .kv_machines = 3.6,
                   .first_tokens = 10,
                   .ttft_ticks = 10 * S};
  expect_target("{concurrency: 10}", &load, 6);
  expect_target("{concurrency: 14}", &load, 4); // 4.29 are within a tenth
  expect_target("{concurrency: 14, tolerance: 0.05}", &load, 5);
  expect_target("{concurrency: 40}", &load, 2);
  expect_target("{queue: 1}", &load, 9);
  expect_target("{}", &load, 5); // of KV memory, by 3.6 / 0.8
  expect_target("{ttft: 500 ms}", &load, 8);
  expect_target("{ttft: 500 ms, queue: 1}", &load, 9);
  load.first_tokens = 0;
  expect_target("{ttft: 500 ms}", &load, 4); // not known
}

Test(scaling, a_pool_may_have_targets_of_its_own) {
  const PoolSpec specs[] = {{.name = "prefill", .role = ROLE_PREFILL},
                            {.name = "decode", .role = ROLE_DECODE}};
  const PoolLoad loads[] = {{.spec = &specs[0], .n_machines = 2, .n_assigned = 6, .n_waiting = 8},
                            {.spec = &specs[1], .n_machines = 2, .n_assigned = 60}};
  const ScalingView view = {.interval = 15 * S, .pools = loads, .n_pools = 2};
  expect_wanted("target", "{concurrency: 10, pools: {prefill: {queue: 2}}}", &view, 1,
                (double[]){4, 6});
  expect_wanted("target", "{pools: {prefill: {concurrency: 1}, decode: {concurrency: 20}}}", &view,
                1, (double[]){6, 3});
}

/* Rates of 10, 20, 30 and 20 /s: a level of 20 and seasons of -10, 0, 10 and 0. */
Test(scaling, forecast_knows_what_comes_again) {
  const PoolSpec spec = {.scaling = {.min = 1, .max = 99, .start = 1, .machine_rate = 4}};
  const PoolLoad load = {.spec = &spec, .n_machines = 1};
  static const uint64_t arrivals[] = {100, 200, 300, 200, 100};
  static const double wanted[] = {3, 5, 8, 5, 8}; // the first three by their rates or the level
  ScalingView views[5];
  for (int i = 0; i < 5; i++)
    views[i] =
        (ScalingView){.interval = 10 * S, .pools = &load, .n_pools = 1, .arrivals = arrivals[i]};
  expect_wanted("forecast", "{period: 40 s, ahead: 10 s}", views, 5, wanted);
}

Test(scaling, schedule_goes_by_the_clock) {
  const PoolSpec specs[] = {{.name = "a"}, {.name = "b"}};
  const PoolLoad loads[] = {{.spec = &specs[0]}, {.spec = &specs[1]}};
  static const Tick times[] = {0, 8 * S, 12 * S, 101 * S, 120 * S - 1};
  ScalingView views[5];
  for (int i = 0; i < 5; i++)
    views[i] = (ScalingView){.now = times[i], .interval = S, .pools = loads, .n_pools = 2};
  static const char options[] = "{every: 20 s, steps: [{at: 0 s, machines: 2, pool: a}, "
                                "{at: 1 s, machines: 7, pool: b}, {at: 8 s, machines: 5, pool: a}, "
                                "{at: 12 s, machines: 9, pool: b}]}";
  static const double wanted[] = {2, 9, 5, 7, 5, 9, 2, 7, 5, 9}; // b has 9 from the period before
  expect_wanted("schedule", options, views, 5, wanted);
}

/* Prompts of 100 take 110 ms, so 200 /s keep 22 machines busy. A step of n sequences with 105
 * tokens each takes 10 + 2.05·n ms: 19 are within 50 ms, and make 388 tokens/s. */
Test(scaling, dynamo_planner_sizes_both_phases) {
  const PerfModel *model = plain_model(&arena);
  const PoolSpec specs[] = {
      {.role = ROLE_PREFILL, .perfmodel = model, .kv_blocks = 1000, .block_size = 16},
      {.role = ROLE_DECODE, .perfmodel = model, .kv_blocks = 1000, .block_size = 16}};
  const PoolLoad loads[] = {{.spec = &specs[0], .n_machines = 1},
                            {.spec = &specs[1], .n_machines = 1}};
  const ScalingView view = {.interval = 15 * S,
                            .pools = loads,
                            .n_pools = 2,
                            .arrivals = 3000,
                            .prompt_tokens = 300000,
                            .completed = 100,
                            .first_tokens = 100,
                            .output_tokens = 1000,
                            .ttft_ticks = 11 * S,
                            .e2e_ticks = 38 * S,
                            .between_ticks = 900 * 58 * MS};
  static const double uncorrected[] = {22, 6};
  expect_wanted("dynamo_planner", "{tpot: 50 ms, correction: false}", &view, 1, uncorrected);
  /* 200 /s for 0.38 s are 76 sequences, whose step should take 165.8 ms and took 58: so the 64 are
   * within 50 ms whose step should take 141.2, and make 453 tokens/s. */
  static const double corrected[] = {22, 5};
  expect_wanted("dynamo_planner", "{tpot: 50 ms}", &view, 1, corrected);
  /* 200 /s for 25 ms are five sequences, whose step should take 20.25 ms: so three are within 50 ms
   * whose step should take 17.46, and make 186 tokens/s. */
  ScalingView few = view;
  few.e2e_ticks = 5 * S / 2;
  static const double of_few[] = {22, 11};
  expect_wanted("dynamo_planner", "{tpot: 50 ms}", &few, 1, of_few);
  const ScalingView idle = {.interval = 15 * S, .pools = loads, .n_pools = 2};
  static const double as_before[] = {1, 1};
  expect_wanted("dynamo_planner", NULL, &idle, 1, as_before);
}

/* Whether scaler `name` takes these pools. */
static bool takes(const char *name, const char *options, const PoolSpec *pools, uint32_t n_pools) {
  const Scaler *scaler = (const Scaler *)policy_find(POLICY_SCALER, name);
  const void *state = policy_state(POLICY_SCALER, name, options, &arena);
  diag_done(&diag);
  diag_init(&diag);
  return scaler->check_pools(state, pools, n_pools, place_of_file(NULL), &diag) == 0;
}

Test(scaling, forecast_needs_the_rate_of_each_scaled_pool) {
  PoolSpec pools[] = {{.name = "first", .scaling = {.max = 2}},
                      {.name = "fixed"},
                      {.name = "last", .scaling = {.max = 2, .machine_rate = 4}}};
  cr_expect(!takes("forecast", NULL, pools, COUNT(pools)));
  cr_assert_eq(diag.n_entries, 1);
  cr_expect_not_null(strstr(diag.entries[0].message, "'first'"));
  pools[0].scaling.machine_rate = 4;
  cr_expect(takes("forecast", NULL, pools, COUNT(pools)));
  pools[2].scaling.machine_rate = 0;
  cr_expect(!takes("forecast", NULL, pools, COUNT(pools)));
  cr_assert_eq(diag.n_entries, 1);
  cr_expect_not_null(strstr(diag.entries[0].message, "'last'"));
}

Test(scaling, a_schedule_names_pools_that_are_scaled) {
  const PoolSpec pools[] = {{.name = "fixed"}, {.name = "elastic", .scaling = {.max = 2}}};
  static const char steps[] = "{every: 20 s, steps: [{at: 0 s, machines: 2, pool: %s}]}";
  static const struct {
    const char *pool;
    bool taken;
  } cases[] = {{"elastic", true}, {"fixed", false}, {"elasti", false}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const char *options = arena_printf(&arena, steps, cases[i].pool);
    cr_expect_eq(takes("schedule", options, pools, COUNT(pools)), cases[i].taken);
    if (cases[i].taken) continue;
    cr_assert_eq(diag.n_entries, 1);
    cr_expect_not_null(strstr(diag.entries[0].message, cases[i].pool));
    if (diag.entries[0].hint) cr_expect_null(strstr(diag.entries[0].hint, "fixed"));
  }
}

/* --- when machines come and go */

static void scale_by(const char *options, uint32_t start) {
  scene.pools[0].count = 2;
  scene.pools[0].scaling = (PoolScaling){.min = 1, .max = 2, .start = start};
  scene.config.scaling_interval = S / 2;
  scene_choose(&scene, POLICY_SCALER, "schedule", options);
}

static void expect_ticks(Total ticks, Tick expected, const char *what) {
  cr_expect(ticks == expected, "%s: %.12f s", what, total_seconds(ticks));
}

/* Told to start at 1 s, it boots for 100 ms and has its weights 50 ms later; told to go at 3 s. */
Test(scaling, a_machine_that_is_started_is_up_to_the_tick) {
  scale_by("{every: 100 s, steps: [{at: 0 s, machines: 1}, {at: 1 s, machines: 2}, "
           "{at: 3 s, machines: 1}]}",
           1);
  scene.pools[0].weight_bytes = GB / 2;
  scene.pools[0].nic_bandwidth = 100 * GB;
  scene.pools[0].start_up =
      (StartUp){.boot = 100 * MS, .weights_from = WEIGHTS_STORE, .bandwidth = 10 * GB};
  const TraceRow rows[] = {row(900 * MS, 300, 2), row(1150 * MS - 1, 90, 1),
                           row(1150 * MS + 1, 90, 1), row(4 * S, 90, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  static const InstanceIx placed[] = {0, 0, 1, 0};
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_eq(scene.records[i].prefill_instance, placed[i], "request %zu", i);
  const InstanceTotals *totals = &scene.result.instances[1];
  cr_expect(totals->scale_ups == 1 && totals->scale_downs == 1);
  expect_ticks(totals->starting_ticks, 150 * MS, "it starts");
  expect_ticks(totals->off_ticks, 100 * MS + 1100 * MS,
               "it is off from the first arrival to 1 s and from 3 s to 4.1 s");
  expect_ticks(scene.result.instances[0].off_ticks, 0, "the other one stays");
}

/* Wanted at 1 s; what was wanted at 0.5 s holds until 1.5 s. */
Test(scaling, a_pool_shrinks_when_nothing_in_the_window_wanted_more) {
  scale_by("{every: 100 s, steps: [{at: 0 s, machines: 2}, {at: 1 s, machines: 1}]}", 2);
  scene.pools[0].scaling.down_window = 1 * S;
  const TraceRow rows[] = {row(0, 90, 1), row(2 * S, 90, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  expect_ticks(scene.result.instances[1].off_ticks, 600 * MS, "of 2.1 s, from 1.5 s on");
}

/* A machine that has requests finishes them; one that drains stays when it is wanted again. */
Test(scaling, a_machine_that_drains_finishes_or_stays) {
  scale_by("{every: 100 s, steps: [{at: 0 s, machines: 2}, {at: 1 s, machines: 1}, "
           "{at: 2 s, machines: 2}]}",
           2);
  const TraceRow rows[] = {row(900 * MS, 90, 200), row(900 * MS + 1, 190, 100), row(3 * S, 90, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect(totals->scale_downs == 1 && totals->scale_ups == 0, "%d %d", (int)totals->scale_downs,
            (int)totals->scale_ups);
  expect_ticks(totals->off_ticks, 0, "it had not gone when it was wanted again");
}
