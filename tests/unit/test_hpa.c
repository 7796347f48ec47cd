/* The scaler hpa on the examples that Kubernetes and KEDA publish, and pools without machines. */
#include "sim/policies.h"
#include "sim/scaling/scaler.h"
#include "tests/unit/sim_testing.h"

#define S TICKS_PER_SECOND

static Scene scene;

static void setup_scene(void) {
  setup();
  scene_init(&scene, &arena, &diag);
}

TestSuite(hpa, .init = setup_scene, .fini = teardown);

/* A pool whose scaler is asked every 15 s. */
typedef struct AskedPool {
  const Scaler *scaler;
  void *state;
  PoolSpec spec;
  PoolLoad load;
  ScalingView view;
} AskedPool;

static void ask(AskedPool *self, const char *options, uint32_t n_machines) {
  *self = (AskedPool){.scaler = (const Scaler *)policy_find(POLICY_SCALER, "hpa"),
                      .state = policy_state(POLICY_SCALER, "hpa", options, &arena),
                      .spec = {.role = ROLE_MIXED, .scaling = {.min = 1, .max = 1000}}};
  self->load = (PoolLoad){.spec = &self->spec, .n_machines = n_machines};
  self->view = (ScalingView){.interval = 15 * S, .pools = &self->load, .n_pools = 1};
  self->scaler->start(self->state, &self->view, &arena);
}

static void expect_wanted(AskedPool *self, double wanted) {
  double machines = self->load.n_machines;
  self->scaler->plan(self->state, &self->view, &machines);
  cr_expect_float_eq(machines, wanted, 0, "at %g s: %g, not %g", tick_seconds(self->view.now),
                     machines, wanted);
}

/* What it comes to, where nothing was wanted before. */
static uint32_t grown(AskedPool *self, uint32_t want) {
  self->load.n_machines = self->scaler->limit(self->state, &self->view, 0, want, want);
  return self->load.n_machines;
}

/* "If the current metric value is 200m, and the desired value is 100m, the number of replicas will
 * be doubled, since 200.0/100.0 == 2.0. If the current value is instead 50m, you'll halve the
 * number of replicas." (Kubernetes v1.35, Horizontal Pod Autoscaling, Algorithm details.) */
Test(hpa, twice_the_target_doubles_and_half_halves) {
  AskedPool pool;
  ask(&pool, "{concurrency: 100}", 4);
  pool.load.n_assigned = 4 * 200;
  expect_wanted(&pool, 8);
  pool.load.n_assigned = 4 * 50;
  expect_wanted(&pool, 2);
}

/* "The control plane skips any scaling action if the ratio is sufficiently close to 1.0 (within a
 * configurable tolerance, 0.1 by default)." With a target of 100Mi and a tolerance of 5% the usage
 * is 105Mi before anything shrinks or grows (the same page, Tolerance). */
Test(hpa, a_ratio_within_the_tolerance_changes_nothing) {
  AskedPool pool;
  ask(&pool, "{concurrency: 100}", 10);
  pool.load.n_assigned = 1100;
  expect_wanted(&pool, 10);
  pool.load.n_assigned = 1101;
  expect_wanted(&pool, 12);
  pool.load.n_assigned = 899;
  expect_wanted(&pool, 9);
  ask(&pool, "{concurrency: 100, tolerance: 0.05}", 10);
  pool.load.n_assigned = 1050;
  expect_wanted(&pool, 10);
  pool.load.n_assigned = 1051;
  expect_wanted(&pool, 11);
}

/* "The calculation is done for each metric, and the largest of the desired replica counts is
 * chosen"; requests in front count. */
Test(hpa, the_target_that_wants_most_counts) {
  AskedPool pool;
  ask(&pool, "{concurrency: 10, queue: 2}", 3);
  pool.load.n_assigned = 40;
  pool.load.n_waiting = 5;
  expect_wanted(&pool, 4);
  pool.view.n_front = 12;
  expect_wanted(&pool, 9); // 52 / 10 are 6, 17 / 2 are 9
}

/* The example of scaling policies, 4 pods and 10% a minute: of 80 replicas that shall be 10, 8 go
 * first; of 72 it is 7.2, "but the number is rounded up to 8"; below 40 it is 4 pods. */
Test(hpa, policies_limit_how_fast_a_pool_shrinks) {
  AskedPool pool;
  ask(&pool, "{concurrency: 1, down_percent: 10, down_machines: 4, down_period: 60 s}", 80);
  static const uint32_t after[] = {72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16, 12, 10, 10};
  for (size_t i = 0; i < COUNT(after); i++) {
    pool.view.now = (Tick)i * 60 * S;
    cr_expect_eq(grown(&pool, 10), after[i], "minute %zu: %u", i, pool.load.n_machines);
    pool.view.now += 15 * S;
    cr_expect_eq(grown(&pool, 10), after[i], "within minute %zu: %u", i, pool.load.n_machines);
  }
}

/* The default behaviour: "4 pods or a 100% of the currently running replicas may at most be added
 * every 15 seconds till the HPA reaches its steady state"; down, all may go at once. */
Test(hpa, a_pool_doubles_or_gets_four_every_15_s) {
  AskedPool pool;
  ask(&pool, "{concurrency: 1}", 1);
  static const uint32_t after[] = {5, 10, 20, 40, 80, 100};
  for (size_t i = 0; i < COUNT(after); i++) {
    pool.view.now = (Tick)i * 15 * S;
    cr_expect_eq(grown(&pool, 100), after[i], "step %zu: %u", i, pool.load.n_machines);
  }
  pool.view.now += 15 * S;
  cr_expect_eq(grown(&pool, 1), 1);
}

/* KEDA (ScaledObject specification 2.20): pollingInterval 30 s; a scaler is active above its
 * activation threshold; cooldownPeriod 300 s after it was last active, from one replica to none. */
Test(hpa, keda_starts_the_first_machine_and_stops_the_last) {
  AskedPool pool;
  ask(&pool, "{queue: 5, activation: 2}", 0);
  pool.spec.scaling.min = 0;
  pool.view.n_front = 2;
  expect_wanted(&pool, 0); // not above the threshold
  pool.view.n_front = 30;
  pool.view.now = 15 * S;
  expect_wanted(&pool, 0); // it does not look yet
  pool.view.now = 30 * S;
  expect_wanted(&pool, 1);
  cr_expect_eq(grown(&pool, 1), 1);
  pool.view.now = 45 * S;
  expect_wanted(&pool, 6); // then it goes by the target
  pool.view.n_front = 0;
  for (Tick now = 60 * S; now < 330 * S; now += 15 * S) {
    pool.view.now = now;
    expect_wanted(&pool, 1);
  }
  pool.view.now = 330 * S;
  expect_wanted(&pool, 0); // 300 s after it was active
  cr_expect_eq(pool.scaler->limit(pool.state, &pool.view, 0, 0, 1), 0, "whatever was wanted");
}

/* --- in a run */

/* It starts for 1 s. The look at 2 s finds the request; it goes 3 s after the look that found it.
 */
Test(hpa, a_request_in_front_wakes_a_pool) {
  scene.pools[0].count = 2;
  scene.pools[0].start_up.boot = 1 * S;
  scene.pools[0].scaling = (PoolScaling){.min = 0, .max = 2, .start = 0, .down_window = 300 * S};
  scene.config.scaling_interval = S / 2;
  scene_choose(&scene, POLICY_SCALER, "hpa", "{queue: 5, polling_interval: 2 s, cooldown: 3 s}");
  const TraceRow rows[] = {row(1 * S, 90, 1), row(20 * S, 90, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  /* Looks are at 0.5 s and every 2 s then. A prompt of 90 takes 100 ms. */
  cr_expect_eq(scene.records[0].first_token_at, 2500 * MS + 1 * S + 100 * MS);
  cr_expect_eq(scene.records[1].first_token_at, 20500 * MS + 1 * S + 100 * MS);
  cr_expect_eq(scene.result.totals.scale_ups, 2);
  cr_expect_eq(scene.result.totals.scale_downs, 1);
  const Total off = scene.result.instances[0].off_ticks;
  cr_expect(off == 1500 * MS + 20500 * MS - 6500 * MS, "%.3f s", total_seconds(off));
}

Test(hpa, too_few_requests_for_its_threshold_stay_in_front) {
  scene.pools[0].scaling = (PoolScaling){.min = 0, .max = 1, .start = 0};
  scene.config.scaling_interval = S / 2;
  scene_choose(&scene, POLICY_SCALER, "hpa", "{queue: 5, activation: 2, polling_interval: 1 s}");
  const TraceRow rows[] = {row(1 * S, 90, 1), row(20 * S, 90, 1)};
  cr_expect_eq(scene_run(&scene, rows, COUNT(rows)), 0);
  cr_expect_eq(scene.result.unfinished, 2);
}

/* The small machine is up; the large one starts for a request that only it has room for. */
Test(hpa, a_large_request_waits_for_a_large_machine) {
  scene.config.n_pools = 2;
  scene.pools[1] = scene.pools[0];
  scene.pools[1].name = "large";
  scene.pools[0].kv_blocks = 10;
  scene.pools[1].kv_blocks = 1000;
  for (int p = 0; p < 2; p++)
    scene.pools[p].scaling = (PoolScaling){.min = (uint32_t)!p, .max = 1, .start = (uint32_t)!p};
  scene.pools[1].start_up.boot = 1 * S;
  scene.config.scaling_interval = S / 2;
  scene_choose(&scene, POLICY_SCALER, "hpa", "{queue: 5, polling_interval: 1 s}");
  const int32_t large = 20 * (int32_t)scene.pools[0].block_size;
  const TraceRow rows[] = {row(1 * S, large, 1), row(1 * S + 1, 20, 1)};
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.records[0].prefill_instance, 1);
  cr_expect_eq(scene.records[1].prefill_instance, 0);
}

/* It is off and broken when the only request comes, and nothing else is: the run waits for its
 * repair at 20 s, and the next look starts it. */
Test(hpa, a_broken_machine_that_is_off_is_waited_for) {
  static const FaultSpan span = {0, 20 * S};
  static const FaultKind kinds[] = {FAULT_FAIL, FAULT_DRAIN};
  for (size_t i = 0; i < COUNT(kinds); i++) {
    const FaultSource fault = {.kind = kinds[i], .n_instances = 1, .spans = &span, .n_spans = 1};
    scene.config.faults = &fault;
    scene.config.n_faults = 1;
    scene.pools[0].scaling = (PoolScaling){.min = 0, .max = 1, .start = 0};
    scene.config.scaling_interval = 15 * S;
    scene_choose(&scene, POLICY_SCALER, "hpa", "{queue: 5, polling_interval: 1 s}");
    const TraceRow rows[] = {row(1 * S, 90, 1)};
    scene_run_both(&scene, rows, COUNT(rows));
    cr_expect_eq(scene.result.unfinished, 0);
    cr_expect_eq(scene.records[0].first_token_at, 30 * S + 1 + 100 * MS, "of a start of one tick");
  }
}

/* What the other pool prefills is decoded here; both wait in front until one is up. */
Test(hpa, a_prefill_pool_waits_for_a_pool_of_both_phases) {
  scene.config.n_pools = 2;
  scene.pools[1] = scene.pools[0];
  scene.pools[0].name = "prefill";
  scene.pools[0].role = ROLE_PREFILL;
  scene.pools[0].scaling = (PoolScaling){0};
  scene.pools[1].name = "mixed";
  scene.pools[1].role = ROLE_MIXED;
  scene.pools[1].scaling = (PoolScaling){.min = 0, .max = 1, .start = 0};
  scene.config.scaling_interval = S / 2;
  scene_choose(&scene, POLICY_SCALER, "hpa", "{queue: 5, polling_interval: 1 s, cooldown: 1 s}");
  const TraceRow rows[] = {row(1 * S, 90, 3), row(20 * S, 90, 3)};
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.result.unfinished, 0);
  cr_expect_eq(scene.result.totals.scale_ups, 2);
}
