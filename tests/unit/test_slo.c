/* Objectives: the limits of Splitwise Table VI, the strict test, and what requests that never
 * finished do to a quantile. How slowdowns are measured is pinned by the tests of the metrics. */
#include "experiments/slo.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static Arena arena;
static Metrics metrics;

static void set_up(void) {
  arena_init(&arena);
  metrics_init(&metrics, NULL, &arena);
}

static void tear_down(void) {
  arena_done(&arena);
}

TestSuite(slo, .init = set_up, .fini = tear_down);

/* `count` requests with these slowdowns in all three measures. */
static void add(double slowdown, uint64_t count) {
  const int64_t value = llround(slowdown * SLOWDOWN_SCALE);
  histogram_add(&metrics.slowdown_ttft, value, count);
  histogram_add(&metrics.slowdown_tbt, value, count);
  histogram_add(&metrics.slowdown_e2e, value, count);
  metrics.requests += count;
  metrics.completed += count;
}

static const SloSet *find_set(const char *name) {
  for (int i = 0; i < SLO_SETS; i++)
    if (strcmp(slo_sets[i].name, name) == 0) return &slo_sets[i];
  cr_assert_fail("no set %s", name);
  return NULL;
}

Test(slo, the_nine_limits_are_those_of_table_vi) {
  static const struct {
    const char *name;
    double quantile, limit;
  } rows[] = {
      {"ttft_p50", 0.50, 2},   {"ttft_p90", 0.90, 3},  {"ttft_p99", 0.99, 6},
      {"tbt_p50", 0.50, 1.25}, {"tbt_p90", 0.90, 1.5}, {"tbt_p99", 0.99, 5},
      {"e2e_p50", 0.50, 1.25}, {"e2e_p90", 0.90, 1.5}, {"e2e_p99", 0.99, 5},
  };
  const SloSet *set = find_set("splitwise");
  cr_assert_eq(set->n_specs, 9);
  for (int i = 0; i < 9; i++) {
    cr_expect_str_eq(set->specs[i].name, rows[i].name);
    cr_expect_eq(set->specs[i].quantile, rows[i].quantile, "%s", rows[i].name);
    cr_expect_eq(set->specs[i].limit, rows[i].limit, "%s", rows[i].name);
  }
}

Test(slo, each_measure_reads_its_own_histogram) {
  histogram_add(&metrics.slowdown_ttft, 1 * SLOWDOWN_SCALE, 1);
  histogram_add(&metrics.slowdown_tbt, 2 * SLOWDOWN_SCALE, 1);
  histogram_add(&metrics.slowdown_e2e, 3 * SLOWDOWN_SCALE, 1);
  metrics.requests = metrics.completed = 1;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++)
    cr_expect_float_eq(outcomes[i].slowdown, 1 + i / 3, 1e-9, "%s", outcomes[i].spec->name);
}

Test(slo, a_limit_that_is_reached_is_missed) {
  static const struct {
    double slowdown;
    bool met[3]; // ttft_p50, tbt_p50, tbt_p90
  } rows[] = {{1.2, {true, true, true}},
              {1.25, {true, false, true}},
              {1.5, {true, false, false}},
              {2, {false, false, false}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    metrics_init(&metrics, NULL, &arena);
    add(rows[i].slowdown, 10);
    SloOutcome outcomes[9];
    slo_eval(find_set("splitwise"), &metrics, outcomes);
    cr_expect_eq(outcomes[0].met, rows[i].met[0], "ttft_p50 at %g", rows[i].slowdown);
    cr_expect_eq(outcomes[3].met, rows[i].met[1], "tbt_p50 at %g", rows[i].slowdown);
    cr_expect_eq(outcomes[4].met, rows[i].met[2], "tbt_p90 at %g", rows[i].slowdown);
  }
}

/* Of 100 requests, the quantile q is at rank 99 q: P90 lies within the first 91. */
Test(slo, requests_that_never_finished_are_infinitely_slow) {
  add(1, 91);
  metrics.requests = 100;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++) {
    const bool finite = outcomes[i].spec->quantile <= 0.90;
    cr_expect_eq(outcomes[i].met, finite, "%s", outcomes[i].spec->name);
    cr_expect_eq(!isinf(outcomes[i].slowdown), finite, "%s", outcomes[i].spec->name);
  }
}

Test(slo, quantiles_are_those_of_the_histogram_when_all_finished) {
  for (int i = 1; i <= 1000; i++)
    add(i / 100.0, 1);
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++)
    cr_expect_eq(outcomes[i].slowdown,
                 histogram_quantile(&metrics.slowdown_ttft, outcomes[i].spec->quantile) /
                     SLOWDOWN_SCALE);
}

Test(slo, nothing_is_met_when_nothing_finished) {
  metrics.requests = 3;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++)
    cr_expect(!outcomes[i].met && isinf(outcomes[i].slowdown));
  slo_eval(find_set("none"), &metrics, NULL);
}
