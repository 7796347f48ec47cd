/* Pipelines: when batches leave the stages that lanes share, and what a lane's memory and time are.
 * Whole timelines are in tests/golden/shapes.c. */
#include "sim/core/pipeline.h"
#include "tests/unit/sim_testing.h"

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
    const Tick ticks = pipeline_pass(&pipeline, pass->now, pass->stage, pass->last, pass->send);
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
