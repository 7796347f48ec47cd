/* Building a model by a plan, from points without noise. Pinned: that it has the plan's terms and
 * no others, and where the knots lie when other terms move the times more than the bends do. */
#include "base/rng.h"
#include "perfmodel/fit_search.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(fit_search, .init = setup, .fini = teardown);

/* Whole iterations of each kind, of 10 ms and 20 us a token, and what each term takes beside. */
static FitModel built_of_iterations(const int *segments) {
  FitPoint points[36];
  FitPlan plan = {.segments = {[PROFILE_LINEAR] = 1}, .decode_segments = 1};
  int n = 0;
  for (int op = PROFILE_LINEAR + 1; op < PROFILE_TERMS; op++)
    plan.segments[op] = segments[op];
  for (int64_t i = 1; i <= 18; i++) {
    const int64_t tokens = 64 * i, seqs = 3 * i;
    const BatchShape batches[] = {
        {.prefill_tokens = tokens, .prefill_area2 = tokens * tokens * (1 + i % 3), .logit_seqs = 1},
        {.decode_seqs = seqs, .context_tokens = seqs * (100 + i % 5 * 500), .logit_seqs = seqs}};
    for (int k = 0; k < 2; k++) {
      const BatchShape *batch = &batches[k];
      const double seconds = 0.01 + 20e-6 * (double)(batch->prefill_tokens + batch->decode_seqs) +
                             1e-9 * (double)batch->prefill_area2 +
                             1e-8 * (double)batch->context_tokens;
      points[n++] =
          (FitPoint){.op = PROFILE_ITERATION, .batch = *batch, .seconds = seconds, .rows = 1};
    }
  }
  FitModel model;
  fit_build(&model, points, n, &plan, &arena);
  return model;
}

Test(fit_search, a_model_has_the_terms_of_its_plan) {
  for (int left_out = PROFILE_LINEAR; left_out < PROFILE_TERMS; left_out++) {
    int segments[PROFILE_TERMS] = {0};
    for (int op = PROFILE_LINEAR + 1; op < PROFILE_TERMS; op++)
      segments[op] = op != left_out;
    const FitModel model = built_of_iterations(segments);
    cr_expect_gt(model.curves[PROFILE_LINEAR].n_knots, 1);
    for (int op = PROFILE_LINEAR + 1; op < PROFILE_TERMS; op++)
      cr_expect_eq(model.curves[op].n_knots > 0, segments[op] > 0, "without %d, %d has %d knots",
                   left_out, op, model.curves[op].n_knots);
  }
}

/* Attention that dwarfs the bends of `linear`, in no order with the tokens. */
Test(fit_search, knots_of_linear_are_found_beside_attention) {
  static const double knots[] = {16, 256, 512, 768, 1024}, slopes[] = {2e-6, 40e-6, 2e-6, 40e-6};
  FitPoint points[64];
  const FitPlan plan = {.segments = {[PROFILE_LINEAR] = 4, [PROFILE_PREFILL_ATTENTION] = 1}};
  for (int i = 0; i < 64; i++) {
    const int64_t tokens = 16 * (i + 1), past = 37 * i % 64 * 200;
    const BatchShape batch = {
        .prefill_tokens = tokens, .prefill_area2 = tokens * (tokens + 2 * past), .logit_seqs = 1};
    double seconds = 0.005 + 1e-8 * (double)batch.prefill_area2;
    for (int s = 0; s < 4; s++)
      seconds += slopes[s] * fmax(0, fmin((double)tokens, knots[s + 1]) - knots[s]);
    points[i] = (FitPoint){.op = PROFILE_ITERATION, .batch = batch, .seconds = seconds, .rows = 1};
  }
  FitModel model;
  fit_build(&model, points, 64, &plan, &arena);
  const FitCurve *linear = &model.curves[PROFILE_LINEAR];
  cr_assert_eq(linear->n_knots, 5);
  for (int k = 0; k < 5; k++)
    cr_expect_eq(linear->x[k], knots[k], "knot %d at %lld", k, (long long)linear->x[k]);
}

/* Times in which any place for a knot is as good as the next: none is better a few steps away. */
Test(fit_search, knots_are_moved_until_no_step_is_better) {
  enum { POINTS = 60, TRIALS = 4, STEPS = 8 };
  static const int64_t steps[STEPS] = {-8, -4, -2, -1, 1, 2, 4, 8}; // quarters between points
  static const FitPlan plan = {.segments = {[PROFILE_LINEAR] = 5}};
  Rng rng;
  rng_init(&rng, 5, "fit_search");
  for (int trial = 0; trial < TRIALS; trial++) {
    FitPoint points[POINTS];
    for (int i = 0; i < POINTS; i++)
      points[i] = (FitPoint){.op = PROFILE_LINEAR,
                             .batch = {.prefill_tokens = 64 * (i + 1)},
                             .seconds = 0.01 + 0.001 * i * (0.5 + rng_uniform(&rng)),
                             .rows = 1};
    FitModel model;
    fit_build(&model, points, POINTS, &plan, &arena);
    const double squares = fit_model_solve(&model, points, POINTS, &arena);
    const FitCurve *linear = &model.curves[PROFILE_LINEAR];
    cr_assert_gt(linear->n_knots, 3);
    for (int k = 1; k + 1 < linear->n_knots; k++)
      for (int i = 0; i < STEPS; i++) {
        FitModel moved = model;
        FitCurve *curve = &moved.curves[PROFILE_LINEAR];
        curve->x[k] = (linear->x[k] / 16 + steps[i]) * 16;
        if (curve->x[k] <= curve->x[k - 1] || curve->x[k] >= curve->x[k + 1]) continue;
        cr_expect_geq(fit_model_solve(&moved, points, POINTS, &arena), squares * (1 - 1e-6),
                      "trial %d: knot %d of %d at %lld is better %lld steps away", trial, k,
                      linear->n_knots, (long long)linear->x[k], (long long)steps[i]);
      }
  }
}
