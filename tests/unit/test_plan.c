/* Plans: names of strangers as one word, questions as studies, and the front of cost and speed. */
#include "experiments/plan/plan.h"
#include "experiments/plan/quote.h"
#include "tests/unit/testing.h"
#include <limits.h>
#include <string.h>

TestSuite(plan, .init = setup, .fini = teardown);

Test(plan, quotes_for_a_shell) {
  cr_expect_str_eq(quote_shell("Qwen/Qwen3-32B", &arena), "Qwen/Qwen3-32B");
  cr_expect_str_eq(quote_shell("", &arena), "''");
  cr_expect_str_eq(quote_shell("$(a)'b", &arena), "'$(a)'\\''b'");
  cr_expect_str_eq(quote_shell("a\nb", &arena), "'a?b'");
}

Test(plan, quotes_for_yaml) {
  static const char *const texts[] = {"plain-1.x", "no",     "1e3", "~",  "a: b # c", "\"",
                                      "\\n\\",     "{x: y}", "- a", "*x", "é"};
  for (size_t i = 0; i < COUNT(texts); i++) {
    const char *text = arena_printf(&arena, "key: %s", quote_yaml(texts[i], &arena));
    const Node *root = yaml_parse("test", text, strlen(text), &arena, &diag);
    cr_assert_not_null(root, "%s", text);
    cr_expect_str_eq(node_find(root, "key")->text, texts[i]);
  }
  cr_expect_str_eq(quote_yaml("qwen3-32b", &arena), "qwen3-32b");
}

static const Question asked = {.model = "llama3.1-70b",
                               .gpu = "H100",
                               .weights = DTYPE_FP8,
                               .kv_cache = -1,
                               .rate = 2.5,
                               .isl = 1000,
                               .osl = 200,
                               .slo = " ttft.p99 < 2 s,tpot.p50<=50ms",
                               .split = SPLIT_BOTH,
                               .objective = -1,
                               .seeds = 2};

static bool has(const Plan *plan, const char *text) {
  return strstr(plan->text, text) != NULL;
}

Test(plan, writes_a_study) {
  Plan plan;
  cr_assert_eq(plan_make(&plan, &asked, &arena, &diag), 0);
  cr_expect_str_eq(plan.machine, "dgx-h100");
  cr_expect(!plan.roofline);
  cr_expect(has(&plan, "model: {name: llama3.1-70b, quantization: fp8}\n"));
  cr_expect(has(&plan, "slo: {ttft.p99: 2 s, tpot.p50: 50ms}\n"));
  cr_expect(has(&plan, "rate: 2.5 /s}\n  requests: 4000\n"), "40 beyond the 99th percentile");
  cr_expect(has(&plan, "    tp2:\n"), "with the engine's own number of tokens");
  cr_expect(has(&plan, "    tp2-batch-2048:\n"));
  cr_expect(has(&plan, "    split-tp2-tp4:\n"));
  cr_expect(has(&plan, "pools.prefill.count: 1..16\n"));
  cr_expect(has(&plan, "    split-tp1-tp2:\n"), "all powers of two that the weights fit into");
  // and it is one
  TrialBase base;
  Provision study;
  Node *root = yaml_parse("plan", plan.text, strlen(plan.text), &arena, &diag);
  cr_assert_eq(provision_load(&study, &base, "plan", root, NULL, NULL, &arena, &diag), 0);
  cr_expect_eq(study.n_designs, 4 + 4 + 7);
  cr_expect_eq(study.n_seeds, 2);
  trial_base_done(&base);
}

Test(plan, narrows_a_study) {
  Plan plan;
  Question narrow = asked;
  narrow.tensor_parallel = "4";
  narrow.split = SPLIT_NO;
  narrow.rate = 0;
  narrow.users = 100;
  narrow.slo = "e2e.p50<9s";
  cr_assert_eq(plan_make(&plan, &narrow, &arena, &diag), 0);
  cr_expect_eq(plan.n_shapes, 1);
  cr_expect(has(&plan, "closed_loop: {clients: 100, requests: 2000}\n"));
  cr_expect(has(&plan, "pools.serve.count: 1..100\n"));
  cr_expect(!has(&plan, "split-"));
}

Test(plan, limits_of_components_stand_by_their_names) {
  double quantile = 0;
  const char *text = plan_slo_limits(
      "chat:ttft.p99<1s, e2e.mean<9s,a:b:tpot.p90<=50ms,chat:e2e.p50<2s", &quantile, &arena, &diag);
  cr_expect_str_eq(text, "e2e.mean: 9s, components: {chat: {ttft.p99: 1s, e2e.p50: 2s}, "
                         "\"a:b\": {tpot.p90: 50ms}}");
  cr_expect_eq(quantile, 0.99);
}

static void refuses(const Question *question, const char *message) {
  Plan plan;
  diag.n_entries = 0;
  cr_assert_eq(plan_make(&plan, question, &arena, &diag), -1);
  cr_assert_gt(diag.n_entries, 0);
  cr_expect_not_null(strstr(diag.entries[0].message, message), "%s", diag.entries[0].message);
}

Test(plan, refuses_what_it_cannot_mean) {
  Question wrong = asked;
  wrong.gpu = "gh200";
  refuses(&wrong, "several machine types");
  wrong = asked;
  wrong.engine = "vlm";
  refuses(&wrong, "unknown engine 'vlm'");
  wrong = asked;
  wrong.tensor_parallel = "2,x";
  refuses(&wrong, "not a list of degrees");
  wrong = asked;
  wrong.slo = "ttft.p99<2s,";
  refuses(&wrong, "is not a limit");
  wrong = asked;
  wrong.trace = "a.csv";
  refuses(&wrong, "a trace has its own");
  wrong = asked;
  wrong.users = 3;
  refuses(&wrong, "either --rate");
  wrong = asked;
  wrong.gpu = "a10-x4";
  wrong.weights = -1;
  wrong.model = "llama3.1-405b";
  refuses(&wrong, "");
}

static const FrontPoint *first_met(const Front *front) {
  for (int i = 0; i < front->n; i++)
    if (front->points[i].best && front->points[i].met) return &front->points[i];
  cr_assert_fail("no point meets the limits");
  return NULL;
}

/* Two designs of which one has twice the machines: each answer is run at five loads, and the front
 * is what no other point is cheaper and faster than. */
Test(plan, finds_the_front) {
  Plan plan;
  Question small = asked;
  small.model = "llama3.1-8b";
  small.weights = -1;
  small.tensor_parallel = "1";
  small.split = SPLIT_NO;
  small.slo = "ttft.p50<9s";
  small.seeds = 1;
  cr_assert_eq(plan_make(&plan, &small, &arena, &diag), 0);
  TrialBase base;
  Provision study;
  DesignOutcome *outcomes;
  Front front;
  Node *root = yaml_parse("plan", plan.text, strlen(plan.text), &arena, &diag);
  cr_assert_eq(provision_load(&study, &base, "plan", root, NULL, NULL, &arena, &diag), 0);
  const ProvisionOptions how = {.jobs = 1};
  cr_assert_eq(provision_run(&study, &how, &outcomes, &arena, &diag), 0);
  cr_assert_eq(front_make(&front, &study, outcomes, INT_MAX, false, 2, &arena, &diag), 0);
  cr_assert_eq(front.n, 2 * 5);
  const FrontPoint *point = front_asked(&front, &outcomes[0]);
  cr_assert_not_null(point);
  const Takes *takes = &outcomes[0].answers[0].fleet.takes;
  cr_expect_float_eq(point->cost, takes->cost_per_hour / 3600 / point->tokens_per_s * 1e6, 1e-9);
  cr_expect_float_eq(point->gpus, 1, 0);
  int n_best = 0;
  for (int i = 0; i < front.n; i++) {
    n_best += front.points[i].best;
    for (int k = 0; k < front.n; k++)
      cr_expect(!front.points[i].best || front.points[k].saturated ||
                front.points[k].cost >= front.points[i].cost ||
                front.points[k].tokens_per_user <= front.points[i].tokens_per_user);
  }
  cr_expect_gt(n_best, 0);
  // Its beginning is found with fewer runs.
  Front beginning;
  cr_assert_eq(front_make(&beginning, &study, outcomes, 1, false, 2, &arena, &diag), 0);
  cr_expect_lt(beginning.n, front.n);
  cr_expect_not_null(front_asked(&beginning, &outcomes[1]));
  cr_expect_eq(first_met(&beginning)->cost, first_met(&front)->cost);
  cr_expect_eq(first_met(&beginning)->number, first_met(&front)->number);
  // What the search has simulated is what another simulation gives.
  Front again;
  cr_assert_eq(front_make(&again, &study, outcomes, INT_MAX, true, 2, &arena, &diag), 0);
  double parts = 0;
  for (int i = 0; i < front.n; i++) {
    const FrontPoint *one = &front.points[i], *other = &again.points[i];
    if (one->load != 1) continue;
    cr_expect(outcomes[0].answers[0].run.served.known);
    cr_expect_eq(one->parts[0], 0);
    for (Cause cause = 0; cause < CAUSES; cause++)
      parts += other->parts[cause];
    cr_expect_eq(one->number, other->number);
    cr_expect_eq(one->rate, other->rate);
    cr_expect_eq(one->gpus, other->gpus);
    cr_expect_eq(one->cost, other->cost);
    cr_expect_eq(one->joules, other->joules);
    cr_expect_eq(one->tokens_per_user, other->tokens_per_user);
    cr_expect_eq(one->tokens_per_s, other->tokens_per_s);
    cr_expect_eq(one->met, other->met);
    cr_expect_eq(one->saturated, other->saturated);
    cr_expect_eq(one->best, other->best);
  }
  cr_expect_gt(parts, 0);
  trial_base_done(&base);
}

/* --- Valleys of a day */

/* What a fleet of so many instances leaves, second by second. */
static double free_by_seconds(const RateProfile *day, int instances, int least, int from,
                              int lasts) {
  double peak = 0, sum = 0;
  for (int i = 0; i < day->n; i++)
    peak = fmax(peak, day->values[i]);
  for (int s = from; s < from + lasts; s++) {
    const double rate = day->values[s / (int)(day->step / TICKS_PER_SECOND) % day->n];
    int need = least;
    while (need < instances && need * peak < instances * rate * (1 - 1e-12))
      need++;
    sum += instances - need;
  }
  return sum;
}

Test(plan, valleys_are_what_each_second_leaves) {
  enum { STEPS = 12, STEP_S = 50, DAYS = 40 };
  Rng rng;
  rng_init(&rng, 5, "valleys");
  for (int i = 0; i < DAYS; i++) {
    double values[STEPS];
    for (int k = 0; k < STEPS; k++)
      values[k] = (double)rng_below(&rng, 100);
    values[rng_below(&rng, STEPS)] = 100;
    const RateProfile day = {.values = values, .n = STEPS, .step = STEP_S * TICKS_PER_SECOND};
    const int instances = 1 + (int)rng_below(&rng, 12);
    const int least = (int)rng_below(&rng, (uint64_t)instances + 1);
    const int from = (int)rng_below(&rng, STEPS * STEP_S);
    const int lasts = 1 + (int)rng_below(&rng, 2 * STEPS * STEP_S);
    Valleys valleys;
    valleys_make(&valleys, &day, instances, least, &arena);
    cr_expect_float_eq(valleys_free(&valleys, from, lasts),
                       free_by_seconds(&day, instances, least, from, lasts), 1e-6);
    const int best = valleys_best(&valleys, lasts);
    const double most = valleys_free(&valleys, best * STEP_S, lasts);
    for (int k = 0; k < STEPS; k++)
      cr_expect(valleys_free(&valleys, k * STEP_S, lasts) <= most * (1 + 1e-9));
    double lowest = INFINITY;
    for (int s = from; s < from + lasts; s++)
      lowest = fmin(lowest, values[s / STEP_S % STEPS]);
    cr_expect_eq(valleys_lowest(&day, from, lasts), lowest);
  }
}

/* Of a large fleet a whole day leaves 1 - mean / peak of the instance hours. */
Test(plan, valleys_of_a_large_fleet) {
  double values[24], sum = 0;
  for (int h = 0; h < 24; h++)
    sum += values[h] = 1 + 0.8 * sin(h * 2 * 3.14159265358979 / 24);
  const RateProfile day = {.values = values, .n = 24, .step = 3600 * TICKS_PER_SECOND};
  const double instances = 1e6, all = 24 * 3600 * instances;
  Valleys valleys;
  valleys_make(&valleys, &day, instances, 0, &arena);
  cr_expect_float_eq(valleys_free(&valleys, 5000, 24 * 3600.0) / all, 1 - sum / 24 / 1.8, 1e-6);
}
