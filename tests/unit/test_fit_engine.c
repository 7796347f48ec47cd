/* Fits of an engine's whole iterations, whose attention no curve of the area describes: one that
 * takes prompts of few tokens by a kernel of their own, and prompts beside decodes in two passes.
 * Pinned: that its times come back, also between the rows and from the file; that an engine
 * without either gets no rows for it. */
#include "base/rng.h"
#include "perfmodel/fit_file.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(fit_engine, .init = setup_folder, .fini = teardown_folder, .timeout = 120);

/* Seconds of an engine. Its prompts have one length; `split`: as described, else as a GPU. */
typedef struct Engine {
  bool split;
  double noise;
} Engine;

static double pass(double tokens, double sequences, double context) {
  return 0.002 + 2e-4 * tokens + 5e-5 * sequences + 2e-7 * context;
}

/* Of `n` prompts of equal chunks. */
static double prompts(const Engine *self, double n, double chunk, double past) {
  const double pairs = n * chunk * (past + chunk / 2);
  const double slow = self->split && chunk < 64 ? 5 : 1;
  return pass(n * chunk, n, 0) + 2e-7 * slow * pairs;
}

static double engine_seconds(const Engine *self, const BatchShape *batch, double n, double past) {
  const double seqs = (double)batch->decode_seqs, context = (double)batch->context_tokens;
  const double chunk = n > 0 ? (double)batch->prefill_tokens / n : 0;
  if (n == 0) return pass(seqs, seqs, context);
  if (seqs == 0) return prompts(self, n, chunk, past);
  if (!self->split) return prompts(self, n, chunk, past) + pass(seqs, seqs, context) - 0.002;
  return prompts(self, n, chunk, past) + pass(seqs, seqs, context);
}

static BatchShape batch_of(int64_t n, int64_t chunk, int64_t past, int64_t seqs, int64_t context) {
  return (BatchShape){n * chunk, n * chunk * (chunk + 2 * past), seqs, seqs * context, n + seqs};
}

typedef struct Making {
  Engine engine;
  Profile profile;
  Rng rng;
} Making;

static void add(Making *self, int64_t n, int64_t chunk, int64_t past, int64_t seqs,
                int64_t context) {
  const BatchShape batch = batch_of(n, chunk, past, seqs, context);
  const double seconds = engine_seconds(&self->engine, &batch, (double)n, (double)past);
  ProfileRow row = profile_row("m", "g", 1);
  row.op = PROFILE_ITERATION;
  row.batch = batch;
  row.configuration = (int64_t)self->profile.n_rows + 1;
  row.median_us = 1e6 * seconds * (1 + self->engine.noise * rng_normal(&self->rng));
  row.mad_us = self->engine.noise * row.median_us;
  profile_add(&self->profile, &row);
}

static const FitResult *fitted(bool split, double noise) {
  static const int64_t chunks[] = {8, 16, 32, 63, 64, 96, 128, 256, 384, 512, 768, 1024};
  static const int64_t seqs[] = {1, 2, 4, 8, 16, 32}, contexts[] = {64, 320, 1280};
  Making making = {.engine = {split, noise}};
  ProfileGroup *groups;
  FitResult *result = ARENA_NEW(&arena, FitResult);
  const FitOptions options = {.preset = "ideal", .seed = 1};
  profile_init(&making.profile, "engine.csv", &arena);
  rng_init(&making.rng, 11, "engine");
  for (size_t i = 0; i < COUNT(chunks); i++)
    for (int64_t past = 0; past <= (i % 2 ? 0 : 1536); past += 512)
      add(&making, 1, chunks[i], past, 0, 0);
  for (int64_t past = 512; past <= 1536; past += 1024)
    add(&making, 1, 63, past, 0, 0);
  add(&making, 4, 64, 0, 0, 0), add(&making, 2, 192, 0, 0, 0), add(&making, 4, 192, 0, 0, 0);
  for (size_t i = 0; i < COUNT(seqs); i++)
    for (size_t k = 0; k < COUNT(contexts); k++) {
      add(&making, 0, 0, 0, seqs[i], contexts[k]);
      if (i % 2 == 0) add(&making, 1, 128, 0, seqs[i], contexts[k]);
      if (i % 2 == 0) add(&making, 1, 384, 0, seqs[i], contexts[k]);
    }
  cr_assert_eq(profile_groups(&making.profile, &groups, &arena), 1);
  cr_assert_eq(fit_group(result, &making.profile, &groups[0], &options, &arena, &diag), 0);
  cr_assert_eq(fit_save(result, &making.profile, path, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  return result;
}

static void expect_near(const FitResult *result, const PerfModel *model, bool split, int64_t n,
                        int64_t chunk, int64_t past, int64_t seqs, int64_t context, double within) {
  const Engine engine = {split, 0};
  const BatchShape batch = batch_of(n, chunk, past, seqs, context);
  const double want = engine_seconds(&engine, &batch, (double)n, (double)past);
  const double fit = fit_eval(&result->model, PROFILE_ITERATION, &batch);
  const double file = tick_seconds(perfmodel_iteration(model, &batch, NULL));
  cr_expect_float_eq(fit / want, 1, within, "%d x %d @ %d + %d: %g s, not %g", (int)n, (int)chunk,
                     (int)past, (int)seqs, fit, want);
  cr_expect_float_eq(file / fit, 1, 1e-3, "%d x %d @ %d + %d: the file says %g s, the fit %g",
                     (int)n, (int)chunk, (int)past, (int)seqs, file, fit);
}

Test(fit_engine, kernels_of_short_prompts_and_two_passes_come_back) {
  PerfModel model;
  const FitResult *result = fitted(true, 0);
  cr_assert_gt(result->model.prefill.n_rows, 1);
  cr_assert_gt(result->model.mixed.n_rows, 1);
  cr_expect_lt(result->parts[FIT_ALL_ITERATIONS].held_out.mape, 0.02);
  cr_assert_eq(perfmodel_load(&model, path, 64, &arena, &diag), 0, "%s",
               diag.n_entries ? diag.entries[0].message : "");
  expect_near(result, &model, true, 1, 24, 1000, 0, 0, 0.03);
  expect_near(result, &model, true, 1, 200, 1000, 0, 0, 0.03);
  expect_near(result, &model, true, 1, 700, 0, 0, 0, 0.03);
  expect_near(result, &model, true, 1, 300, 0, 10, 600, 0.03);
  expect_near(result, &model, true, 1, 200, 512, 4, 200, 0.03);
  expect_near(result, &model, true, 0, 0, 0, 12, 900, 0.03);
}

/* More tokens are faster here: fewer are taken one by one. */
Test(fit_engine, a_kernel_of_few_tokens_may_be_slower_than_one_of_more) {
  const FitModel *model = &fitted(true, 0)->model;
  const BatchShape few = batch_of(1, 63, 1536, 0, 0), more = batch_of(1, 64, 1536, 0, 0);
  const double slow = fit_eval(model, PROFILE_PREFILL_ATTENTION, &few);
  const double fast = fit_eval(model, PROFILE_PREFILL_ATTENTION, &more);
  cr_expect_float_eq(slow / fast, 5, 0.5, "%g s and %g s", slow, fast);
}

Test(fit_engine, one_slope_and_one_pass_need_no_rows) {
  PerfModel model;
  for (int noisy = 0; noisy < 2; noisy++) {
    const FitResult *result = fitted(false, 0.02 * noisy);
    cr_expect_eq(result->model.prefill.n_rows, 0);
    cr_expect_eq(result->model.mixed.n_rows, 0);
    cr_assert_eq(perfmodel_load(&model, path, 64, &arena, &diag), 0);
    expect_near(result, &model, false, 1, 200, 1000, 0, 0, 0.04);
    expect_near(result, &model, false, 1, 300, 0, 10, 600, 0.04);
  }
}

Test(fit_engine, noise_does_not_hide_them) {
  const FitResult *result = fitted(true, 0.02);
  cr_expect_gt(result->model.prefill.n_rows, 1);
  cr_expect_gt(result->model.mixed.n_rows, 1);
  cr_expect_lt(result->parts[FIT_ALL_ITERATIONS].held_out.mape, 0.05);
}
