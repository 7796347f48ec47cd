/* FlexGen's policy (Sheng et al. 2023, §4.3): its linear program against closed forms and against
 * all shares of a grid. */
#include "sim/kvtier/flexgen_policy.h"
#include "tests/unit/testing.h"
#include <math.h>

TestSuite(flexgen);

static double prefill_s(void *context, int64_t sequences) {
  (void)context;
  return 0.001 + 0.001 * (double)sequences;
}

static double decode_s(void *context, int64_t sequences) {
  (void)context;
  return 0.0005 + 0.00001 * (double)sequences;
}

/* Ten layers of 100 MB; a token takes 10 kB of KV and 1 kB of activations; 100 and 20 tokens. */
static FlexGenInputs inputs_of(double gpu, double cpu, double disk) {
  return (FlexGenInputs){.layers = 10,
                         .weight_bytes = 1e8,
                         .kv_bytes = 1e4,
                         .activation_bytes = 1e3,
                         .prompt = 100,
                         .output = 20,
                         .memory = {gpu, cpu, disk},
                         .to_gpu = 1e10,
                         .to_cpu = 8e9,
                         .from_disk = 2e9,
                         .to_disk = 1e9,
                         .prefill_s = prefill_s,
                         .decode_s = decode_s};
}

static double places(const double *shares) {
  return shares[0] + shares[1] + shares[2];
}

/* All of 4 sequences is 1 GB of weights, 48 MB of KV and 0.4 MB of activations. */
Test(flexgen, what_fits_stays_on_the_gpu) {
  const FlexGenInputs inputs = inputs_of(1.1e9, 1e10, 0);
  FlexGenPolicy policy = {.gpu_batch = 4, .n_gpu_batches = 1};
  cr_assert(flexgen_solve(&inputs, &policy));
  cr_expect_float_eq(policy.weights[FLEXGEN_GPU], 1, 1e-9);
  cr_expect_float_eq(policy.kv[FLEXGEN_GPU], 1, 1e-9);
  cr_expect_float_eq(policy.seconds, 10 * (0.005 + 19 * 0.00054), 1e-12);
}

/* 0.6 GB: of 1.0484 GB 0.4484 must go. A share of the weights frees 0.8 of its GB, as two layers
 * have buffers, and each decode reads it: 0.1 GB at 10 GB/s a layer for all. A share of KV frees
 * 0.0384 GB and takes a decode 4·110·10 kB: weights take 12.5 ms for each GB that is freed, KV
 * 11.5 ms, so KV goes first, all of it, then 0.5125 of the weights. */
Test(flexgen, what_frees_most_for_its_copies_goes_first) {
  const FlexGenInputs inputs = inputs_of(6e8, 1e10, 0);
  FlexGenPolicy policy = {.gpu_batch = 4, .n_gpu_batches = 1};
  cr_assert(flexgen_solve(&inputs, &policy));
  cr_expect_float_eq(policy.kv[FLEXGEN_CPU], 1, 1e-6, "%g", policy.kv[FLEXGEN_CPU]);
  const double weights = (1.0484e9 - 6e8 - 3.84e7) / 8e8;
  cr_expect_float_eq(policy.weights[FLEXGEN_CPU], weights, 1e-3, "%g, not %g",
                     policy.weights[FLEXGEN_CPU], weights);
  const double decode = (weights * 1e8 + 4.4e6) / 1e10, prefill = fmax(0.005, weights * 0.01);
  cr_expect_float_eq(policy.seconds, 10 * (prefill + 19 * decode), 1e-3 * policy.seconds);
}

Test(flexgen, what_fits_nowhere_has_no_policy) {
  const FlexGenInputs inputs = inputs_of(3e8, 5e8, 0);
  FlexGenPolicy policy = {.gpu_batch = 4, .n_gpu_batches = 1};
  cr_expect(!flexgen_solve(&inputs, &policy));
  cr_expect(!flexgen_search(&inputs, 1000, &policy));
}

/* Shares in steps of a fifth, of all three kinds. */
static double best_of_grid(const FlexGenInputs *inputs, FlexGenPolicy policy) {
  enum { STEPS = 5 };
  double best = INFINITY;
  int i[6];
  for (i[0] = 0; i[0] <= STEPS; i[0]++)
    for (i[1] = 0; i[0] + i[1] <= STEPS; i[1]++)
      for (i[2] = 0; i[2] <= STEPS; i[2]++)
        for (i[3] = 0; i[2] + i[3] <= STEPS; i[3]++)
          for (i[4] = 0; i[4] <= STEPS; i[4]++)
            for (i[5] = 0; i[4] + i[5] <= STEPS; i[5]++) {
              double *const kinds[] = {policy.weights, policy.kv, policy.activations};
              for (int k = 0; k < 3; k++) {
                kinds[k][FLEXGEN_CPU] = (double)i[2 * k] / STEPS;
                kinds[k][FLEXGEN_DISK] = (double)i[2 * k + 1] / STEPS;
              }
              best = fmin(best, flexgen_seconds(inputs, &policy));
            }
  return best;
}

/* No point of the grid is better, and one of its next points is about as good. */
Test(flexgen, no_shares_are_better) {
  static const double memories[][3] = {
      {1.1e9, 1e10, 0},    {8e8, 1e10, 0},     {6e8, 1e10, 1e11}, {4e8, 6e8, 1e11},
      {5e8, 4e8, 1e10},    {2.5e8, 1e9, 1e11}, {7e8, 1e10, 1e11}, {3e8, 3e8, 1e11},
      {1.05e9, 2e8, 1e11}, {9e8, 1e9, 1e9},
  };
  static const int64_t sizes[][2] = {{1, 1}, {4, 1}, {8, 3}, {2, 20}, {32, 1}};
  int solved = 0;
  for (size_t m = 0; m < sizeof memories / sizeof *memories; m++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      const FlexGenInputs inputs = inputs_of(memories[m][0], memories[m][1], memories[m][2]);
      FlexGenPolicy policy = {.gpu_batch = sizes[s][0], .n_gpu_batches = sizes[s][1]};
      const double grid = best_of_grid(&inputs, policy);
      const bool found = flexgen_solve(&inputs, &policy);
      cr_assert(found || isinf(grid), "memory %zu, size %zu: the grid has one", m, s);
      if (!found) continue;
      solved++;
      cr_expect_leq(policy.seconds, grid * (1 + 1e-9), "memory %zu, size %zu", m, s);
      cr_expect_float_eq(places(policy.weights), 1, 1e-9);
      cr_expect_float_eq(places(policy.kv), 1, 1e-9);
      cr_expect_float_eq(places(policy.activations), 1, 1e-9);
      if (isfinite(grid))
        cr_expect_geq(policy.seconds, grid * 0.5, "%g of %g", policy.seconds, grid);
    }
  cr_expect_geq(solved, 30);
}

/* With room for all, larger GPU batches share each decode's fixed time. */
Test(flexgen, the_search_takes_the_block_with_the_most_tokens_a_second) {
  FlexGenInputs inputs = inputs_of(1e12, 1e12, 0);
  FlexGenPolicy best;
  cr_assert(flexgen_search(&inputs, 300, &best));
  cr_expect_eq(best.gpu_batch, 256);
  cr_expect_eq(best.n_gpu_batches, 1);
  inputs = inputs_of(4e8, 1e10, 0);
  cr_assert(flexgen_search(&inputs, 300, &best));
  for (int64_t batch = 1; batch <= 256; batch *= 2)
    for (int64_t n = 1; n <= 20 && batch * n <= 300; n++) {
      FlexGenPolicy other = {.gpu_batch = batch, .n_gpu_batches = n};
      if (flexgen_solve(&inputs, &other))
        cr_expect_leq((double)(batch * n) / other.seconds,
                      (double)(best.gpu_batch * best.n_gpu_batches) / best.seconds * (1 + 1e-9));
    }
}
