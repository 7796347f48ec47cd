/* Power of iterations and limits of it. Pinned: curves, the law and the energy of a run against
 * sums by hand; measured caps; that a lower limit is never faster and never draws more. */
#include "experiments/config/config.h"
#include "perfmodel/power.h"
#include "tests/unit/scene_testing.h"
#include <math.h>

TestSuite(power, .init = setup_scene, .fini = teardown);

static PowerModel gpu_of(double limit) {
  PowerModel power = {.idle = POWER_IDLE_SHARE * limit, .limit = limit, .cap = limit};
  return power;
}

static double slowed(double limit, double cap, double watts, double compute) {
  PowerModel power = gpu_of(limit);
  power.cap = cap;
  return power_slowdown(&power, watts, compute);
}

Test(power, a_curve_is_linear_between_powers_of_two) {
  PowerCurve curve;
  for (int i = 0; i < POWER_OCTAVES; i++)
    curve.at[i] = i;
  const struct {
    int64_t x;
    double watts;
  } cases[] = {{-1, 0},   {0, 0},   {1, 0},
               {2, 1},    {3, 1.5}, {4, 2},
               {7, 2.75}, {8, 3},   {INT64_MAX, POWER_OCTAVES - 1}};
  for (size_t i = 0; i < COUNT(cases); i++)
    cr_expect_eq(power_curve_eval(&curve, cases[i].x), cases[i].watts, "x = %lld",
                 (long long)cases[i].x);
}

/* 700 W, idle at 126: at 350 W the clock is (224/574)^(1/3) = 0.73077 of its own. */
Test(power, the_clock_follows_the_cube_root_of_dynamic_power) {
  cr_expect_float_eq(slowed(700, 350, 700, 1), 1 / 0.730767, 1e-5);
  cr_expect_float_eq(slowed(700, 350, 700, 0.5), 0.5 / 0.730767 + 0.5, 1e-5);
  cr_expect_eq(slowed(700, 350, 700, 0), 1, "memory is as fast");
  cr_expect_eq(slowed(700, 350, 350, 1), 1, "what draws no more");
  // 196 W: (70/574)^(1/3) = 0.49590, below half of the clock
  cr_expect_float_eq(slowed(700, 196, 700, 0), 0.5 / 0.495901, 1e-5);
}

/* What others measured at two limits, of work that computes: the time at the lower one over that
 * at the higher. RTX 3090, prompts of 17,472 tokens of Qwen3-27B: 1,658 tokens/s at 309 W, 1,318
 * at 175 W (club-3090, issue 104). V100, SDXL: 9.37 s at 250 W, 10.09 s at 200 W, 10.63 s at 175 W
 * (ai-server, pull request 32). Splitwise's table has 1.30 for prompts at half of an H100's power,
 * and 1 for decodes. All within 6%. */
Test(power, measured_limits) {
  const struct {
    double limit, cap, watts, compute, ratio;
  } cases[] = {{350, 175, 309, 1, 1658.0 / 1317.85},
               {250, 200, 250, 1, 10.09 / 9.37},
               {250, 175, 250, 1, 10.63 / 9.37},
               {700, 350, 700, 1, 1.30},
               {700, 350, 380, 0, 1}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    const double is = slowed(cases[i].limit, cases[i].cap, cases[i].watts, cases[i].compute);
    cr_expect(fabs(is / cases[i].ratio - 1) <= 0.06, "case %zu: %.3f for %.3f", i, is,
              cases[i].ratio);
  }
}

/* ---- By batch ---- */

/* 1 ms up to 64 tokens, 4 ms at 256, and on; attention of prompts and decodes; a head. */
static const char TEXT[] =
    "form: composed\nmodel: m\ngpu: g\ntensor_parallel_size: 1\noverhead: 1 ms\n"
    "linear: {knots: [[1, 0.001], [64, 0.001], [256, 0.004], [4096, 0.064]]}\n"
    "prefill_attention: {knots: [[1, 1e-6], [1000000, 0.001], [4000000, 0.004]]}\n"
    "decode_attention: {rows: [{sequences: 1, knots: [[1, 1e-5], [1000, 1e-4], [9000, 9e-4]]},\n"
    "                          {sequences: 64, knots: [[64, 2e-5], [64000, 0.006]]}]}\n"
    "head: {knots: [[1, 1e-4], [256, 2e-4]]}\n";

static PerfModel small(void) {
  PerfModel model;
  cr_assert_eq(perfmodel_parse(&model, "test", TEXT, sizeof TEXT - 1, 64, &arena, &diag), 0);
  return model;
}

Test(power, by_batch_goes_from_memory_to_the_limit) {
  const PerfModel model = small();
  PowerModel power;
  power_by_batch(&power, &model, 700, 400);
  cr_expect_eq(power.idle, 126);
  for (int i = 0; i <= 6; i++)
    cr_expect_eq(power.linear.watts.at[i], 400, "up to 64 tokens memory is read");
  cr_expect_float_eq(power.linear.watts.at[8], 400 + 0.75 * 300, 1e-9);
  cr_expect_float_eq(power.linear.watts.at[12], 400 + 63.0 / 64 * 300, 1e-9);
  cr_expect_eq(power.prefill.watts.at[20], 700);
  cr_expect_eq(power.decode.watts.at[20], 400);
}

/* 256 tokens: 1 ms of host at 126 W, 4 ms at 625 W, attention of 65,536 at 700 W, a head. */
Test(power, an_iteration_draws_the_mean_of_its_terms) {
  PerfModel model = small();
  PowerModel power;
  power_by_batch(&power, &model, 700, 400);
  model.power = &power;
  const BatchShape prompt = {.prefill_tokens = 256, .prefill_area2 = 65536, .logit_seqs = 1};
  const double attention = 1e-6 + 65535.0 / 999999 * 0.000999, head = 1e-4;
  const double joules = 0.001 * 126 + 0.004 * 625 + attention * 700 + head * 400;
  const double watts = joules / (0.005 + attention + head);
  cr_expect(llabs(power_of_iteration(&model, &prompt, NULL) - llround(1000 * watts)) <= 1);
  const DecodePiece *piece = perfmodel_decode(&model, 1, 500);
  const DecodePower decodes = power_of_decodes(&model, 1, piece);
  cr_expect_eq(decodes.constant, 2100 * US);
  cr_expect_eq(decodes.constant_mw, llround(1000 * (126 + 400 + 40) / 2.1));
  cr_expect_eq(decodes.rest_mw, 400000);
}

static PerfModel capped(const PerfModel *model, double cap) {
  PerfModel other = *model;
  PowerModel *power = ARENA_NEW(&arena, PowerModel);
  power_by_batch(power, model, 700, 400);
  power_limit(power, cap);
  perfmodel_cap(&other, power, &arena);
  return other;
}

Test(power, no_limit_changes_nothing) {
  const PerfModel model = small(), same = capped(&model, 700);
  cr_expect_eq(same.digest, model.digest);
  cr_expect_eq(same.pieces, model.pieces);
  cr_expect_neq(capped(&model, 699).digest, model.digest);
}

/* 4,096 tokens at 350 W: linear draws 695.3 W and computes for 63/64 of its time. */
Test(power, a_limit_slows_the_terms_that_compute) {
  const PerfModel model = small(), slow = capped(&model, 350);
  const double share = 63.0 / 64, clock = cbrt(224 / (400 + share * 300 - 126));
  const double factor = share / clock + 1 - share;
  const FineTick is = pwl_fine(&slow.linear, 4096), was = pwl_fine(&model.linear, 4096);
  cr_expect_float_eq(fine_ticks(is) / fine_ticks(was), factor, 1e-9);
  cr_expect_eq(pwl_fine(&slow.linear, 32), pwl_fine(&model.linear, 32), "what reads memory");
  const DecodePiece *fast = perfmodel_decode(&model, 16, 8000);
  const DecodePiece *same = perfmodel_decode(&slow, 16, 8000);
  const double attention = fine_ticks(same->base - slow.row_constant[16]);
  cr_expect_float_eq(attention, fine_ticks(fast->base - model.row_constant[16]), 1, "reads memory");
  cr_expect_eq(slow.overhead, model.overhead, "the host");
}

/* Any batch, the limit lowered by steps: no faster, no more power at any time. */
Test(power, a_lower_limit_is_never_faster_and_never_draws_more) {
  const PerfModel model = small();
  PerfModel models[8];
  for (int k = 0; k < 8; k++)
    models[k] = capped(&model, 700 - 70 * k);
  for (uint32_t i = 0; i < 2000; i++) {
    const int64_t n = i % 65, p = i % 7 ? (i * 37) % 5000 : 0, c = n * (1 + (i * 13) % 900);
    if (p + n == 0) continue;
    const BatchShape batch = {p, p * p + 2 * p * (i % 100), n, c, n + (p > 0)};
    for (int k = 1; k < 8; k++) {
      const Tick before = perfmodel_iteration(&models[k - 1], &batch, NULL);
      cr_assert_geq(perfmodel_iteration(&models[k], &batch, NULL), before, "batch %u, limit %d", i,
                    k);
      if (p == 0) continue;
      const int64_t watts = power_of_iteration(&models[k], &batch, NULL);
      cr_assert_leq(watts, 1000 * (700 - 70 * k) + 1, "batch %u, limit %d", i, k);
    }
  }
}

/* ---- Of a run ---- */

static PowerModel flat(void) {
  PowerModel power = {.idle = 100, .limit = 700, .cap = 700};
  for (int i = 0; i < POWER_OCTAVES; i++) {
    power.linear.watts.at[i] = 400;
    power.decode.watts.at[i] = 200;
    power.prefill.watts.at[i] = power.head.watts.at[i] = 300;
  }
  return power;
}

/* 90 tokens: 10 ms of host at 100 W and 90 ms at 400 W. Two decodes: 11 ms as before and 0.91 and
 * 0.92 ms of attention at 200 W. Two GPUs, the rest of the machine at 50 W, then idle at 30 W. */
Test(power, energy_of_a_run_is_the_sum_of_its_terms) {
  const TraceRow rows[] = {{.at = 0, .prompt_tokens = 90, .output_tokens = 3}};
  PerfModel model = *scene.pools[0].perfmodel;
  const PowerModel power = flat();
  model.power = &power;
  PoolSpec *pool = &scene.pools[0];
  pool->perfmodel = &model;
  pool->count = 2;
  pool->gpus = 2;
  pool->rest_power = 50;
  pool->idle_power = 30;
  run(rows, 1);
  const double prompt = 0.010 * 100 + 0.090 * 400;
  const double decodes = 2 * (0.010 * 100 + 0.001 * 400) + 0.00183 * 200;
  const InstanceTotals *totals = &scene.result.totals;
  cr_expect_float_eq(power_joules(totals->milliwatt_ticks), prompt + decodes, 1e-4);
  cr_expect_float_eq(scene.result.energy_j, 2 * (prompt + decodes) + 0.12383 * (50 + 30), 1e-3);
}

/* ---- Keys ---- */

static int load_with(Config *config, const char *machine, const char *keys) {
  const char *text =
      arena_printf(&arena,
                   "model: llama2-70b\nperfmodel: roofline\n"
                   "workload: {lengths: {prompt: {constant: 9}, output: {constant: 2}}, "
                   "arrivals: {process: poisson, rate: 1 /s}, requests: 3}\n"
                   "pools: {a: {machine: %s%s}}\n",
                   machine, keys);
  Node *root = yaml_parse("test", text, strlen(text), &arena, &diag);
  cr_assert_not_null(root);
  return config_bind(config, "test", root, NULL, NULL, &arena, &diag);
}

Test(power, a_share_and_watts_are_the_same_limit) {
  Config share, watts, none;
  cr_assert_eq(load_with(&share, "dgx-h100", ", gpu_power_cap: 0.5"), 0);
  cr_assert_eq(load_with(&watts, "dgx-h100", ", gpu_power_cap: 350 W"), 0);
  cr_assert_eq(load_with(&none, "dgx-h100", ""), 0);
  const PoolSpec *a = &share.sim.pools[0], *b = &watts.sim.pools[0], *c = &none.sim.pools[0];
  cr_expect_eq(a->perfmodel->digest, b->perfmodel->digest);
  cr_expect_neq(a->perfmodel->digest, c->perfmodel->digest);
  cr_expect_null(c->perfmodel->power, "the machine's own constants");
  cr_expect_float_eq(a->provisioned_power, 10200 - 8 * 350, 1e-9);
  cr_expect_float_eq(a->rest_power, 10000 - 8 * 700, 1e-9);
  cr_expect_float_eq(a->perfmodel->power->decode.watts.at[0], 380, 1e-9);
}

Test(power, limits_that_no_driver_takes_are_refused) {
  const struct {
    const char *machine, *keys, *says;
  } cases[] = {{"dgx-h100", ", gpu_power_cap: 0.2", "must be 196 W to 700 W"},
               {"dgx-h100", ", gpu_power_cap: 701 W", "must be 196 W to 700 W"},
               {"dgx-h100", ", gpu_power_cap: fast", "must be a power"},
               {"dgx-h100", ", gpu_power_cap: 0.5, power: phase", "'power' is 'phase'"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    Config config;
    const int before = diag.n_entries;
    cr_expect_neq(load_with(&config, cases[i].machine, cases[i].keys), 0, "case %zu", i);
    cr_assert_gt(diag.n_entries, before, "case %zu", i);
    cr_expect_not_null(strstr(diag.entries[before].message, cases[i].says), "case %zu: %s", i,
                       diag.entries[before].message);
  }
}
