/* Objectives: the limits of Splitwise Table VI, the strict test, and what requests that never
 * finished do to a quantile. How slowdowns are measured is pinned by the tests of the metrics. */
#include "base/rng.h"
#include "experiments/config/slo.h"
#include "tests/unit/testing.h"
#include <math.h>

static Metrics metrics;

static void begin(void) {
  setup();
  metrics_init(&metrics, &arena);
}

TestSuite(slo, .init = begin, .fini = teardown);

/* `count` requests with these slowdowns in all three measures. */
static void add(double slowdown, uint64_t count) {
  const int64_t value = llround(slowdown * SLOWDOWN_SCALE);
  histogram_add(&metrics.slowdown_ttft, value, count);
  histogram_add(&metrics.slowdown_tbt, value, count);
  histogram_add(&metrics.slowdown_e2e, value, count);
  metrics.asked.requests += count;
  metrics.asked.gaps += count;
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
      {"slowdown.ttft.p50", 0.50, 2},   {"slowdown.ttft.p90", 0.90, 3},
      {"slowdown.ttft.p99", 0.99, 6},   {"slowdown.tbt.p50", 0.50, 1.25},
      {"slowdown.tbt.p90", 0.90, 1.5},  {"slowdown.tbt.p99", 0.99, 5},
      {"slowdown.e2e.p50", 0.50, 1.25}, {"slowdown.e2e.p90", 0.90, 1.5},
      {"slowdown.e2e.p99", 0.99, 5},
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
  metrics.asked.requests = metrics.asked.gaps = metrics.completed = 1;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++)
    cr_expect_float_eq(outcomes[i].value, 1 + i / 3, 1e-9, "%s", outcomes[i].spec->name);
}

Test(slo, a_limit_that_is_reached_is_missed) {
  static const struct {
    double slowdown;
    bool met[3]; // slowdown.ttft.p50, tbt.p50, tbt.p90
  } rows[] = {{1.2, {true, true, true}},
              {1.25, {true, false, true}},
              {1.5, {true, false, false}},
              {2, {false, false, false}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    metrics_init(&metrics, &arena);
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
  metrics.asked.requests = 100;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++) {
    const bool finite = outcomes[i].spec->quantile <= 0.90;
    cr_expect_eq(outcomes[i].met, finite, "%s", outcomes[i].spec->name);
    cr_expect_eq(!isinf(outcomes[i].value), finite, "%s", outcomes[i].spec->name);
  }
}

Test(slo, quantiles_are_those_of_the_histogram_when_all_finished) {
  for (int i = 1; i <= 1000; i++)
    add(i / 100.0, 1);
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++)
    cr_expect_eq(outcomes[i].value,
                 histogram_quantile(&metrics.slowdown_ttft, outcomes[i].spec->quantile) /
                     SLOWDOWN_SCALE);
}

Test(slo, nothing_is_met_when_nothing_finished) {
  metrics.asked.requests = metrics.asked.gaps = 3;
  SloOutcome outcomes[9];
  slo_eval(find_set("splitwise"), &metrics, outcomes);
  for (int i = 0; i < 9; i++) {
    cr_expect(!outcomes[i].met && isnan(outcomes[i].value) && isnan(outcomes[i].margin));
    cr_expect_str_eq(outcomes[i].unmeasured, "no request was served");
  }
  slo_eval(find_set("none"), &metrics, NULL);
}

/* A limit in seconds, by the name that the configuration gives it. */
static SloSpec limit_on(const char *metric, const char *statistic, double limit) {
  SloSpec spec = {.name = statistic, .metric = slo_metric_find(metric, strlen(metric))};
  spec.limit = limit;
  cr_assert_not_null(spec.metric, "%s", metric);
  cr_assert(slo_parse_statistic(statistic, &spec.statistic, &spec.quantile), "%s", statistic);
  return spec;
}

static SloOutcome outcome_of(const SloSpec *spec) {
  const SloSet set = {"one", spec, 1};
  SloOutcome outcome;
  slo_eval(&set, &metrics, &outcome);
  return outcome;
}

Test(slo, limits_in_seconds_are_on_every_statistic) {
  for (int i = 1; i <= 4; i++)
    histogram_add(&metrics.ttft, i * TICKS_PER_SECOND, 1);
  metrics.asked.requests = metrics.completed = 4;
  static const struct {
    const char *statistic;
    double value;
  } rows[] = {{"mean", 2.5}, {"max", 4}, {"p50", 2.5}, {"p99.9", 3.997}, {"p25", 1.75}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const SloSpec met = limit_on("ttft", rows[i].statistic, 1.02 * rows[i].value);
    const SloOutcome outcome = outcome_of(&met);
    cr_expect_float_eq(outcome.value, rows[i].value, 0.005 * rows[i].value, "%s",
                       rows[i].statistic);
    cr_expect(outcome.met && outcome.margin > 0 && outcome.margin < 0.03);
    const SloSpec missed = limit_on("ttft", rows[i].statistic, 0.98 * rows[i].value);
    cr_expect(!outcome_of(&missed).met && outcome_of(&missed).margin < 0);
  }
}

Test(slo, what_is_no_statistic_is_refused) {
  static const char *const texts[] = {"", "p", "p0", "p100", "p-5", "p1e1", "p5x", "P50", "median"};
  SloStatistic statistic;
  double quantile;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    cr_expect_not(slo_parse_statistic(texts[i], &statistic, &quantile), "'%s'", texts[i]);
  cr_expect_null(slo_metric_find("ttf", 3));
  cr_expect_null(slo_metric_find("slowdown", 8));
}

/* Two of three requests of two gaps each; the third never comes. */
Test(slo, keys_in_the_words_of_other_tools_are_known) {
  static const struct {
    const char *key, *meant;
  } cases[] = {
      {"itl.p99", "tbt.p99"},
      {"ttft_p99", "ttft.p99"},
      {"p99_itl_ms", "tbt.p99"},
      {"median_e2el", "e2e.p50"},
      {"mean-tpot", "tpot.mean"},
      {"e2e_latency", "e2e.p99"},
      {"tensor_parallel_sze", NULL},
      {"p99", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *meant = slo_key_meant(cases[i].key, &arena);
    if (cases[i].meant)
      cr_expect_str_eq(meant ? meant : "NULL", cases[i].meant, "%s", cases[i].key);
    else
      cr_expect_null(meant, "%s", cases[i].key);
  }
}

Test(slo, each_limit_counts_what_is_missing_in_its_own_measure) {
  for (int i = 0; i < 3; i++)
    demand_add(&metrics.asked, 3);
  metrics.completed = 2;
  histogram_add(&metrics.tbt, TICKS_PER_SECOND, 4);
  histogram_add(&metrics.tpot, TICKS_PER_SECOND, 2);
  static const struct {
    const char *metric, *statistic;
    bool finite;
  } rows[] = {{"tbt", "p60", true},
              {"tbt", "p61", false},
              {"tpot", "p50", true},
              {"tpot", "p51", false},
              {"tbt", "mean", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const SloSpec spec = limit_on(rows[i].metric, rows[i].statistic, 2);
    cr_expect_eq(outcome_of(&spec).met, rows[i].finite, "%s.%s", rows[i].metric, rows[i].statistic);
  }
}

Test(slo, goodput_is_met_when_the_share_is_reached) {
  metrics.asked.requests = 20;
  metrics.completed = 20;
  const SloSpec spec = {.name = "goodput", .statistic = SLO_GOOD_SHARE, .limit = 0.95};
  metrics.good = 19;
  cr_expect(outcome_of(&spec).met);
  cr_expect_float_eq(outcome_of(&spec).margin, 0, 1e-12);
  metrics.good = 18;
  cr_expect_not(outcome_of(&spec).met);
  cr_expect_float_eq(outcome_of(&spec).value, 0.9, 1e-12);
}

/* Requests finish in a random order; from the first moment that a row counts as lost, no order of
 * the rest may save it, so it is missed in the end. A row that is missed with all limits far
 * exceeded is found long before. */
Test(slo, a_lost_row_is_missed_in_the_end) {
  Rng rng;
  rng_init(&rng, 7, "slo");
  int n_lost = 0, n_missed = 0;
  for (int round = 0; round < 300; round++) {
    metrics_init(&metrics, &arena);
    const uint64_t n = 1 + rng_below(&rng, 60);
    const SloSpec specs[] = {limit_on("ttft", "p50", 1 + rng_uniform(&rng)),
                             limit_on("ttft", "p90", 1 + rng_uniform(&rng)),
                             limit_on("ttft", "p99.9", 1.5 + rng_uniform(&rng)),
                             limit_on("ttft", "max", 1.9),
                             limit_on("ttft", "mean", 1.2 + 0.6 * rng_uniform(&rng)),
                             {.name = "goodput", .statistic = SLO_GOOD_SHARE, .limit = 0.7}};
    const SloSet set = {"all", specs, sizeof specs / sizeof *specs};
    const Demand asked = {.requests = n};
    const SloSpec *lost = NULL;
    uint64_t patience = 0;
    for (uint64_t i = 0; i < n; i++) {
      metrics.asked.requests++;
      if (rng_below(&rng, 20) == 0) {
        metrics.rejected++;
      } else {
        const double ttft = 0.5 + 2 * rng_uniform(&rng);
        histogram_add(&metrics.ttft, tick_from_seconds(ttft), 1);
        metrics.completed++;
        metrics.good += ttft < 2;
      }
      if (!lost) lost = slo_find_lost(&set, &metrics, &asked, NULL, &patience);
      cr_assert(lost || patience >= 1);
    }
    SloOutcome outcomes[6];
    slo_eval(&set, &metrics, outcomes);
    for (int i = 0; i < set.n_specs; i++) {
      n_missed += !outcomes[i].met;
      if (lost == outcomes[i].spec)
        cr_expect_not(outcomes[i].met, "round %d: %s", round, lost->name);
    }
    n_lost += lost != NULL;
  }
  cr_expect_gt(n_lost, 100);
  cr_expect_gt(n_missed, n_lost);
}

Test(slo, a_row_is_lost_as_soon_as_its_quantile_is) {
  const SloSpec spec = limit_on("ttft", "p90", 1);
  const SloSet set = {"one", &spec, 1};
  const Demand asked = {.requests = 101}; // rank 90 decides: ten may be slow
  uint64_t patience = 0;
  metrics.asked.requests = 101;
  for (int i = 1; i <= 11; i++) {
    histogram_add(&metrics.ttft, 2 * TICKS_PER_SECOND, 1);
    metrics.completed++;
    cr_expect_eq(slo_find_lost(&set, &metrics, &asked, NULL, &patience) != NULL, i == 11,
                 "after %d", i);
  }
}

/* What will be turned away is missing from the first request on. */
Test(slo, a_row_is_lost_by_what_will_be_turned_away) {
  const SloSpec p90 = limit_on("ttft", "p90", 1), mean = limit_on("ttft", "mean", 1);
  const SloSpec paced = limit_on("tpot", "p90", 1);
  const struct {
    const SloSpec *spec;
    uint64_t requests, paced;
    bool lost;
  } cases[] = {{&p90, 10, 10, false}, {&p90, 11, 0, true},    {&mean, 0, 0, false},
               {&mean, 1, 0, true},   {&paced, 50, 5, false}, {&paced, 50, 11, true}};
  metrics.asked.requests = metrics.asked.paced = 101;
  for (size_t i = 0; i < COUNT(cases); i++) {
    const Demand beyond = {.requests = cases[i].requests, .paced = cases[i].paced};
    const Demand asked = {.requests = 101, .paced = 101};
    const SloSet set = {"one", cases[i].spec, 1};
    uint64_t patience = 0;
    cr_expect_eq(slo_find_lost(&set, &metrics, &asked, &beyond, &patience) != NULL, cases[i].lost,
                 "case %zu", i);
  }
}

/* Every histogram can be limited under its own name. What only some requests have counts what was
 * observed: those without one are not missing, and nothing is lost before the end. */
Test(slo, every_histogram_has_a_name_and_some_are_of_what_was_observed) {
  for (int i = 0; i < METRICS_HISTOGRAMS; i++) {
    const char *name = metrics_histograms[i].name;
    cr_expect_eq(slo_metric_find(name, strlen(name)), &metrics_histograms[i], "%s", name);
  }
  demand_add(&metrics.asked, 3);
  demand_add(&metrics.asked, 3);
  metrics.completed = 1;
  histogram_add(&metrics.kv_transfer, 2 * TICKS_PER_SECOND, 1);
  histogram_add(&metrics.queue_token, 2 * TICKS_PER_SECOND, 1);
  const SloSpec moved = limit_on("kv_transfer", "max", 1),
                waited = limit_on("queue_token", "max", 1);
  const SloSet set = {"one", &moved, 1};
  uint64_t patience = 0;
  cr_expect_eq(outcome_of(&moved).value, 2);
  cr_expect(isinf(outcome_of(&waited).value));
  cr_expect_null(slo_find_lost(&set, &metrics, &metrics.asked, NULL, &patience));
}

static void expect_unmeasured(const SloSpec *spec, const char *why) {
  const SloOutcome outcome = outcome_of(spec);
  cr_assert_not_null(outcome.unmeasured, "%s is %g", spec->name, outcome.value);
  cr_expect_str_eq(outcome.unmeasured, why);
  cr_expect_str_eq(slo_status(&outcome), "not measured");
  cr_expect(!outcome.met && isnan(outcome.value) && isnan(outcome.margin), "%s", spec->name);
}

/* Whatever the limit: what has no value is not within it. */
Test(slo, what_nothing_was_measured_of_is_neither_met_nor_missed) {
  const SloSpec ttft = limit_on("ttft", "p99", 1e6), tpot = limit_on("tpot", "mean", 1e6),
                gaps = limit_on("tbt", "max", 1e6), second = limit_on("second_token", "p50", 1e6),
                session = limit_on("session", "p50", 1e6),
                moved = limit_on("kv_transfer", "max", 1e6),
                slowdown = limit_on("slowdown.ttft", "p50", 1e6),
                pace = limit_on("slowdown.tbt", "p50", 1e6);
  const SloSpec good = {.name = "goodput", .statistic = SLO_GOOD_SHARE, .limit = 1e-6};
  const SloSpec hours = {.name = "goodput.hours", .statistic = SLO_GOOD_HOURS, .limit = 1e-6};
  expect_unmeasured(&ttft, "no request came");
  expect_unmeasured(&good, "no request came");
  expect_unmeasured(&hours, "no request came");
  demand_add(&metrics.asked, 1);
  expect_unmeasured(&ttft, "no request was served");
  const SloOutcome none_good = outcome_of(&good);
  cr_expect(none_good.value == 0 && !none_good.unmeasured, "a share of one request is known");
  cr_expect_str_eq(slo_status(&none_good), "missed");
  histogram_add(&metrics.ttft, TICKS_PER_SECOND, 1);
  metrics.completed = 1;
  cr_expect(outcome_of(&ttft).met);
  expect_unmeasured(&tpot, "no output has two tokens");
  expect_unmeasured(&gaps, "no output has two tokens");
  expect_unmeasured(&second, "no output has two tokens");
  expect_unmeasured(&pace, "no output has two tokens");
  metrics.good_limits.tpot = TICKS_PER_SECOND;
  expect_unmeasured(&good, "no output has two tokens");
  metrics.good_limits.e2e = TICKS_PER_SECOND;
  cr_expect_null(outcome_of(&good).unmeasured, "its E2E is known");
  expect_unmeasured(&session, "no session began");
  expect_unmeasured(&moved, "no request had it");
  expect_unmeasured(&slowdown, "no request that was served had it");
}
