/* Offline studies: the degrees that share a number of GPUs, which of them can be had and what they
 * take, and that the answer is the best of the runs that one would make by hand. */
#include "experiments/provision/design.h"
#include "experiments/provision/measure.h"
#include "perfmodel/hardware.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(provision_choices, .init = setup_folder, .fini = teardown_folder);

/* ---- The axis ---- */

static Node *parse(const char *text) {
  Node *root = yaml_parse("test", text, strlen(text), &arena, &diag);
  cr_assert_not_null(root, "%s", text);
  return root;
}

static const char two_pools[] =
    "{pools: {a: {machine: x}, b: {machine: x}}, groups: {g: {prefill: a, decode: b}}}";
static const char two_machines[] = "{pools: {a: {machine: x}, b: {machine: x}}}";

/* Ordered factorizations into three: (k+1)(k+2)/2 of a prime to the k, times that of the others.
 * Of a pair, for each data degree the square of the divisors of what it leaves. */
Test(provision_choices, all_degrees_are_there_once) {
  static const struct {
    const char *root, *block;
    int64_t gpus;
    int choices;
  } rows[] = {
      {two_machines, "{gpus: 1, pools: [a]}", 1, 1},
      {two_machines, "{gpus: 8, pools: [a]}", 8, 10},
      {two_machines, "{gpus: 7, pools: [b]}", 7, 3},
      {two_machines, "{gpus: 12, pools: [a]}", 12, 6 * 3},
      {two_machines, "{gpus: 4, pools: [a, b]}", 4, 36},
      {two_machines, "{gpus: 4}", 4, 36},
      {two_pools, "{gpus: 4, pools: [a, b]}", 4, 9 + 4 + 1},
      {two_pools, "{gpus: 8}", 8, 16 + 9 + 4 + 1},
      {two_pools, "{gpus: 8, pools: [b, a]}", 8, 16 + 9 + 4 + 1},
      {two_pools, "{gpus: 8, pools: [b]}", 8, 10},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const Node *block = parse(arena_printf(&arena, "{parallelism: %s}", rows[i].block))->first;
    Node *axes = parse("{x: y}");
    node_take(axes, "x");
    cr_assert_eq(parallelism_add_axis(axes, block, parse(rows[i].root), &arena, &diag), 0);
    Sweep sweep;
    cr_assert_eq(sweep_bind(&sweep, axes, &arena, &diag), 0, "row %zu", i);
    cr_expect_eq(sweep.n_points, rows[i].choices, "row %zu: %d", i, (int)sweep.n_points);
    for (int64_t p = 0; p < sweep.n_points; p++) {
      const Choice *choice = sweep_choice(&sweep, p, 0);
      const char *data[2] = {NULL};
      for (int k = 0; k < choice->n_settings; k += 3) {
        int64_t product = 1;
        for (int d = 0; d < 3; d++)
          product *= atoll(choice->settings[k + d].value->text);
        cr_expect_eq(product, rows[i].gpus, "row %zu", i);
        data[k / 3] = choice->settings[k + 2].value->text;
        cr_expect(strstr(choice->settings[k + 2].key, ".data_parallel_size"));
      }
      if (rows[i].root == two_pools && data[1])
        cr_expect_str_eq(data[0], data[1], "row %zu, %s", i, choice->label);
    }
  }
}

Test(provision_choices, labels_name_the_degrees_above_one) {
  const Node *block = parse("{parallelism: {gpus: 4, pools: [a, b]}}")->first;
  Node *axes = parse("{x: y}");
  cr_assert_eq(parallelism_add_axis(axes, block, parse(two_pools), &arena, &diag), 0);
  static const char *const wanted[] = {
      "PP4/PP4",       "PP4/TP2PP2",    "PP4/TP4",       "TP2PP2/PP4", "TP2PP2/TP2PP2",
      "TP2PP2/TP4",    "TP4/PP4",       "TP4/TP2PP2",    "TP4/TP4",    "PP2DP2/PP2DP2",
      "PP2DP2/TP2DP2", "TP2DP2/PP2DP2", "TP2DP2/TP2DP2", "DP4/DP4"};
  size_t i = 0;
  for (const Node *shape = node_find(axes, "parallelism")->first; shape; shape = shape->next, i++)
    cr_expect_str_eq(shape->key, wanted[i]);
  cr_expect_eq(i, sizeof wanted / sizeof *wanted);
}

Test(provision_choices, what_cannot_be_meant_is_refused) {
  static const struct {
    const char *block, *message;
  } rows[] = {
      {"{pools: [a]}", "missing key 'gpus'"},
      {"{gpus: 0}", "'gpus'"},
      {"{gpus: 8, pools: [c]}", "there is no pool 'c'"},
      {"{gpus: 8, pools: [a, a]}", "pool 'a' is listed twice"},
      {"{gpus: 8, pools: a}", "'pools' must be a list of names of pools"},
      {"{gpus: 8, pools: []}", "'pools' must be a list of names of pools"},
      {"{gpus: 8, pools: [{a: b}]}", "'pools' must be a list of names of pools"},
      {"{gpus: 720, pools: [a, b]}", "more than 10000 shapes"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Diag own;
    diag_init(&own);
    const Node *block = parse(arena_printf(&arena, "{parallelism: %s}", rows[i].block))->first;
    cr_expect_eq(parallelism_add_axis(parse("{x: y}"), block, parse(two_machines), &arena, &own),
                 -1, "row %zu", i);
    cr_assert_gt(own.n_entries, 0);
    cr_expect(strstr(own.entries[0].message, rows[i].message), "row %zu: %s", i,
              own.entries[0].message);
    diag_done(&own);
  }
}

/* ---- Small studies ---- */

static void write_study(const char *keys, const char *designs) {
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fprintf(file,
          "model: llama2-70b\n"
          "workload:\n"
          "  lengths: {prompt: {constant: 900}, output: {constant: 60}}\n"
          "  arrivals: {process: at_once}\n"
          "  requests: 80\n"
          "prices: {dgx-h100: 38 $/h}\n"
          "pools:\n"
          "  all: {role: mixed, machine: dgx-h100}\n"
          "policies:\n"
          "  batcher: {name: mixed, max_num_batched_tokens: 2048}\n"
          "perfmodel: roofline\n"
          "slo: none\n"
          "provision: {objective: throughput, %s designs: {%s}}\n",
          keys, designs);
  cr_assert_eq(fclose(file), 0);
}

static const char whole[] =
    "whole: {parallelism: {gpus: 8}, policies.batcher.max_num_batched_tokens: [1024, 4096]}";
static const char shapes[] =
    "shapes: {pools: {p: {role: prefill, machine: dgx-h100}, d: {role: decode, machine: dgx-h100}},"
    "  groups: {g: {prefill: p, decode: d}}, policies.pool: seesaw, policies.batcher.name: "
    "continuous, parallelism: {gpus: 4, pools: [p, d]}}";

typedef struct Ran {
  Provision study;
  TrialBase base;
  DesignOutcome *outcomes;
} Ran;

static Ran *run(int jobs) {
  Ran *ran = ARENA_NEW(&arena, Ran);
  const int status = provision_load(&ran->study, &ran->base, path, config_tree(path, &arena, &diag),
                                    NULL, NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  const ProvisionOptions options = {.jobs = jobs};
  cr_assert_eq(provision_run(&ran->study, &options, &ran->outcomes, &arena, &diag), 0);
  trial_base_done(&ran->base);
  return ran;
}

static const ChoiceFit *fit_named(const Design *design, const char *label) {
  for (int64_t i = 0; i < design->choices.n_points; i++)
    if (strcmp(design->fits[i].label, label) == 0) return &design->fits[i];
  cr_assert(false, "no choice '%s'", label);
  return NULL;
}

/* One run with these settings, as `tandem run --set` makes it. */
static double throughput_of(const char *const *assignments, double *ret_tokens) {
  const ConfigChanges changes = {.assignments = assignments, .seed = -1, .tie_seed = -1};
  TrialBase base;
  Trial trial;
  cr_assert_eq(trial_base_init(&base, path, &changes, &arena, &diag), 0);
  node_take(base.root, "provision");
  trial_init(&trial);
  const int status = trial_load(&trial, &base, NULL) || trial_run(&trial);
  diag_print(&trial.diag, stderr);
  cr_assert_eq(status, 0);
  const double throughput = report_value(&trial.report, "throughput_rps");
  *ret_tokens = report_value(&trial.report, "output_tokens_per_s");
  trial_done(&trial);
  trial_base_done(&base);
  return throughput;
}

Test(provision_choices, the_answer_is_the_best_run_of_all) {
  write_study("", whole);
  const Ran *ran = run(2);
  const DesignOutcome *outcome = &ran->outcomes[0];
  double best = 0, best_tokens = 0;
  int n_fit = 0;
  for (int64_t i = 0; i < 20; i++) {
    double degrees[3], tokens, budget;
    static const char *const keys[] = {"pools.all.tensor_parallel_size",
                                       "pools.all.pipeline_parallel_size",
                                       "pools.all.data_parallel_size"};
    const char *assignments[5] = {NULL};
    for (int k = 0; k < 3; k++) {
      cr_assert(choice_number(outcome->design, i, keys[k], &degrees[k]));
      assignments[k] = arena_printf(&arena, "%s=%g", keys[k], degrees[k]);
    }
    cr_assert(
        choice_number(outcome->design, i, "policies.batcher.max_num_batched_tokens", &budget));
    assignments[3] = arena_printf(&arena, "policies.batcher.max_num_batched_tokens=%g", budget);
    const Measurement *one = outcome_measurement(outcome, 0, i);
    // 138 GB of weights: one H100 of 80 GB cannot hold them, two can.
    const bool fits = degrees[0] * degrees[1] > 1;
    cr_expect_eq(one->why_not == NULL, fits, "%s", outcome->design->fits[i].label);
    if (!fits) {
      cr_expect(strstr(one->why_not, "does not fit"), "%s", one->why_not);
      cr_expect(isnan(one->throughput_rps) && one->run.config_digest == 0);
      continue;
    }
    n_fit++;
    const double throughput = throughput_of(assignments, &tokens);
    cr_expect_eq(one->throughput_rps, throughput);
    cr_expect_eq(one->run.output_tokens_per_s, tokens);
    if (throughput > best) best_tokens = tokens;
    best = fmax(best, throughput);
  }
  cr_expect_eq(outcome->n_simulations, n_fit);
  cr_expect_eq(outcome->n_grid, 20);
  cr_assert(outcome->answers[0].found);
  cr_expect_eq(outcome->answers[0].rate, best);
  cr_expect_eq(outcome->answers[0].run.output_tokens_per_s, best_tokens);
  int64_t n_ranked = 0;
  const int64_t *order = outcome_rank(outcome, 0, &n_ranked, &arena);
  cr_expect_eq(n_ranked, n_fit);
  cr_expect_eq(order[0], outcome->answers[0].choice);
  for (int64_t i = 1; i < n_ranked; i++)
    cr_expect_leq(outcome_measurement(outcome, 0, order[i])->throughput_rps,
                  outcome_measurement(outcome, 0, order[i - 1])->throughput_rps);
}

Test(provision_choices, threads_change_nothing_and_seeds_give_a_range) {
  write_study("seeds: 3,", arena_printf(&arena, "%s, %s", whole, shapes));
  const Ran *one = run(1), *other = run(5);
  for (int d = 0; d < 2; d++) {
    const DesignOutcome *a = &one->outcomes[d], *b = &other->outcomes[d];
    cr_expect_eq(a->n_found, 3);
    cr_expect_eq(a->mean, b->mean);
    const double ulps = 1e-15 * a->high; // the mean of three equal rates may miss them
    cr_expect(a->low - ulps <= a->mean && a->mean <= a->high + ulps);
    for (int s = 0; s < 3; s++) {
      cr_expect_eq(a->answers[s].choice, b->answers[s].choice);
      cr_expect(a->low <= a->answers[s].rate && a->answers[s].rate <= a->high);
      for (int64_t i = 0; i < a->design->choices.n_points; i++) {
        const Measurement *x = outcome_measurement(a, s, i), *y = outcome_measurement(b, s, i);
        cr_expect_eq(x->run.config_digest, y->run.config_digest);
        cr_expect(x->why_not || x->throughput_rps == y->throughput_rps);
      }
    }
  }
}

/* A machine costs 38 $/h and draws 10.2 kW, however its GPUs share the model; so do two shapes of
 * the same GPUs. Of half of its GPUs it costs half where it is not sold whole. */
static void expect_shares(bool whole_machines) {
  write_study("", arena_printf(&arena,
                               "%s, %s, half: {parallelism: {gpus: 4}},"
                               "twice: {pools.all.count: 2, parallelism: {gpus: 8}}",
                               whole, shapes));
  static const struct {
    int design;
    const char *label;
    double share;
    int64_t n_prefill, n_decode, n_mixed;
  } rows[] = {
      {0, "parallelism=TP8 policies.batcher.max_num_batched_tokens=1024", 1, 0, 0, 1},
      {0, "parallelism=PP8 policies.batcher.max_num_batched_tokens=4096", 1, 0, 0, 1},
      {0, "parallelism=TP2PP2DP2 policies.batcher.max_num_batched_tokens=1024", 1, 0, 0, 1},
      {1, "parallelism=PP4/TP4", 0.5, 1, 1, 0},
      {1, "parallelism=TP2DP2/PP2DP2", 0.5, 1, 1, 0},
      {2, "parallelism=TP2PP2", 0.5, 0, 0, 1},
      {3, "parallelism=TP2PP4", 2, 0, 0, 2},
  };
  const char *const by_gpu[] = {whole_machines ? NULL : "sold=gpu", NULL};
  const ConfigChanges changes = {.assignments = by_gpu, .seed = -1, .tie_seed = -1};
  Provision study;
  TrialBase base;
  const int status = provision_load(&study, &base, path, config_tree(path, &arena, &diag), &changes,
                                    NULL, &arena, &diag);
  diag_print(&diag, stderr);
  cr_assert_eq(status, 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double paid = whole_machines ? ceil(rows[i].share) : rows[i].share;
    const Fleet *fleet = &fit_named(&study.designs[rows[i].design], rows[i].label)->fleet;
    cr_expect_float_eq(fleet->takes.cost_per_hour, 38 * paid, 1e-9, "row %zu", i);
    cr_expect_float_eq(fleet->takes.power_kw, 10.2 * paid, 1e-9, "row %zu", i);
    cr_expect_eq(fleet->takes.instances, rows[i].design == 3 ? 2 : 1, "row %zu", i);
    cr_expect_eq(fleet->takes.gpus, 8 * rows[i].share, "row %zu", i);
    cr_expect_eq(fleet->takes.machines, ceil(rows[i].share), "row %zu", i);
    cr_expect_eq(fleet->n[ROLE_PREFILL], rows[i].n_prefill, "row %zu", i);
    cr_expect_eq(fleet->n[ROLE_DECODE], rows[i].n_decode, "row %zu", i);
    cr_expect_eq(fleet->n[ROLE_MIXED], rows[i].n_mixed, "row %zu", i);
  }
  trial_base_done(&base);
}

Test(provision_choices, degrees_take_whole_machines_or_their_share) {
  expect_shares(true);
  expect_shares(false);
}

/* What a run of a choice is charged is what the study says that it takes. */
static void expect_charged(Provision *study, const Design *design, int64_t choice) {
  const ChoiceFit *fit = &design->fits[choice];
  Trial trial;
  trial_init(&trial);
  const ConfigChanges changes =
      provision_changes(study, design, &(Probe){{choice, 0}, 0}, 0, &trial.arena);
  cr_assert_eq(trial_load(&trial, study->base, &changes) || trial_run(&trial), 0);
  const double span_s = report_value(&trial.report, "duration_s");
  cr_expect_float_eq(report_value(&trial.report, "cost_usd"),
                     fit->fleet.takes.cost_per_hour * span_s / 3600, 1e-9, "%s", fit->label);
  cr_expect_float_eq(report_value(&trial.report, "provisioned_power_kw"), fit->fleet.takes.power_kw,
                     1e-9, "%s", fit->label);
  // All GPUs draw idle power all the time, and more when they are busy.
  double joules = 0;
  for (uint32_t i = 0; i < trial.result.n_pools; i++) {
    const PoolSpec *pool = &trial.config.sim.pools[i];
    const InstanceTotals *totals = &trial.result.pools[i].totals;
    if (i == 0) joules += pool->idle_power * pool->count * span_s;
    joules += tick_seconds(totals->prefill_ticks) * (pool->prefill_power - pool->idle_power) +
              tick_seconds(totals->decode_ticks) * (pool->decode_power - pool->idle_power);
  }
  cr_expect_float_eq(report_value(&trial.report, "energy_kwh"), joules / 3.6e6, 1e-9, "%s",
                     fit->label);
  trial_done(&trial);
}

Test(provision_choices, runs_are_charged_what_choices_take) {
  write_study("", arena_printf(&arena, "%s, %s", whole, shapes));
  Provision study;
  TrialBase base;
  cr_assert_eq(provision_load(&study, &base, path, config_tree(path, &arena, &diag), NULL, NULL,
                              &arena, &diag),
               0);
  int n = 0;
  for (int d = 0; d < 2; d++)
    for (int64_t i = 0; i < study.designs[d].choices.n_points; i++) {
      if (study.designs[d].fits[i].why_not) continue;
      expect_charged(&study, &study.designs[d], i);
      n++;
    }
  cr_expect_gt(n, 20);
  trial_base_done(&base);
}

Test(provision_choices, a_choice_over_the_budget_or_a_limit_is_no_answer) {
  write_study("constraint: {cost: 40 $/h},", "a: {pools.all.count: 1..3}, b: {pools.all.count: 3}");
  const Ran *ran = run(1);
  cr_expect_eq(ran->outcomes[0].answers[0].choice, 0);
  cr_expect_str_eq(outcome_measurement(&ran->outcomes[0], 0, 2)->why_not,
                   "it takes 114 $/h, the budget is 40 $/h");
  cr_expect_not(ran->outcomes[1].answers[0].found);
  cr_expect_str_eq(ran->outcomes[1].why_not, "it takes 114 $/h, the budget is 40 $/h");
  bool flips = false;
  cr_expect_eq(provision_best(&ran->study, ran->outcomes, &flips), 0);

  // The 80 prompts of 900 tokens meet 40 blocks of 16 tokens.
  write_study("", "a: {pools.all.num_gpu_blocks_override: [40, 4000]}");
  ran = run(1);
  cr_expect_eq(ran->outcomes[0].answers[0].choice, 1);
  const Measurement *small = outcome_measurement(&ran->outcomes[0], 0, 0);
  cr_expect_str_eq(small->why_not, "80 of 80 requests are rejected or never finish");

  write_study("", "a: {slo: [{e2e.max: 1 ms}, {e2e.max: 1 h}]}");
  ran = run(1);
  cr_expect_str_eq(outcome_measurement(&ran->outcomes[0], 0, 0)->why_not,
                   "'e2e.max', limit 0.001 s, is missed");
  cr_expect_eq(ran->outcomes[0].answers[0].choice, 1);
}
