/* Errors of the terms of iteration times. Pinned: the error of an iteration by hand, and its bounds
 * whatever the shares are; that a term moves by its own factor and no other does; what a file and
 * measured rows say of them. */
#include "base/rng.h"
#include "perfmodel/compose/kernel_table.h"
#include "perfmodel/time_scale.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(term_errors, .init = setup_folder, .fini = teardown_folder);

/* 60% of the time 5% off and 40% of it 10% off: 3% and 4% are 5%; with 12% of the whole, 13%. */
Test(term_errors, independent_terms_add_in_squares) {
  const double times[PERF_TERMS] = {[PERF_LINEAR] = 6, [PERF_DECODE_ATTENTION] = 4, [PERF_SUM] = 9};
  TermErrors errors = {
      .of = {[PERF_LINEAR] = 0.05, [PERF_DECODE_ATTENTION] = 0.1, [PERF_HEAD] = 0.7}};
  cr_expect_float_eq(term_errors_of(&errors, times), 0.05, 1e-15);
  errors.of[PERF_SUM] = 0.12;
  cr_expect_float_eq(term_errors_of(&errors, times), 0.13, 1e-15);
}

/* At most the largest error; at least the smallest over the root of how many terms there are, which
 * equal shares have. One term alone has its own error. */
Test(term_errors, an_iteration_is_off_by_no_more_than_its_worst_term) {
  Rng rng;
  rng_init(&rng, 7, "term errors");
  for (int i = 0; i < 1000; i++) {
    TermErrors errors = {0};
    double times[PERF_TERMS] = {0}, least = INFINITY, most = 0;
    const int n = 1 + (int)rng_below(&rng, PERF_SUM);
    for (int t = 0; t < n; t++) {
      times[t] = 1 + (double)rng_below(&rng, 1000);
      errors.of[t] = (double)rng_below(&rng, 300) / 1000;
      least = fmin(least, errors.of[t]);
      most = fmax(most, errors.of[t]);
    }
    const double whole = term_errors_of(&errors, times);
    cr_expect(whole <= most * (1 + 1e-12), "%g of %g", whole, most);
    cr_expect(whole >= least / sqrt(n) * (1 - 1e-12), "%g of %g", whole, least);
    if (n == 1) cr_expect_float_eq(whole, most, 1e-15);
    cr_expect_eq(term_errors_of(&(TermErrors){{0}}, times), 0);
  }
}

static const char model_text[] =
    "form: composed\nmodel: m\ngpu: g\ntensor_parallel_size: 1\n"
    "overhead: 0 s\nlinear: {knots: [[4, 0.010], [104, 0.110]]}\n"
    "prefill_attention: {rows: [{tokens: 8, knots: [[64, 0.001], [640, 0.002]]}, {tokens: 64, "
    "knots: [[4096, 0.02], [40960, 0.1]]}]}\nhead: {knots: [[1, 0.002], [10, 0.004]]}\n"
    "decode_attention: {rows: [{sequences: 1, knots: [[0, 0], [100, 0.001]]}, "
    "{sequences: 2, knots: [[0, 0.0001], [100, 0.0013]]}]}\n"
    "mixed_attention: {rows: [{sequences: 1, knots: [[0, 0], [100, 0.003]]}]}\n";

static PerfModel loaded(const char *fit) {
  PerfModel model;
  write_file(path, arena_printf(&arena, "%s%s", model_text, fit));
  cr_assert_eq(perfmodel_load(&model, path, 40, &arena, &diag), 0);
  return model;
}

static const BatchShape batches[] = {
    {.prefill_tokens = 20, .prefill_area2 = 400, .logit_seqs = 1},
    {.prefill_tokens = 90, .prefill_area2 = 8100},
    {.decode_seqs = 1, .context_tokens = 30, .logit_seqs = 1},
    {.decode_seqs = 40, .context_tokens = 3000, .logit_seqs = 40},
    {.prefill_tokens = 10,
     .prefill_area2 = 100,
     .decode_seqs = 7,
     .context_tokens = 70,
     .logit_seqs = 8},
};

/* What an iteration gains when one term is twice as long is the time of that term; of all terms it
 * is the iteration. */
Test(term_errors, a_term_moves_by_its_own_factor) {
  const PerfModel before = loaded("");
  const int moved[] = {PERF_LINEAR, PERF_PREFILL_ATTENTION, PERF_DECODE_ATTENTION, PERF_HEAD};
  for (size_t i = 0; i < COUNT(batches); i++) {
    const BatchShape *batch = &batches[i];
    const double was = (double)perfmodel_iteration(&before, batch, NULL);
    const double linear =
        (double)pwl_eval(&before.linear, batch->prefill_tokens + batch->decode_seqs);
    double gained[PERF_TERMS], all = 0;
    for (size_t m = 0; m < COUNT(moved); m++) {
      double factors[PERF_TERMS] = {1, 1, 1, 1, 1, 1, 1};
      PerfModel after = before;
      factors[moved[m]] = 2;
      perfmodel_scale_terms(&after, factors, &arena);
      cr_expect_neq(after.digest, before.digest);
      all += gained[moved[m]] = (double)perfmodel_iteration(&after, batch, NULL) - was;
    }
    cr_expect_float_eq(gained[PERF_LINEAR], linear, 2, "batch %zu", i);
    cr_expect_float_eq(all, was, 8, "batch %zu", i);
    cr_expect_eq(gained[PERF_PREFILL_ATTENTION] > 0, batch->prefill_tokens > 0);
    cr_expect_eq(gained[PERF_DECODE_ATTENTION] > 0, batch->decode_seqs > 0);
  }
  PerfModel same = before;
  perfmodel_scale_terms(&same, (double[PERF_TERMS]){1, 1, 1, 1, 1, 1, 1}, &arena);
  cr_expect_eq(same.digest, before.digest);
  cr_expect_eq(same.pieces, before.pieces);
}

/* A fifth of `linear`. */
static double fifth(const void *context, double tokens) {
  (void)context;
  return tokens >= 0 ? 0.2 : 0;
}

/* Four fifths 10% longer, and a fifth 50% longer: 1.18 of `linear`. */
Test(term_errors, communication_is_a_part_of_linear) {
  PerfModel model = loaded("");
  perfmodel_share(&model.communication, &model.linear, fifth, NULL, &arena);
  const PerfModel before = model;
  double factors[PERF_TERMS] = {1, 1, 1, 1, 1, 1, 1};
  factors[PERF_LINEAR] = 1.1;
  factors[PERF_COMMUNICATION] = 1.5;
  perfmodel_scale_terms(&model, factors, &arena);
  for (int64_t x = 1; x <= 400; x += 7)
    cr_expect_float_eq((double)pwl_eval(&model.linear, x),
                       1.18 * (double)pwl_eval(&before.linear, x), 2);
  const Tick head = pwl_eval(&before.head, 40), linear = pwl_eval(&before.linear, 40);
  cr_expect_float_eq(fine_ticks(model.row_constant[40]), (double)head + 1.18 * (double)linear, 2);
}

/* Composed of operators: each has its own error, or else that of iterations. Of iterations that
 * were measured: theirs, of all terms together. */
Test(term_errors, a_file_says_them_by_term) {
  static const char text[] = "fit: {scores: {iterations: {rows: %d, held_out: [4, 5, 6]}, linear: "
                             "{held_out: [1, 2, 3]}, head: {held_out: [7, 8, 9]}}}\n";
  const PerfModel composed = loaded(arena_printf(&arena, text, 0));
  const PerfModel whole = loaded(arena_printf(&arena, text, 12));
  const double by_term[PERF_TERMS] = {0.01, 0.04, 0.04, 0.07}, together[] = {[PERF_SUM] = 0.04};
  for (int t = 0; t < PERF_TERMS; t++) {
    cr_expect_float_eq(composed.errors.of[t], by_term[t], 1e-15, "%s", perf_term_names[t]);
    cr_expect_float_eq(whole.errors.of[t], together[t], 1e-15, "%s", perf_term_names[t]);
  }
  cr_expect_float_eq(composed.held_out_error, 0.04, 1e-15);
}

/* 2 between 1 and 4: a third of the way from 10 to 16 is 12, of 10 measured. 4 between 2 and 8: a
 * third of the way from 10 to 40 is 20, of 16. */
Test(term_errors, a_point_of_a_table_is_held_out) {
  KernelTable table = {.n_keys = 1};
  const double points[][2] = {{1, 10}, {2, 10}, {4, 16}, {8, 40}};
  for (size_t i = 0; i < COUNT(points); i++)
    kernel_table_add(&table, &(KernelPoint){{(int64_t)points[i][0]}, points[i][1]}, &arena);
  cr_expect_float_eq(kernel_table_held_out(&table, 1), (0.2 + 0.25) / 2, 1e-12);
  cr_expect_float_eq(kernel_table_held_out(&table, 3), 0.25, 1e-12);
  cr_expect_eq(kernel_table_held_out(&table, 8), 0);
}

Test(term_errors, measured_rows_are_of_the_engine_and_the_gpu_or_of_all) {
  const PerfSetup own = {.engine = "vllm", .gpu = "g"}, other = {.engine = "vllm", .gpu = "h"};
  const char *rows = in_folder("residuals.csv");
  Residual residual;
  cr_assert_eq(residual_load(&residual, &own, folder, &arena, &diag), 0);
  cr_expect(residual.rows == 0 && residual_spread(&residual) == 0);
  write_file(rows, "# a\nengine,gpu,rows,tpot_low,tpot_median,tpot_high,ttft_low,ttft_median,"
                   "ttft_high\nvllm,g,214,-3,2.4,9,-20,-0.2,5\nall,all,900,-10,1,20,-30,2,40\n");
  cr_assert_eq(residual_load(&residual, &own, folder, &arena, &diag), 0);
  cr_expect_float_eq(residual_spread(&residual), 0.06, 1e-15);
  cr_expect_str_eq(residual_rows_text(&residual, &arena), "214 measured rows of vllm on g");
  cr_expect_str_eq(residual_text(&residual, &arena),
                   "TPOT was 3% low to 9% high (median 2% high), TTFT 20% low to 5% high (median "
                   "0% off)");
  cr_assert_eq(residual_load(&residual, &other, folder, &arena, &diag), 0);
  cr_expect_float_eq(residual_spread(&residual), 0.15, 1e-15);
  cr_expect_str_eq(residual_rows_text(&residual, &arena),
                   "900 measured rows, none of them of this engine and GPU");
  write_file(rows, "engine,gpu,rows\nvllm,g,214\n");
  cr_expect_eq(residual_load(&residual, &own, folder, &arena, &diag), -1);
  remove(rows);
}
