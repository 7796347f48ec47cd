/* Reading a study: the rates that are searched, what machines take at the prices that are given,
 * which designs have clusters in common, ranges of counts, and budgets. */
#include "experiments/provision/provision.h"
#include "tests/unit/testing.h"
#include <math.h>
#include <stdio.h>

TestSuite(provision_load, .init = setup_folder, .fini = teardown_folder);

#define EIGHT "{lengths: azure-conv-2023, arrivals: {process: poisson, rate: 8 /s}, duration: 20 s}"

static int load(Provision *study, const char *workload, const char *block) {
  TrialBase base;
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file,
          "model: llama2-70b\nworkload: %s\nslo: splitwise\n"
          "prices: {dgx-h100: 38 $/h}\npools:\n"
          "  p: {role: prefill, machine: dgx-h100, count: 1}\n"
          "  d: {role: decode, machine: dgx-h100, count: 1}\n"
          "provision: {%s}\n",
          workload, block);
  cr_assert_eq(fclose(file), 0);
  const int status = provision_load(study, &base, path, config_tree(path, &arena, &diag), NULL,
                                    NULL, &arena, &diag);
  trial_base_done(&base);
  return status;
}

static void expect_refused(const char *block, const char *words) {
  Provision study;
  const int n = diag.n_entries;
  cr_expect_eq(load(&study, EIGHT, block), -1, "%s", block);
  bool said = false;
  for (int i = n; i < diag.n_entries; i++)
    said |= strstr(diag.entries[i].message, words) != NULL;
  cr_expect(said, "%s: '%s'", block, diag.n_entries > n ? diag.entries[n].message : "nothing");
}

Test(provision_load, the_rates_between_which_the_largest_is_looked_for) {
  const char *sample =
      arena_printf(&arena, "%s/traces/sample/azure_sample.csv", getenv("TANDEM_SOURCE_DIR"));
  const char *trace = arena_printf(&arena, "{trace: %s}", sample);
  const char *scaled = arena_printf(&arena, "{trace: %s, rate: 3 /s}", sample);
  const struct {
    const char *workload, *block, *key;
    double base, tolerance, from, to;
  } cases[] = {
      {EIGHT, "", "workload.arrivals.rate", 8, 0.2, 0.2, 512},
      {EIGHT, ", tolerance: 1 /s", "workload.arrivals.rate", 8, 1, 1, 512},
      {EIGHT, ", rates: {from: 0.5 /s}", "workload.arrivals.rate", 8, 0.2, 0.5, 512},
      {EIGHT, ", rates: {to: 0.5 /s}", "workload.arrivals.rate", 8, 0.2, 0.2, 0.5},
      {EIGHT, ", tolerance: 3 /s, rates: {from: 3 /s, to: 3 /s}", "workload.arrivals.rate", 8, 3, 3,
       3},
      {scaled, "", "workload.rate", 3, 0.1, 0.1, 192},
      {trace, ", tolerance: 0.5 /s", "workload.rate", 10, 0.5, 0.5, 640},
      {trace, ", rates: {to: 0.8 /s}", "workload.rate", 0.4, 0.02, 0.02, 0.8},
      {trace, ", tolerance: 0.5 /s, rates: {to: 8 /s}", "workload.rate", 4, 0.5, 0.5, 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Provision study;
    const char *block =
        arena_printf(&arena, "objective: throughput, designs: {a: {seed: 3}}%s", cases[i].block);
    cr_assert_eq(load(&study, cases[i].workload, block), 0, "case %zu: %s", i,
                 diag.n_entries ? diag.entries[0].message : "");
    cr_expect_str_eq(study.rate_key, cases[i].key);
    cr_expect_float_eq(study.base_rate, cases[i].base, 1e-12, "case %zu", i);
    cr_expect_float_eq(study.tolerance, cases[i].tolerance, 1e-12, "case %zu: %g", i,
                       study.tolerance);
    cr_expect_float_eq(study.rate_from, cases[i].from, 1e-12, "case %zu", i);
    cr_expect_float_eq(study.rate_to, cases[i].to, 1e-9, "case %zu: %g", i, study.rate_to);
    cr_expect_eq(study.replays, strcmp(cases[i].key, "workload.rate") == 0);
  }
}

/* A tolerance is 1, 2 or 5 times a power of ten, at most a twentieth of the rate. */
Test(provision_load, tolerances_are_round) {
  static const double rates[][2] = {{20, 1},  {39, 1},   {40, 2},   {99, 2},   {100, 5},
                                    {199, 5}, {200, 10}, {19, 0.5}, {1, 0.05}, {0.39, 0.01}};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    Provision study;
    const char *workload = arena_printf(
        &arena, "{lengths: azure-conv-2023, arrivals: {rate: %g /s}, duration: 20 s}", rates[i][0]);
    cr_assert_eq(load(&study, workload, "objective: throughput, designs: {a: {seed: 3}}"), 0);
    cr_expect_float_eq(study.tolerance, rates[i][1], 1e-9, "%g: %g", rates[i][0], study.tolerance);
  }
}

/* Prices of a pool go before those of its machine type, and those before the machine's file. */
Test(provision_load, machines_take_what_prices_say) {
  static const struct {
    const char *prices;
    double cost, power, fixed_cost, fixed_power; // of the searched pool and of the other
  } cases[] = {
      {"{}", 38, 10.2, 38, 10.2},
      {"{dgx-h100: {cost: 0.5 $/h}}", 0.5, 10.2, 0.5, 10.2},
      {"{dgx-h100: {power: 0.5 W}}", 38, 0.0005, 38, 0.0005},
      {"{d: {power: 2 kW}, dgx-h100: {cost: 0.5 $/h}}", 0.5, 10.2, 38, 2},
      {"{dgx-h100: {cost: 0.5 $/h}, d: {cost: 0.25 $/h}}", 0.5, 10.2, 0.25, 10.2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Provision study;
    const char *block =
        arena_printf(&arena, "objective: cost, prices: %s, designs: {a: {pools.p.count: 1..3}}",
                     cases[i].prices);
    cr_assert_eq(load(&study, EIGHT, block), 0, "case %zu", i);
    const Design *design = &study.designs[0];
    cr_expect_eq(design->each[0].machines, 1);
    cr_expect_float_eq(design->each[0].cost_per_hour, cases[i].cost, 1e-12, "case %zu", i);
    cr_expect_float_eq(design->each[0].power_kw, cases[i].power, 1e-12, "case %zu", i);
    cr_expect_eq(design->fixed.takes.machines, 1);
    cr_expect_float_eq(design->fixed.takes.cost_per_hour, cases[i].fixed_cost, 1e-12);
    cr_expect_float_eq(design->fixed.takes.power_kw, cases[i].fixed_power, 1e-12);
    cr_expect(design->fixed.n[ROLE_DECODE] == 1 && design->fixed.n[ROLE_PREFILL] == 0);
    cr_expect_eq(design->roles[0], ROLE_PREFILL);
  }
  expect_refused("objective: cost, prices: {dgx-a100: {cost: 1 $/h}}, designs: {a: {seed: 3}}",
                 "'dgx-a100' is neither a pool nor a machine type");
  expect_refused("objective: cost, prices: [1], designs: {a: {seed: 3}}",
                 "must be a map of machine");
}

Test(provision_load, designs_may_not_have_clusters_in_common) {
  static const struct {
    const char *a, *b;
    bool overlap;
  } cases[] = {
      {"{pools.p.count: 1..3}", "{pools.p.count: 3..4}", true},
      {"{pools.p.count: 3..4}", "{pools.p.count: 1..3}", true},
      {"{pools.p.count: 1..3}", "{pools.p.count: 4..5}", false},
      {"{pools.p.count: 4..5}", "{pools.p.count: 1..3}", false},
      {"{pools.p.count: 1..3}", "{pools.d.count: 1..3}", false},
      {"{pools.p.count: 1..3, seed: 3}", "{pools.p.count: 2..4, seed: 3}", true},
      {"{pools.p.count: 1..3, seed: 3}", "{pools.p.count: 2..4, seed: 4}", false},
      {"{pools.p.count: 1..3, seed: 3}", "{pools.p.count: 2..4}", false},
      {"{seed: 3, workload.seed: 5, pools.p.count: 1..3}",
       "{workload.seed: 5, seed: 3, pools.p.count: 2..4}", true},
      {"{seed: 3, workload.seed: 5, pools.p.count: 1..3}",
       "{workload.seed: 6, seed: 3, pools.p.count: 2..4}", false},
      {"{pools.p.count: 1..3, pools.d.count: 1..3}", "{pools.d.count: 3..4, pools.p.count: 3..4}",
       true},
      {"{pools.p.count: 1..3, pools.d.count: 1..3}", "{pools.d.count: 4..5, pools.p.count: 3..4}",
       false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Provision study;
    const char *block = arena_printf(&arena, "objective: machines, designs: {one: %s, other: %s}",
                                     cases[i].a, cases[i].b);
    if (cases[i].overlap)
      expect_refused(block, "designs 'one' and 'other' have clusters in common");
    else
      cr_expect_eq(load(&study, EIGHT, block), 0, "case %zu: %s", i,
                   diag.n_entries ? diag.entries[diag.n_entries - 1].message : "");
  }
}

Test(provision_load, ranges_of_counts) {
  static const struct {
    const char *range;
    int64_t low, high;
  } good[] = {{"1..1", 1, 1}, {"1..1000000", 1, 1000000}, {"1000000..1000000", 1000000, 1000000}};
  static const char *const bad[] = {"0..3", "4..3", "1..1000001", "..3", "1..", "1..3x", "a..3"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    Provision study;
    const char *block = arena_printf(
        &arena, "objective: machines, designs: {a: {pools.p.count: %s}}", good[i].range);
    cr_assert_eq(load(&study, EIGHT, block), 0, "%s", good[i].range);
    cr_expect_eq(study.designs[0].counts[0].low, good[i].low);
    cr_expect_eq(study.designs[0].counts[0].high, good[i].high);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    expect_refused(
        arena_printf(&arena, "objective: machines, designs: {a: {pools.p.count: %s}}", bad[i]),
        "must be a range of instances such as '1..40'");
}

Test(provision_load, a_budget_goes_with_throughput_and_a_rate_with_what_holds_it) {
  static const struct {
    const char *constraint;
    Objective of;
    double budget;
  } budgets[] = {{"{power: 500 W}", OBJECTIVE_POWER, 0.5},
                 {"{cost: 0.5 $/h}", OBJECTIVE_COST, 0.5},
                 {"{machines: 1}", OBJECTIVE_MACHINES, 1}};
  Provision study;
  for (int i = 0; i < 3; i++) {
    const char *block =
        arena_printf(&arena, "objective: throughput, constraint: %s, designs: {a: {seed: 3}}",
                     budgets[i].constraint);
    cr_assert_eq(load(&study, EIGHT, block), 0, "%s", budgets[i].constraint);
    cr_expect_eq(study.budget_of, budgets[i].of);
    cr_expect_float_eq(study.budget, budgets[i].budget, 1e-12);
    if (budgets[i].of != OBJECTIVE_POWER)
      expect_refused(arena_printf(&arena,
                                  "objective: cost, constraint: %s, designs: {a: {seed: 3}}",
                                  budgets[i].constraint),
                     "is a budget for the objective 'throughput', not for 'cost'");
  }
  // but power limits whatever is least
  cr_assert_eq(
      load(&study, EIGHT, "objective: cost, constraint: {power: 5 kW}, designs: {a: {seed: 3}}"),
      0);
  cr_expect(study.budget_of == OBJECTIVE_POWER && study.budget == 5);
  cr_expect(!provision_exceeds(&study, &(Takes){.power_kw = 5}));
  cr_expect(provision_exceeds(&study, &(Takes){.power_kw = 5.1}));
  cr_expect(provision_exceeds(&study, &(Takes){.power_kw = NAN}), "not known to be within it");
  cr_assert_eq(
      load(&study, EIGHT, "objective: cost, constraint: {rate: 0.5 /s}, designs: {a: {seed: 3}}"),
      0);
  cr_expect_eq(study.rate, 0.5);
  cr_expect_eq(study.budget_of, OBJECTIVE_THROUGHPUT);
  expect_refused("objective: throughput, constraint: {rate: 0.5 /s}, designs: {a: {seed: 3}}",
                 "'rate' cannot be used with the objective 'throughput'");
  expect_refused("objective: throughput, constraint: {power: 1 kW, cost: 1 $/h}, "
                 "designs: {a: {seed: 3}}",
                 "has 2 budgets, but at most one is allowed");
  expect_refused("objective: throughput, tolerance: 3 /s, rates: {from: 4 /s, to: 5 /s}, "
                 "designs: {a: {seed: 3}}",
                 "there is no multiple of 'tolerance' between");
  expect_refused("objective: throughput, designs: {a: {pools.p.count: 1..3}}",
                 "nothing limits the number of instances in design 'a'");
  expect_refused("objective: machines, designs: {a: {seed: 3}, b: {seed: 3}}",
                 "designs 'a' and 'b' are the same");
}
