/* Energy by the hour: its sum is that of the run, an hour that is alike draws alike, and it does
 * not matter how decode runs are cut. */
#include "sim/books/hours.h"
#include "tests/unit/scene_testing.h"

TestSuite(metering, .init = setup_scene, .fini = teardown);

static void expect_sum(const char *what) {
  const SimResult *result = &scene.result;
  double sum = 0;
  for (size_t h = 0; h < result->n_hour_joules; h++) {
    cr_expect_geq(result->hour_joules[h], 0, "%s: hour %zu", what, h);
    sum += result->hour_joules[h];
  }
  cr_expect_float_eq(sum, result->energy_j, 1e-9 * result->energy_j, "%s: %.12g of %.12g J", what,
                     sum, result->energy_j);
}

/* The plain model: 1000 W in prefill, 600 in decode, 100 idle. A prompt of 90 takes 100 ms. */
static void give_power(void) {
  scene.config.meters_hours = true;
  scene.pools[0].prefill_power = 1000;
  scene.pools[0].decode_power = 600;
  scene.pools[0].idle_power = 100;
}

Test(metering, an_hour_has_what_was_drawn_in_it) {
  give_power();
  const TraceRow rows[] = {row(0, 90, 1), row(HOUR - 40 * MS, 90, 1), row(3 * HOUR, 90, 1)};
  run(rows, COUNT(rows));
  cr_assert_eq(scene.result.n_hour_joules, 4);
  const double idle = 100 * 3600, more[] = {0.14 * 900, 0.06 * 900, 0};
  for (size_t h = 0; h < 3; h++)
    cr_expect_float_eq(scene.result.hour_joules[h], idle + more[h], 1e-6, "hour %zu: %.9g", h,
                       scene.result.hour_joules[h]);
  cr_expect_float_eq(scene.result.hour_joules[3], 0.1 * 1000, 1e-6);
  expect_sum("three prompts");
}

/* Decodes over the end of an hour, whole or step by step, with and without a model of power. */
Test(metering, a_run_of_decodes_is_cut_where_the_hour_ends) {
  PowerModel power = {.idle = 100, .limit = 700, .cap = 700};
  for (int i = 0; i < POWER_OCTAVES; i++) {
    power.linear.watts.at[i] = 400;
    power.decode.watts.at[i] = 200;
    power.prefill.watts.at[i] = power.head.watts.at[i] = 300;
  }
  PerfModel model = *scene.pools[0].perfmodel;
  const PerfModel *plain = scene.pools[0].perfmodel;
  for (int modelled = 0; modelled < 2; modelled++) {
    double first[2];
    give_power();
    model.power = modelled ? &power : NULL;
    scene.pools[0].gpus = 2;
    scene.pools[0].rest_power = 50;
    scene.pools[0].perfmodel = modelled ? &model : plain;
    const TraceRow rows[] = {row(HOUR - 1000 * MS, 90, 200), row(HOUR - 950 * MS, 50, 150)};
    for (int step = 0; step < 2; step++) {
      scene.config.step = step;
      cr_assert_eq(scene_run(&scene, rows, COUNT(rows)), 0);
      cr_assert_eq(scene.result.n_hour_joules, 2);
      first[step] = scene.result.hour_joules[0];
      expect_sum(step ? "step by step" : "coalesced");
    }
    cr_expect_float_eq(first[0], first[1], 1e-9 * first[0], "%.12g, step by step %.12g", first[0],
                       first[1]);
    if (!modelled) {
      // Two prompts of 100 and 60 ms, then decodes until the hour ends.
      cr_expect_float_eq(first[0], 0.16 * 1000 + 0.84 * 600, 0.01, "%.9g J", first[0]);
    }
  }
}
