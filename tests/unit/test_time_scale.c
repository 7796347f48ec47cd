/* What is said of a model's error, and its times moved by it. Pinned: the error that a file has,
 * and that none is none; that all kinds of iterations take the factor, to the tick; that the
 * reference of limits, and the digest of what is not moved, stay. */
#include "experiments/config/config.h"
#include "perfmodel/time_scale.h"
#include "tests/unit/scene_testing.h"
#include <math.h>
#include <unistd.h>

TestSuite(time_scale, .init = setup_folder, .fini = teardown_folder);

static const char model_text[] =
    "form: composed\nmodel: m\ngpu: g\ntensor_parallel_size: 1\n"
    "overhead: 1 ms\nlinear: {knots: [[4, 0.010], [104, 0.110]]}\n"
    "prefill_attention: {rows: [{tokens: 8, knots: [[64, 0.001], [640, 0.002]]}, {tokens: 64, "
    "knots: [[4096, 0.02], [40960, 0.1]]}]}\nhead: {knots: [[1, 0.002], [10, 0.004]]}\n"
    "decode_attention: {rows: [{sequences: 1, knots: [[0, 0], [100, 0.001]]}, "
    "{sequences: 2, knots: [[0, 0.0001], [100, 0.0013]]}]}\n"
    "mixed_attention: {rows: [{sequences: 1, knots: [[0, 0], [100, 0.003]]}]}\n";
static const char fit_text[] =
    "fit: {scores: {linear: {held_out: [9, 9, 9]}, iterations: {held_out: %s}}}\n";

static int load_text(PerfModel *model, const char *held_out) {
  const char *fit = held_out ? arena_printf(&arena, fit_text, held_out) : "";
  write_file(path, arena_printf(&arena, "%s%s", model_text, fit));
  return perfmodel_load(model, path, 40, &arena, &diag);
}

Test(time_scale, a_file_says_how_far_it_is_off) {
  PerfModel model, silent;
  cr_assert_eq(load_text(&model, "[3.8, 9.1, 15.2]"), 0);
  cr_assert_eq(load_text(&silent, NULL), 0);
  cr_expect_float_eq(model.held_out_error, 0.038, 1e-15);
  cr_expect(isnan(silent.held_out_error));
  cr_expect(model.measured && silent.measured);
  cr_expect_eq(model.digest, silent.digest, "it decides nothing");
  static const char *const bad[] = {"3.8", "[3.8]", "[-1, 2, 3]", "[x, 2, 3]", "[1, 2, 3, 4]"};
  for (size_t i = 0; i < COUNT(bad); i++)
    cr_expect_eq(load_text(&model, bad[i]), -1, "%s", bad[i]);
}

static const BatchShape batches[] = {
    {.prefill_tokens = 20, .prefill_area2 = 400, .logit_seqs = 1},
    {.prefill_tokens = 90, .prefill_area2 = 8100},
    {.prefill_tokens = 300, .prefill_area2 = 90000, .logit_seqs = 3},
    {.decode_seqs = 1, .context_tokens = 30, .logit_seqs = 1},
    {.decode_seqs = 40, .context_tokens = 3000, .logit_seqs = 40},
    {.prefill_tokens = 10,
     .prefill_area2 = 100,
     .decode_seqs = 7,
     .context_tokens = 70,
     .logit_seqs = 8},
};

Test(time_scale, all_iterations_take_the_factor) {
  static const double scales[] = {0.5, 0.96, 1.04, 2};
  PerfModel before;
  cr_assert_eq(load_text(&before, NULL), 0);
  for (size_t s = 0; s < COUNT(scales); s++) {
    PerfModel after = before;
    perfmodel_scale(&after, scales[s], &arena);
    cr_expect_neq(after.digest, before.digest);
    for (size_t i = 0; i < COUNT(batches); i++) {
      const double was = (double)perfmodel_iteration(&before, &batches[i], NULL);
      const double is = (double)perfmodel_iteration(&after, &batches[i], NULL);
      // Of 2^-33, what a factor is rounded by, and two ticks for the nearest ones.
      cr_expect_leq(fabs(is - scales[s] * was), 2 + was / 8e9, "%g, batch %zu: %g of %g", scales[s],
                    i, is, was);
    }
  }
  PerfModel same = before;
  perfmodel_scale(&same, 1, &arena);
  cr_expect_eq(same.digest, before.digest);
  cr_expect_eq(same.pieces, before.pieces);
}

/* A piece ends at or below the start of the next, whatever it is multiplied by. */
Test(time_scale, rows_do_not_fall) {
  PerfModel model;
  for (double scale = 0.5; scale <= 2; scale += 0.0137) {
    cr_assert_eq(load_text(&model, NULL), 0);
    perfmodel_scale(&model, scale, &arena);
    for (int64_t n = 1; n <= 40; n++)
      for (int32_t i = model.row_first[n]; i + 1 < model.row_first[n + 1]; i++)
        cr_assert(decode_piece_fine(&model.pieces[i], model.pieces[i].end) <=
                  model.pieces[i + 1].base);
  }
}

/* A pool's model of a configuration, and that of its limits. */
static const Config *configured(const char *perfmodel, double error_shift) {
  static const char text[] = "model: llama2-70b\nperfmodel: %s\nslo: {machine: dgx-a100}\n"
                             "workload: {arrivals: {process: poisson, rate: 1 /s}, duration: 10 s, "
                             "lengths: {prompt: {constant: 100}, output: {constant: 10}}}\n"
                             "pools: {all: {machine: dgx-h100, count: 1}}\n";
  Config *config = ARENA_NEW(&arena, Config);
  const ConfigChanges changes = {.seed = -1, .tie_seed = -1, .error_shift = error_shift};
  write_file(path, arena_printf(&arena, text, perfmodel));
  cr_assert_eq(config_load(config, path, &changes, &arena, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  return config;
}

Test(time_scale, pools_are_moved_and_their_reference_is_not) {
  const Config *is = configured("splitwise-2023", 0);
  const Config *slow = configured("{name: splitwise-2023, time_scale: 1.5}", 0);
  const Config *off = configured("splitwise-2023", 1), *roofline = configured("roofline", 0);
  const double prompt = (double)perfmodel_prefill(is->sim.pools[0].perfmodel, 512);
  const double error = is->sim.pools[0].perfmodel->held_out_error;
  cr_expect(error > 0.01 && error < 0.1);
  cr_expect_float_eq((double)perfmodel_prefill(slow->sim.pools[0].perfmodel, 512), 1.5 * prompt,
                     99);
  cr_expect_float_eq((double)perfmodel_prefill(off->sim.pools[0].perfmodel, 512),
                     (1 + error) * prompt, 99);
  cr_expect_eq(slow->sim.model.slo_reference->digest, is->sim.model.slo_reference->digest);
  cr_expect_eq(off->sim.model.slo_reference->digest, is->sim.model.slo_reference->digest);
  const PerfModel *computed = roofline->sim.pools[0].perfmodel;
  cr_expect(!computed->measured && isnan(computed->held_out_error));
}

/* A pool's model of an engine with host time, one group of terms longer by its error. */
static const PerfModel *apart(TermMove move, double by) {
  static const char text[] = "engine: vllm-0.12\nmodel: qwen3-32b\n"
                             "workload: {arrivals: {process: poisson, rate: 1 /s}, duration: 10 s, "
                             "lengths: {prompt: {constant: 100}, output: {constant: 10}}}\n"
                             "pools: {all: {machine: dgx-h100, tensor_parallel_size: 2}}\n";
  Config *config = ARENA_NEW(&arena, Config);
  ConfigChanges changes = {.seed = -1, .tie_seed = -1};
  changes.apart.by[move] = by;
  write_file(path, text);
  cr_assert_eq(config_load(config, path, &changes, &arena, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  return config->sim.pools[0].perfmodel;
}

/* 0.8 ms of host time, a quarter more; whole iterations have the host in them, other terms do not.
 * What linear and communication gain apart is a part of `linear`, each less than all of it. */
Test(time_scale, each_term_of_a_pool_moves_by_its_error) {
  const PerfModel *is = apart(MOVE_SUM, 0), *host = apart(MOVE_HOST, 1);
  const PerfModel *linear = apart(MOVE_LINEAR, 1), *reduces = apart(MOVE_COMMUNICATION, 1);
  const PerfModel *whole = apart(MOVE_SUM, -1);
  cr_assert(is->residual.rows > 0 && is->errors.of[PERF_SUM] > 0);
  cr_expect_eq(is->overhead, INT64_C(800000000));
  cr_expect_eq(host->overhead, INT64_C(1000000000));
  cr_expect_eq(linear->overhead, is->overhead);
  cr_expect_float_eq((double)whole->overhead, (1 - is->errors.of[PERF_SUM]) * 8e8, 1);
  for (int64_t tokens = 16; tokens <= 4096; tokens *= 4) {
    const double all = (double)pwl_eval(&is->linear, tokens);
    const double exchange = (double)pwl_eval(&is->communication, tokens);
    cr_assert(exchange > 0 && exchange < all);
    cr_expect_float_eq((double)pwl_eval(&linear->linear, tokens) - all,
                       is->errors.of[PERF_LINEAR] * (all - exchange), 1e-4 * all);
    cr_expect_float_eq((double)pwl_eval(&reduces->linear, tokens) - all,
                       is->errors.of[PERF_COMMUNICATION] * exchange, 1e-4 * all);
    cr_expect_float_eq((double)pwl_eval(&whole->linear, tokens),
                       (1 - is->errors.of[PERF_SUM]) * all, 2 + all / 8e9);
  }
}
