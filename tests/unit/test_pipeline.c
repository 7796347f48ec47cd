/* Pipelines: when batches leave the stages that lanes share, and what a lane's memory and time are.
 * Whole timelines are in tests/golden/shapes.c. */
#include "sim/core/pipeline.h"
#include "tests/swarm/compare.h"
#include "tests/unit/sim_testing.h"
#include <string.h>

TestSuite(pipeline, .init = setup, .fini = teardown);

typedef struct Pass {
  Tick now, stage, last, send;
  Tick left_at; // the last stage, derived by hand
} Pass;

static void check(int64_t n_stages, const Pass *passes, size_t n) {
  Pipeline pipeline;
  pipeline_init(&pipeline, n_stages, &arena);
  for (size_t i = 0; i < n; i++) {
    const Pass *pass = &passes[i];
    const Tick ticks =
        pipeline_pass(&pipeline, pass->now, pass->stage, pass->last, pass->send, NULL);
    cr_expect_eq(pass->now + ticks, pass->left_at, "pass %zu leaves at %lld, not %lld", i,
                 (long long)(pass->now + ticks), (long long)pass->left_at);
  }
}

Test(pipeline, a_batch_alone_takes_the_sum_of_its_stages) {
  static const Pass one[] = {{7, 10, 10, 0, 17}};
  static const Pass four[] = {{7, 10, 15, 2, 7 + 3 * 12 + 15}};
  check(1, one, COUNT(one));
  check(4, four, COUNT(four));
}

/* Equal batches leave one stage time apart: a pipeline that is full has no bubbles. */
Test(pipeline, equal_batches_fill_the_stages) {
  static const Pass passes[] = {
      {0, 10, 10, 0, 30}, {0, 10, 10, 0, 40}, {0, 10, 10, 0, 50}, {30, 10, 10, 0, 60}};
  check(3, passes, COUNT(passes));
}

/* A short batch behind a long one waits at every stage; a long one behind a short one does not. */
Test(pipeline, batches_do_not_overtake_each_other) {
  static const Pass behind_long[] = {{0, 20, 20, 0, 60}, {0, 5, 5, 0, 65}};
  static const Pass behind_short[] = {{0, 5, 5, 0, 15}, {0, 20, 20, 0, 65}};
  check(3, behind_long, COUNT(behind_long));
  check(3, behind_short, COUNT(behind_short));
}

/* The stage is free while its batch is on its way to the next one. */
Test(pipeline, handing_on_does_not_hold_the_stage) {
  static const Pass passes[] = {{0, 10, 10, 4, 24}, {0, 10, 10, 4, 34}};
  check(2, passes, COUNT(passes));
}

/* Two lanes of a pipeline of two stages against one machine without: both lanes are at work, so as
 * many tokens come in little more than the time of one lane. */
Test(pipeline, lanes_work_side_by_side) {
  Scene scene;
  const TraceRow rows[] = {row(0, 100, 50), row(0, 100, 50)};
  Tick spans[2];
  for (int pipelined = 0; pipelined < 2; pipelined++) {
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
    scene.pools[0].count = 2;
    scene.pools[0].pipeline_stages = pipelined ? 2 : 1;
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    cr_expect_eq(scene.records[0].prefill_instance, 0);
    cr_expect_eq(scene.records[1].prefill_instance, 1);
    spans[pipelined] = scene.result.span;
  }
  /* A stage takes the whole overhead of 10 ms and half of the rest, so two stages take 10 ms more;
   * the lanes are half an iteration apart. */
  cr_expect_gt(spans[1], spans[0] + 50 * 10 * MS);
  cr_expect_lt(spans[1], 2 * spans[0]);
}

/* One request alone in two stages, 10 tokens and then two decodes with contexts of 11 and 12. A
 * stage takes 10 ms and half of the rest: 15, 10.555, 10.56.
 * In turn: prefill 0–15–30; a step without tokens was decided at 0, and after the output the engine
 * sleeps; decode 31–41.555–52.11, sleep, 53.11–63.67–74.23.
 * Ahead: the first decode is decided at 1, two decisions after the prefill, and waits for its token
 * to be sent to the first stage, 30–40.555–51.11; the second is decided at 31,
 * 51.11–61.67–72.23. */
Test(pipeline, one_scheduler_has_its_batches_in_flight) {
  Scene scene;
  const TraceRow rows[] = {row(0, 10, 3)};
  static const Tick last[] = {74230 * US, 72230 * US};
  for (int ahead = 0; ahead < 2; ahead++) {
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 ahead ? "{async_scheduling: true}" : "{async_scheduling: false}");
    scene.pools[0].pipeline_stages = 2;
    scene.pools[0].pipeline_lanes = 1;
    scene_run_both(&scene, rows, COUNT(rows));
    cr_expect_eq(scene.records[0].first_token_at, 30 * MS);
    cr_expect_eq(scene.records[0].last_token_at, last[ahead]);
  }
}

/* Of two requests at once, whose prompts are two steps, the first output token is that of the first
 * step: the second prompt, decided at 0 too, goes through the stages behind it, 15–30–45. Then
 * both decode in one batch: nothing splits it. */
Test(pipeline, steps_follow_each_other_through_the_stages) {
  Scene scene;
  const TraceRow rows[] = {row(0, 10, 2), row(0, 10, 2)};
  scene_init(&scene, &arena, &diag);
  scene_choose(&scene, POLICY_BATCHER, "vllm",
               "{async_scheduling: false, max_num_batched_tokens: 10, idle_sleep: 0 ms}");
  scene.pools[0].pipeline_stages = 2;
  scene.pools[0].pipeline_lanes = 1;
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.records[0].first_token_at, 30 * MS);
  cr_expect_eq(scene.records[1].first_token_at, 45 * MS);
  /* The first decodes from 30 on, 10.555 in a stage, but the last is busy until 45. */
  cr_expect_eq(scene.records[0].last_token_at, 45 * MS + 10555 * US);
}

/* A request that needs all blocks of the instance has them, however many stages there are. */
Test(pipeline, batches_of_one_scheduler_share_all_blocks) {
  Scene scene;
  const TraceRow rows[] = {row(0, 150, 10)};
  scene_init(&scene, &arena, &diag);
  scene_choose(&scene, POLICY_BATCHER, "vllm", NULL);
  scene.pools[0].pipeline_stages = 4;
  scene.pools[0].pipeline_lanes = 1;
  scene.pools[0].kv_blocks = 10;
  scene_run_both(&scene, rows, COUNT(rows));
  cr_expect_eq(scene.result.metrics.completed, 1);
}

static PowerModel constant_power(double watts) {
  PowerModel power = {.idle = watts, .limit = watts, .cap = watts};
  for (int i = 0; i < POWER_OCTAVES; i++)
    power.linear.watts.at[i] = power.decode.watts.at[i] = power.prefill.watts.at[i] =
        power.head.watts.at[i] = watts;
  return power;
}

/* Runs `rows` on lanes of so many stages, coalesced and stepped; events of both. */
static void run_lanes(Scene *scene, const TraceRow *rows, size_t n_rows, uint64_t events[2]) {
  scene_run_both(scene, rows, n_rows);
  for (int step = 0; step < 2; step++) {
    scene->config.step = step;
    cr_assert_eq(scene_run(scene, rows, n_rows), 0);
    events[step] = scene->result.events;
  }
  scene->config.step = false;
}

/* Lanes that decode are planned together: 897 iterations with equal and with unequal batches are a
 * few events, and end when they do one by one. */
Test(pipeline, decodes_of_lanes_are_planned_together) {
  const TraceRow rows[] = {row(0, 100, 300), row(0, 400, 300), row(3 * MS, 100, 300)};
  for (int64_t stages = 3; stages <= 5; stages++) {
    Scene scene;
    uint64_t events[2];
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
    scene.pools[0].count = (uint32_t)stages;
    scene.pools[0].pipeline_stages = stages;
    run_lanes(&scene, rows, COUNT(rows), events);
    cr_expect_geq(events[1], 3 * 299);
    cr_expect_lt(events[0], 100, "%llu events in %lld stages", (unsigned long long)events[0],
                 (long long)stages);
  }
}

/* Whatever breaks a plan, each lane goes on where it would have without: a request that comes, and
 * a failure of all lanes, at many times within the iterations of others, and blocks that run out.
 * The watts of iterations grow with their context. */
Test(pipeline, plans_of_lanes_are_broken_where_iterations_are) {
  PowerModel power = constant_power(300);
  power.idle = 40;
  for (int i = 0; i < POWER_OCTAVES; i++)
    power.decode.watts.at[i] = 100 + 2 * i;
  for (int at = 100; at < 900; at += 13) {
    Scene scene;
    uint64_t events[2];
    const TraceRow rows[] = {row(0, 100, 60), row(MS, 90, 55), row(at * MS, 80, 40),
                             row(at * MS + 7, 20, 30), row(2 * at * MS, 20, 30)};
    const FaultSpan span = {(at + 311) * MS, (at + 411) * MS};
    const FaultSource fault = {.kind = FAULT_FAIL, .n_instances = 2, .spans = &span, .n_spans = 1};
    scene_init(&scene, &arena, &diag);
    PerfModel model = *scene.pools[0].perfmodel;
    model.power = &power;
    scene_choose(&scene, POLICY_ROUTER, "round_robin", NULL);
    scene.pools[0].count = 2;
    scene.pools[0].pipeline_stages = 2;
    scene.pools[0].kv_blocks = 12;
    scene.pools[0].perfmodel = &model;
    scene.config.faults = &fault;
    scene.config.n_faults = at % 2;
    scene.config.retry = (RetryOptions){.limit = 3};
    run_lanes(&scene, rows, COUNT(rows), events);
    cr_expect_lt(events[0], events[1]);
  }
}

/* Of a step that has left the stages before its output is taken nothing is left when the instance
 * begins it; it draws nevertheless until a failure breaks it off, at any of these times. */
Test(pipeline, a_step_that_is_broken_off_draws_as_long_as_it_lasted) {
  Scene scene;
  const PowerModel power = constant_power(300);
  const TraceRow rows[] = {row(0, 10, 5), row(0, 10, 9), row(150 * MS, 10, 7)};
  for (int at = 400; at < 600; at += 2) {
    scene_init(&scene, &arena, &diag);
    const FaultSpan span = {at * MS, 1000 * MS};
    const FaultSource fault = {.kind = FAULT_FAIL, .n_instances = 1, .spans = &span, .n_spans = 1};
    PerfModel model = *scene.pools[0].perfmodel;
    model.power = &power;
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 "{async_scheduling: true, max_num_batched_tokens: 10, idle_sleep: 100 ms}");
    scene.pools[0].perfmodel = &model;
    scene.pools[0].pipeline_stages = 3;
    scene.pools[0].pipeline_lanes = 1;
    scene.config.faults = &fault;
    scene.config.n_faults = 1;
    scene.config.retry = (RetryOptions){.limit = 1};
    cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
    const InstanceTotals *totals = &scene.result.totals;
    cr_expect(totals->milliwatt_ticks == 300000 * (Total)instance_busy_ticks(totals),
              "%d ms: %.6f J in %.6f s", at, power_joules(totals->milliwatt_ticks),
              total_seconds(instance_busy_ticks(totals)));
  }
}

/* One scheduler's steps of decodes are planned together as well: with and without deciding ahead,
 * with a prefix cache and without, thousands of steps are a few events. */
Test(pipeline, decodes_of_one_scheduler_are_planned_together) {
  const TraceRow rows[] = {row(0, 10, 800), row(0, 10, 900), row(0, 10, 850), row(0, 10, 1000)};
  for (int kind = 0; kind < 8; kind++) {
    Scene scene;
    uint64_t events[2];
    scene_init(&scene, &arena, &diag);
    const int64_t stages = kind < 4 ? 2 : 4;
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 arena_printf(&arena,
                              "{async_scheduling: %s, enable_prefix_caching: %s, "
                              "max_num_batched_tokens: 10}",
                              kind & 1 ? "true" : "false", kind & 2 ? "true" : "false"));
    scene.pools[0].pipeline_stages = stages;
    scene.pools[0].pipeline_lanes = 1;
    scene.pools[0].kv_blocks = 400;
    run_lanes(&scene, rows, COUNT(rows), events);
    cr_expect_geq((int64_t)events[1], stages * 799);
    cr_expect_lt(events[0], events[1] / 4, "%llu events of %llu, kind %d",
                 (unsigned long long)events[0], (unsigned long long)events[1], kind);
  }
}

/* Blocks that a round takes itself break no plan that is made in it: requests that come while
 * others decode cost ten events each. */
Test(pipeline, a_round_does_not_break_its_own_plan) {
  enum { COMING = 20 };
  TraceRow rows[3 + COMING] = {row(0, 17, 800), row(0, 17, 900), row(0, 17, 850)};
  Scene scene;
  uint64_t events[2];
  for (int i = 0; i < COMING; i++)
    rows[3 + i] = row((700 + 401 * i) * MS, 17, 3);
  scene_init(&scene, &arena, &diag);
  scene_choose(
      &scene, POLICY_BATCHER, "vllm",
      "{async_scheduling: true, enable_prefix_caching: false, max_num_batched_tokens: 20}");
  scene.pools[0].pipeline_stages = 4;
  scene.pools[0].pipeline_lanes = 1;
  scene.pools[0].kv_blocks = 400;
  run_lanes(&scene, rows, COUNT(rows), events);
  cr_expect_lt(events[0], 250, "%llu events", (unsigned long long)events[0]);
}

/* Runs `rows`, coalesced and stepped, and compares all that comes of them. */
static void compare_steps(Scene *scene, const TraceRow *rows, size_t n_rows) {
  SimResult coalesced;
  RequestRecord records[8];
  cr_assert_eq(scene_run(scene, rows, n_rows), 0);
  coalesced = scene->result;
  memcpy(records, scene->records, n_rows * sizeof *records);
  scene->config.step = true;
  cr_assert_eq(scene_run(scene, rows, n_rows), 0);
  const char *wrong = compare_results(&coalesced, &scene->result);
  cr_expect_null(wrong, "%s", wrong ? wrong : "");
  for (size_t i = 0; i < n_rows; i++) {
    cr_expect_eq(records[i].last_token_at, scene->records[i].last_token_at);
    cr_expect_eq(records[i].computing_ticks, scene->records[i].computing_ticks);
  }
}

/* Whatever breaks a plan, the steps in flight are those that there would be without: a request that
 * comes at many times within the steps of others, one that gives up, a failure, an end of the
 * warm-up, and blocks that run out. */
Test(pipeline, plans_of_steps_are_broken_where_steps_are) {
  PowerModel power = constant_power(300);
  power.idle = 40;
  for (int i = 0; i < POWER_OCTAVES; i++)
    power.decode.watts.at[i] = 100 + 2 * i;
  for (int at = 100; at < 1300; at += 17) {
    Scene scene;
    TraceRow rows[] = {row(0, 10, 60),       row(0, 10, 55),          row(0, 10, 70),
                       row(at * MS, 20, 40), row(at * MS + 7, 9, 30), row(2 * at * MS, 20, 30)};
    const FaultSpan span = {(at + 311) * MS, (at + 411) * MS};
    const FaultSource fault = {.kind = FAULT_FAIL, .n_instances = 1, .spans = &span, .n_spans = 1};
    scene_init(&scene, &arena, &diag);
    PerfModel model = *scene.pools[0].perfmodel;
    model.power = &power;
    rows[1].patience = at % 3 == 0 ? (at + 200) * MS : 0;
    rows[0].max_tokens = 60 + at % 2;
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 arena_printf(&arena,
                              "{async_scheduling: %s, enable_prefix_caching: %s, "
                              "max_num_batched_tokens: 10, idle_sleep: 1 ms}",
                              at & 1 ? "true" : "false", at & 2 ? "true" : "false"));
    scene.pools[0].pipeline_stages = 2 + at % 3;
    scene.pools[0].pipeline_lanes = 1;
    scene.pools[0].kv_blocks = 17 + at % 5;
    scene.pools[0].perfmodel = &model;
    scene.config.faults = &fault;
    scene.config.n_faults = at % 5 == 0;
    scene.config.retry = (RetryOptions){.limit = 3};
    scene.config.warm_up.requests = at % 7 == 0 ? 4 : 0;
    compare_steps(&scene, rows, COUNT(rows));
  }
}

/* Microbatches are fewer than stages, and the engine sleeps after each empty step: loads are read
 * at many times of such rounds, also in the sleep. */
Test(pipeline, plans_know_what_is_in_flight_while_the_engine_sleeps) {
  const TraceRow rows[] = {row(0, 10, 60), row(0, 10, 55), row(0, 10, 70)};
  for (int i = 0; i < 24; i++) {
    Scene scene;
    uint64_t events[2];
    scene_init(&scene, &arena, &diag);
    scene_choose(&scene, POLICY_POOL, "tetriinfer_flip", NULL);
    scene_choose(&scene, POLICY_BATCHER, "vllm",
                 arena_printf(&arena,
                              "{async_scheduling: %s, enable_prefix_caching: %s, "
                              "max_num_batched_tokens: 10, idle_sleep: 300 ms}",
                              i & 1 ? "true" : "false", i & 2 ? "true" : "false"));
    scene.config.monitor_interval = (190 + 7 * i) * MS;
    scene.pools[0].pipeline_stages = 3 + i % 3;
    scene.pools[0].pipeline_lanes = 1;
    run_lanes(&scene, rows, COUNT(rows) - (i % 4 > 1), events);
    compare_steps(&scene, rows, COUNT(rows) - (i % 4 > 1));
    cr_expect_lt(events[0], events[1]);
  }
}
