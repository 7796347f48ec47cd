/* Studies: iso-power and iso-cost sizes, that ending runs early and the number of threads change
 * nothing that is said, what an answer carries, and that it is the one of a full map. */
#include "base/rng.h"
#include "experiments/provision/probe.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(provision, .init = setup_folder, .fini = teardown_folder);

/* SW-ISOP-CFG: 40 DGX-H100 in power 44 : 24.8 : 30.8 and cost 4.76 : 2.21, Splitwise §VI-B. */
Test(provision, a_budget_leaves_the_machines_of_the_paper) {
  static const struct {
    double budget, first, each_first, each;
    int64_t left;
  } rows[] = {
      {1760, 0, 44, 24.8, 70},     {1760, 55, 24.8, 24.8, 15},  {1760, 35, 44, 44, 5},
      {1760, 25, 44, 44, 15},      {1760, 35, 44, 24.8, 8},     {1760, 35, 44, 30.8, 7},
      {1760, 45, 24.8, 24.8, 25},  {1760, 25, 44, 24.8, 26},    {1760, 25, 44, 30.8, 21},
      {190.4, 0, 4.76, 2.21, 86},  {190.4, 51, 2.21, 2.21, 35}, {190.4, 25, 4.76, 4.76, 15},
      {190.4, 30, 4.76, 2.21, 21}, {190.4, 30, 4.76, 4.76, 10}, {1760, 33, 44, 30.8, 10},
      {40, 25, 1, 1, 15},          {190.4, 40, 4.76, 2.21, 0},  {100, 2, 60, 1, -20},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    cr_expect_eq(provision_fill(rows[i].budget, rows[i].first * rows[i].each_first, rows[i].each),
                 rows[i].left, "row %zu", i);
}

/* ---- Small studies ---- */

static void write_study(const char *slo, const char *block) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file,
          "model: llama2-70b\n"
          "max_model_len: none\n"
          "workload:\n"
          "  lengths: azure-conv-2023\n"
          "  arrivals: {process: poisson, rate: 8 /s}\n"
          "  duration: 20 s\n"
          "  seed: 1\n"
          "prices: {dgx-h100: 38 $/h}\n"
          "pools:\n"
          "  prefill: {role: prefill, machine: dgx-h100, count: 1}\n"
          "  decode: {role: decode, machine: dgx-h100, count: 1}\n"
          "slo: %s\n"
          "provision: %s\n",
          slo, block);
  cr_assert_eq(fclose(file), 0);
}

typedef struct Ran {
  Provision study;
  TrialBase base;
  DesignOutcome *outcomes;
} Ran;

static Ran *run_as(ProvisionOptions options) {
  Ran *ran = ARENA_NEW(&arena, Ran);
  const int status = provision_load(&ran->study, &ran->base, path, config_tree(path, &arena, &diag),
                                    NULL, NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  cr_assert_eq(provision_run(&ran->study, &options, &ran->outcomes, &arena, &diag), 0);
  trial_base_done(&ran->base);
  return ran;
}

static Ran *run(int jobs, bool early_stop) {
  return run_as((ProvisionOptions){.jobs = jobs, .no_early_stop = !early_stop});
}

static void expect_same(const Ran *a, const Ran *b) {
  for (int d = 0; d < a->study.n_designs; d++) {
    const DesignOutcome *one = &a->outcomes[d], *other = &b->outcomes[d];
    cr_expect_eq(one->n_simulations, other->n_simulations);
    cr_expect_eq(one->n_grid, other->n_grid);
    cr_expect_eq(one->monotone, other->monotone);
    cr_expect_eq(one->n_holds, other->n_holds);
    for (int s = 0; s < a->study.n_seeds; s++) {
      const Answer *x = &one->answers[s], *y = &other->answers[s];
      cr_expect_eq(x->found, y->found);
      cr_expect_eq(x->counts[0], y->counts[0]);
      cr_expect_eq(x->counts[1], y->counts[1]);
      cr_expect_eq(x->rate, y->rate);
      if (!x->found) continue;
      cr_expect_eq(x->margin, y->margin);
      cr_expect_str_eq(x->binds, y->binds);
    }
  }
}

static const char two_objectives[][400] = {
    "{objective: machines, seeds: 3, designs: {"
    "  split: {pools.prefill.count: 1..6, pools.decode.count: 1..6},"
    "  whole: {pools: {all: {machine: dgx-h100}}, pools.all.count: 1..8}}}",
    "{objective: throughput, constraint: {machines: 5}, tolerance: 1 /s, seeds: 2, designs: {"
    "  split: {pools.prefill.count: 1..4, pools.decode.count: 1..4},"
    "  fixed: {pools.prefill.count: 2, pools.decode.count: 3}}}",
};

Test(provision, threads_and_ending_early_change_no_answer) {
  for (int i = 0; i < 2; i++) {
    write_study("{name: splitwise, goodput: {share: 90%, ttft: 1 s}}", two_objectives[i]);
    const Ran *plain = run(1, false);
    const Ran *early = run(1, true);
    expect_same(plain, early);
    expect_same(early, run(3, true));
    int64_t stopped = 0;
    for (int d = 0; d < 2; d++) {
      cr_expect(early->outcomes[d].answers[0].found);
      cr_expect_eq(plain->outcomes[d].n_stopped, 0);
      stopped += early->outcomes[d].n_stopped;
    }
    cr_expect_gt(stopped, 3);
  }
}

/* Of four designs the best two are those of a search of all; what they give on other seeds and with
 * times moved is known, and of no other design. */
Test(provision, the_best_alone_are_the_best_of_all, .timeout = 120) {
  static const char designs[] =
      "objective: cost, seeds: 2, designs: {"
      "  split: {pools.prefill.count: 1..6, pools.decode.count: 1..6},"
      "  h100: {pools: {all: {machine: dgx-h100}}, pools.all.count: 1..8},"
      "  two: {pools: {all: {machine: dgx-h100, tensor_parallel_size: 2}}, pools.all.count: 1..16},"
      "  h200: {pools: {all: {machine: dgx-h200}}, pools.all.count: 1..8}}}";
  const char *slo = "{name: splitwise, goodput: {share: 90%, ttft: 1 s}}";
  const ProvisionOptions one = {.jobs = 1, .range = true}, three = {.jobs = 3, .range = true};
  write_study(slo, arena_printf(&arena, "{%s", designs));
  const Ran *all = run_as(one);
  write_study(slo, arena_printf(&arena, "{best: 2, %s", designs));
  const Ran *best = run_as(one);
  expect_same(best, run_as(three));
  int64_t n_all = 0, n_best = 0;
  for (int d = 0; d < 4; d++) {
    const DesignOutcome *whole = &all->outcomes[d], *part = &best->outcomes[d];
    int n_better = 0;
    n_all += whole->n_simulations + whole->n_moved_simulations;
    n_best += part->n_simulations + part->n_moved_simulations;
    for (int k = 0; k < 4; k++)
      n_better +=
          provision_is_better(&all->study, &all->outcomes[k].answers[0], &whole->answers[0]);
    cr_expect_eq(part->first_seed_alone, n_better >= 2);
    cr_expect_eq(part->ranged, n_better < 2);
    if (n_better >= 2) continue;
    cr_expect_eq(part->low_model, whole->low_model);
    cr_expect_eq(part->high_model, whole->high_model);
    for (int s = 0; s < 2; s++) {
      cr_expect_eq(part->answers[s].counts[0], whole->answers[s].counts[0]);
      cr_expect_eq(part->answers[s].counts[1], whole->answers[s].counts[1]);
      cr_expect_eq(part->answers[s].margin, whole->answers[s].margin);
    }
  }
  cr_expect_lt(2 * n_best, n_all + n_all / 2, "%d of %d", (int)n_best, (int)n_all);
}

/* A run by itself, ended early if it may be. */
static ProbeVerdict verdict_of(const Provision *study, int64_t prefill, int64_t decode,
                               bool early_stop, bool *ret_stopped) {
  ProbeRun probe = {.probe = {{prefill, decode}, 0}, .early_stop = early_stop};
  probe_run_load(&probe, study, &study->designs[0], 0, 0, NULL);
  cr_assert(!probe.failed);
  probe_run_simulate(&probe);
  probe_run_take(&probe, &arena);
  cr_assert(!probe.failed);
  probe_run_release(&probe);
  *ret_stopped = probe.stopped;
  return probe.verdict;
}

/* Limits of all kinds around what small clusters do. */
Test(provision, a_run_that_was_ended_early_would_have_failed) {
  Rng rng;
  rng_init(&rng, 11, "provision");
  int n_stopped = 0, n_held = 0;
  for (int round = 0; round < 60; round++) {
    const char *slo = arena_printf(
        &arena,
        "{ttft.p%d: %.3f s, tbt.p90: %.4f s, e2e.mean: %.2f s, tpot.max: %.3f s, "
        "slowdown: {e2e.p50: %.2f}, goodput: {share: %.2f, ttft: 300 ms, tpot: 80 ms}}",
        50 + (int)rng_below(&rng, 50), 0.1 + rng_uniform(&rng), 0.03 + 0.05 * rng_uniform(&rng),
        3 + 12 * rng_uniform(&rng), 0.1 + rng_uniform(&rng), 0.8 + rng_uniform(&rng),
        0.3 + 0.65 * rng_uniform(&rng));
    write_study(slo, "{objective: machines, designs: {a: {pools.prefill.count: 1..9, "
                     "pools.decode.count: 1..9}}}");
    Ran *ran = ARENA_NEW(&arena, Ran);
    cr_assert_eq(provision_load(&ran->study, &ran->base, path, config_tree(path, &arena, &diag),
                                NULL, NULL, &arena, &diag),
                 0, "%s", slo);
    const int64_t prefill = 1 + (int64_t)rng_below(&rng, 4),
                  decode = 1 + (int64_t)rng_below(&rng, 4);
    bool stopped = false, never = false;
    const ProbeVerdict early = verdict_of(&ran->study, prefill, decode, true, &stopped);
    cr_expect_eq(early, verdict_of(&ran->study, prefill, decode, false, &never), "%s", slo);
    cr_expect(!never && !(stopped && early == PROBE_HOLDS));
    n_stopped += stopped;
    n_held += early == PROBE_HOLDS;
    trial_base_done(&ran->base);
  }
  cr_expect_gt(n_stopped, 20);
  cr_expect_gt(n_held, 5);
}

Test(provision, the_answer_is_the_least_of_the_full_map) {
  write_study("splitwise", "{objective: machines, designs: {a: {pools.prefill.count: 1..5, "
                           "pools.decode.count: 1..5}}}");
  const Ran *ran = run(2, true);
  const Answer *answer = &ran->outcomes[0].answers[0];
  cr_assert(answer->found);
  int64_t least = INT64_MAX;
  for (int64_t prefill = 1; prefill <= 5; prefill++)
    for (int64_t decode = 1; decode <= 5; decode++) {
      bool stopped = false;
      Ran *again = ARENA_NEW(&arena, Ran);
      cr_assert_eq(provision_load(&again->study, &again->base, path,
                                  config_tree(path, &arena, &diag), NULL, NULL, &arena, &diag),
                   0);
      if (verdict_of(&again->study, prefill, decode, true, &stopped) == PROBE_HOLDS &&
          prefill + decode < least)
        least = prefill + decode;
      trial_base_done(&again->base);
    }
  cr_expect_eq(answer->counts[0] + answer->counts[1], least);
  cr_expect_eq(ran->outcomes[0].n_grid, 25);
  cr_expect_lt(ran->outcomes[0].n_simulations, 20);
  // What it costs follows from the price and the machine file: 38 $/h and 10.2 kW each.
  cr_expect_float_eq(answer->fleet.takes.cost_per_hour, 38.0 * (double)least, 1e-9);
  cr_expect_float_eq(answer->fleet.takes.power_kw, 10.2 * (double)least, 1e-9);
  cr_expect_eq(answer->fleet.n[ROLE_PREFILL], answer->counts[0]);
  cr_expect_eq(answer->fleet.n[ROLE_DECODE], answer->counts[1]);
  cr_expect(answer->margin > 0 && answer->margin < 1);
  cr_expect_eq(answer->n_slos, 9);
  cr_expect_not_null(answer->next_fails);
  for (int i = 0; i < answer->n_slos; i++)
    cr_expect(answer->slos[i].met && answer->slos[i].margin >= answer->margin);
}

Test(provision, seeds_give_a_range_that_holds_every_answer) {
  write_study("splitwise", two_objectives[1]);
  const Ran *ran = run(2, true);
  cr_assert_eq(ran->study.n_seeds, 2);
  for (int d = 0; d < 2; d++) {
    const DesignOutcome *outcome = &ran->outcomes[d];
    double sum = 0;
    for (int s = 0; s < 2; s++) {
      const double value = provision_value(&ran->study, &outcome->answers[s]);
      cr_expect(outcome->low <= value && value <= outcome->high);
      sum += value;
    }
    cr_expect_float_eq(outcome->mean, sum / 2, 1e-9);
    // Of two values: 12.706 · |a − b| / 2.
    const double t = 12.706204736174696; // of one degree of freedom: tan(0.475 pi)
    cr_expect_float_eq(outcome->half_width, t * (outcome->high - outcome->low) / 2, 1e-6);
    cr_expect(outcome->n_holds >= 1 && outcome->n_distinct >= 1);
  }
  // A split of five machines is at least as good as one of its splits.
  cr_expect_geq(ran->outcomes[0].answers[0].rate, ran->outcomes[1].answers[0].rate);
}

/* Designs are bound one by one: what is wrong with one is not made good by the next. */
Test(provision, every_design_must_be_in_order) {
  static const char *const designs[] = {
      "{good: {pools.prefill.count: 1..2}, bad: {pools.prefil.count: 1..2}}",
      "{bad: {pools.prefil.count: 1..2}, good: {pools.prefill.count: 1..2}}",
  };
  for (int i = 0; i < 2; i++) {
    Provision bad;
    TrialBase base;
    const int n = diag.n_entries;
    write_study("splitwise",
                arena_printf(&arena, "{objective: machines, designs: %s}", designs[i]));
    cr_expect_neq(provision_load(&bad, &base, path, config_tree(path, &arena, &diag), NULL, NULL,
                                 &arena, &diag),
                  0, "%s", designs[i]);
    cr_expect_gt(diag.n_entries, n);
    trial_base_done(&base);
  }
}

/* A database that cannot be read or written any more ends a study. */
Test(provision, a_broken_database_ends_it, .timeout = 60) {
  static const char *const breaks[] = {
      "ALTER TABLE run RENAME TO gone; CREATE TABLE run (id INTEGER)",
      "CREATE TRIGGER t BEFORE INSERT ON run BEGIN SELECT raise(ABORT, 'full'); END",
      "CREATE TRIGGER t BEFORE INSERT ON slo BEGIN SELECT raise(ABORT, 'full'); END"};
  const char *data = getenv("TANDEM_SOURCE_DIR");
  for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
    Results results;
    Provision study;
    TrialBase base;
    DesignOutcome *outcomes;
    const char *file = arena_printf(&arena, "%s/%zu.db", folder, i);
    write_study("splitwise", "{objective: machines, designs: {a: {pools.prefill.count: 1..3}}}");
    cr_assert_eq(provision_load(&study, &base, path, config_tree(path, &arena, &diag), NULL, NULL,
                                &arena, &diag),
                 0);
    cr_assert_eq(results_open(&results, file, data, &arena, &diag), 0);
    cr_assert_eq(results_execute(&results, breaks[i], "break", &diag), 0);
    const ProvisionOptions options = {.jobs = 2, .results = &results};
    const int n = diag.n_entries;
    cr_expect_eq(provision_run(&study, &options, &outcomes, &arena, &diag), -1, "%s", breaks[i]);
    cr_expect_gt(diag.n_entries, n);
    results_close(&results);
    trial_base_done(&base);
    unlink(file);
  }
}

/* Other replicates count on from the seed of the first design. */
Test(provision, seeds_are_those_of_the_first_design) {
  write_study("splitwise", "{objective: machines, designs: {"
                           "  a: {workload.seed: 7, pools.prefill.count: 1..2},"
                           "  b: {workload.seed: 9, pools.prefill.count: 1..2}}}");
  Provision both;
  TrialBase base;
  cr_assert_eq(provision_load(&both, &base, path, config_tree(path, &arena, &diag), NULL, NULL,
                              &arena, &diag),
               0);
  cr_expect_eq(both.seed, 7);
  trial_base_done(&base);
}

/* A budget counts the prices of the study, by machine type or by pool. */
Test(provision, prices_decide_what_a_budget_leaves) {
  write_study("splitwise",
              "{objective: throughput, constraint: {cost: 10 $/h}, tolerance: 1 /s,"
              " prices: {dgx-h100: {cost: 2 $/h, power: 44 kW}, decode: {cost: 3 $/h}},"
              " designs: {a: {pools.prefill.count: 2, pools.decode.count: 1..9}}}");
  const Ran *ran = run(1, true);
  const Answer *answer = &ran->outcomes[0].answers[0];
  cr_assert(answer->found);
  cr_expect_eq(answer->fleet.n[ROLE_PREFILL], 2);
  cr_expect_eq(answer->fleet.n[ROLE_DECODE], 2);
  cr_expect_float_eq(answer->fleet.takes.cost_per_hour, 10, 1e-9);
  cr_expect_float_eq(answer->fleet.takes.power_kw, 2 * 44 + 2 * 10.2, 1e-9);
}

/* Halves of a DGX, which is sold whole: three of them fill two machines, four no more. */
Test(provision, a_budget_buys_whole_machines_and_all_that_fit_on_them) {
  static const char *const pools[] = {"pools.prefill.tensor_parallel_size=4",
                                      "pools.decode.tensor_parallel_size=4", NULL};
  static const struct {
    const char *constraint, *sold;
    double instances, gpus, machines, cost; // 0: nothing fits
  } cases[] = {
      {"{cost: 75 $/h}", NULL, 2, 8, 1, 38},        {"{cost: 76 $/h}", NULL, 4, 16, 2, 76},
      {"{cost: 75 $/h}", "sold=gpu", 3, 12, 2, 57}, {"{machines: 2}", "sold=gpu", 4, 16, 2, 76},
      {"{gpus: 12}", NULL, 3, 12, 2, 76},           {"{instances: 5}", NULL, 5, 20, 3, 114},
      {"{power: 25 kW}", NULL, 4, 16, 2, 76},       {"{cost: 37 $/h}", NULL, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_study("{ttft.p50: 100 s}",
                arena_printf(&arena,
                             "{objective: throughput, constraint: %s, tolerance: 1 /s,"
                             " rates: {from: 1 /s, to: 2 /s},"
                             " designs: {a: {pools.decode.count: 1..9}}}",
                             cases[i].constraint));
    const char *const assignments[] = {pools[0], pools[1], cases[i].sold, NULL};
    const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
    Provision study;
    TrialBase base;
    DesignOutcome *outcomes;
    const ProvisionOptions options = {.jobs = 1};
    cr_assert_eq(provision_load(&study, &base, path, config_tree(path, &arena, &diag), &changes,
                                NULL, &arena, &diag),
                 0);
    cr_assert_eq(provision_run(&study, &options, &outcomes, &arena, &diag), 0);
    const Answer *answer = &outcomes[0].answers[0];
    trial_base_done(&base);
    cr_assert_eq(answer->found, cases[i].cost > 0, "case %zu", i);
    if (!answer->found) continue;
    cr_expect_eq(answer->fleet.takes.instances, cases[i].instances, "case %zu", i);
    cr_expect_eq(answer->fleet.takes.gpus, cases[i].gpus, "case %zu", i);
    cr_expect_eq(answer->fleet.takes.machines, cases[i].machines, "case %zu", i);
    cr_expect_float_eq(answer->fleet.takes.cost_per_hour, cases[i].cost, 1e-9, "case %zu", i);
    cr_expect_neq(answer->run.config_digest, 0);
    // Prompts of this workload are longer than its outputs.
    cr_expect_gt(answer->run.tokens_per_s, 2 * answer->run.output_tokens_per_s);
  }
}

/* ---- With times moved by what their model may be off ---- */

/* The first limit of `all` machines at a rate that the file states. */
static SloOutcome limit_of(int64_t machines, double error_shift) {
  Provision study;
  TrialBase base;
  cr_assert_eq(provision_load(&study, &base, path, config_tree(path, &arena, &diag), NULL, NULL,
                              &arena, &diag),
               0);
  ProbeRun probe = {.probe = {{machines, 0}, 0}};
  probe_run_load(&probe, &study, &study.designs[0], 0, error_shift, NULL);
  cr_assert(!probe.failed);
  probe_run_simulate(&probe);
  probe_run_take(&probe, &arena);
  probe_run_release(&probe);
  trial_base_done(&base);
  return probe.slos[0];
}

static int64_t least_that_holds(double error_shift) {
  int64_t machines = 1;
  while (machines < 9 && !limit_of(machines, error_shift).met)
    machines++;
  return machines;
}

/* A limit between what two machines give and what they give with longer times: two are the answer,
 * and not enough by what times may be off. */
Test(provision, an_answer_that_the_error_moves_is_a_range, .timeout = 120) {
  static const char block[] = "{objective: machines, designs: {whole: {"
                              "  pools: {all: {machine: dgx-h100}}, pools.all.count: 1..8}}}";
  write_study("{ttft.p90: 10 s}", block);
  const double is = limit_of(2, 0).value, longer = limit_of(2, 1).value;
  cr_assert_gt(longer, is);
  write_study(arena_printf(&arena, "{ttft.p90: %.9f s}", (is + longer) / 2), block);
  const int64_t low = least_that_holds(-1), high = least_that_holds(1);
  cr_assert_eq(least_that_holds(0), 2);
  cr_assert_gt(high, 2);
  for (int jobs = 1; jobs <= 3; jobs += 2) {
    const Ran *ran = run_as((ProvisionOptions){.jobs = jobs, .range = true});
    const DesignOutcome *outcome = &ran->outcomes[0];
    const Answer *answer = &outcome->answers[0];
    cr_expect_eq(answer->counts[0], 2);
    cr_expect(outcome->ranged && answer->run.measured && answer->run.perfmodel_error > 0);
    cr_expect_eq(outcome->low_model, (double)low);
    cr_expect_eq(outcome->high_model, (double)high);
    cr_expect_eq(outcome->moved[0].counts[0], low);
    cr_expect_eq(outcome->moved[1].counts[0], high);
    cr_expect(answer->moved_slos[0][0].met && !answer->moved_slos[1][0].met);
    cr_expect_eq(answer->moved_slos[1][0].value, longer);
    // What was searched anyway is counted apart, and is what it is without a range.
    const Ran *plain = run_as((ProvisionOptions){.jobs = 1});
    expect_same(plain, ran);
    cr_expect(!plain->outcomes[0].ranged && isnan(plain->outcomes[0].high_model));
    cr_expect_lt(outcome->n_moved_simulations, 8); // of 16
  }
}

/* Of a roofline nothing is known that times could be moved by. */
Test(provision, no_range_where_the_error_is_unknown) {
  write_study("{ttft.p90: 10 s}\nperfmodel: roofline",
              "{objective: machines, designs: {a: {pools.prefill.count: 1..2}}}");
  const DesignOutcome *outcome = run_as((ProvisionOptions){.jobs = 1, .range = true})->outcomes;
  cr_expect(outcome->answers[0].found && !outcome->ranged && !outcome->answers[0].run.measured);
  cr_expect_eq(outcome->n_moved_simulations, 0);
  cr_expect_null(outcome->answers[0].moved_slos[0]);
}

/* Work that is all there takes so much longer as its iterations do. */
Test(provision, a_throughput_moves_with_the_times) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs("model: llama2-70b\n"
        "max_model_len: none\n"
        "workload:\n"
        "  lengths: azure-conv-2023\n"
        "  arrivals: {process: at_once}\n"
        "  requests: 200\n"
        "pools: {all: {role: mixed, machine: dgx-h100, count: 1}}\n"
        "slo: none\n"
        "provision: {objective: throughput, designs: {a: {pools.all.count: [1, 2]}}}\n",
        file);
  cr_assert_eq(fclose(file), 0);
  const DesignOutcome *outcome = run_as((ProvisionOptions){.jobs = 2, .range = true})->outcomes;
  const Answer *answer = &outcome->answers[0];
  const double error = answer->run.perfmodel_error;
  cr_assert(outcome->ranged && error > 0);
  cr_expect_eq(outcome->n_simulations, 2);
  cr_expect_eq(outcome->n_moved_simulations, 2);
  cr_expect_float_eq(outcome->low_model * (1 + error), answer->rate, 1e-6 * answer->rate);
  cr_expect_float_eq(outcome->high_model * (1 - error), answer->rate, 1e-6 * answer->rate);
}
