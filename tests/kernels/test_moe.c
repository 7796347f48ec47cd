/* The kernels of a mixture of experts against calib/reference.h: routes exactly, products and sums
 * by the error of each row, of experts that have many rows, one or none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/reference.h"
#include "kernels/half.h"
#include "kernels/moe.h"
#include "tests/kernels/expected.h"
#include "tests/kernels/kernel_testing.h"

/* Who is chosen: by chance, all tokens the same, or never the odd ones; with what has no order. */
typedef enum Crowd { EVEN, ONE_HAS_ALL, HALF_ARE_EMPTY, HARD } Crowd;

typedef struct Case {
  int32_t tokens, experts, per_token;
  CalibRouter router;
  Crowd crowd;
} Case;

static uint16_t *make_logits(CalibDtype dtype, const Case *c, uint64_t seed) {
  uint16_t *const logits = random_elements(dtype, (int64_t)c->tokens * c->experts, 1.5, seed);
  for (int64_t i = 0; i < (int64_t)c->tokens * c->experts; i++) {
    const int64_t expert = i % c->experts, token = i / c->experts;
    if (c->crowd == ONE_HAS_ALL && expert < c->per_token)
      half_store(dtype, logits, i, (double)(20 - expert));
    if (c->crowd == HALF_ARE_EMPTY && expert % 2 == 1) half_store(dtype, logits, i, -30);
    if (c->crowd != HARD) continue;
    if (token % 3 == 0) half_store(dtype, logits, i, (double)(expert % 3)); // ties
    if (token % 3 == 1 && expert % 2 == 0) half_store(dtype, logits, i, NAN);
    if (token % 3 == 2 && expert > 0) half_store(dtype, logits, i, -INFINITY);
  }
  return logits;
}

/* A device's routes and what they should be. */
typedef struct Routes {
  KernelMoe device;
  int64_t *chosen, *pairs, *rows, *starts;
  double *shares;
  int64_t n;
} Routes;

static Routes make_routes(CalibDtype dtype, const Case *c, const uint16_t *logits) {
  Routes self = {.n = (int64_t)c->tokens * c->per_token};
  const size_t bytes = (size_t)self.n * 4;
  self.device = (KernelMoe){.dtype = dtype,
                            .router = c->router,
                            .experts = c->experts,
                            .per_token = c->per_token,
                            .tokens = c->tokens,
                            .chosen = device_alloc(bytes),
                            .shares = device_alloc(bytes),
                            .starts = device_alloc((size_t)(c->experts + 1) * 4),
                            .pairs = device_alloc(bytes),
                            .rows = device_alloc(bytes)};
  self.chosen = calloc((size_t)self.n + 1, sizeof *self.chosen);
  self.pairs = calloc((size_t)self.n + 1, sizeof *self.pairs);
  self.rows = calloc((size_t)self.n + 1, sizeof *self.rows);
  self.starts = calloc((size_t)c->experts + 1, sizeof *self.starts);
  self.shares = calloc((size_t)self.n + 1, sizeof *self.shares);
  double *const numbers = decoded(dtype, logits, (int64_t)c->tokens * c->experts);
  for (int64_t token = 0; token < c->tokens; token++) {
    const double *const own = numbers + token * c->experts;
    int64_t *const chosen = self.chosen + token * c->per_token;
    reference_choose(chosen, own, c->experts, c->per_token);
    reference_shares(c->router, self.shares + token * c->per_token, own, chosen, c->per_token);
  }
  free(numbers);
  int64_t row = 0;
  for (int64_t expert = 0; expert < c->experts; expert++) {
    self.starts[expert] = row;
    for (int64_t pair = 0; pair < self.n; pair++) {
      if (self.chosen[pair] != expert) continue;
      self.pairs[row] = pair;
      self.rows[pair] = row++;
    }
  }
  self.starts[c->experts] = row;
  return self;
}

static void free_routes(Routes *self) {
  void *const device[] = {self->device.chosen, self->device.shares, self->device.starts,
                          self->device.pairs, self->device.rows};
  void *const host[] = {self->chosen, self->pairs, self->rows, self->starts, self->shares};
  for (int i = 0; i < 5; i++) {
    device_free(device[i]);
    free(host[i]);
  }
}

static void expect_indices(const Case *c, const char *what, const int32_t *device,
                           const int64_t *expected, int64_t n) {
  int32_t *const got = device_fetch(device, (size_t)n * sizeof *got);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; i++)
    wrong += got[i] != expected[i];
  expect_true(wrong == 0, "%d of %d experts for %d tokens, crowd %d: %lld of %lld %s are wrong",
              c->per_token, c->experts, c->tokens, c->crowd, (long long)wrong, (long long)n, what);
  free(got);
}

static void check_routing(CalibDtype dtype, const Case *c) {
  uint16_t *const logits = make_logits(dtype, c, 31);
  void *const on_device = device_copy(logits, (size_t)c->tokens * (size_t)c->experts * 2);
  Routes routes = make_routes(dtype, c, logits);
  const int status = kernel_moe_routing(NULL, &routes.device, on_device);
  expect_true(status == 0, "routing returns %d", status);
  expect_indices(c, "choices", routes.device.chosen, routes.chosen, routes.n);
  expect_indices(c, "starts", routes.device.starts, routes.starts, c->experts + 1);
  expect_indices(c, "pairs", routes.device.pairs, routes.pairs, routes.n);
  expect_indices(c, "rows", routes.device.rows, routes.rows, routes.n);
  float *const shares = device_fetch(routes.device.shares, (size_t)routes.n * sizeof *shares);
  double worst = 0;
  for (int64_t i = 0; i < routes.n; i++) {
    const double off = fabs(shares[i] - routes.shares[i]);
    const bool is_same = isnan(shares[i]) && isnan(routes.shares[i]);
    if (!is_same) worst = isfinite(off) ? fmax(worst, off) : INFINITY;
  }
  expect_error_below(worst, 1e-5, "shares of %d of %d experts, router %d", c->per_token, c->experts,
                     c->router);
  free(shares);
  free(logits);
  device_free(on_device);
  free_routes(&routes);
}

/* The worst row of out [rows][n] = in[…] · weights of the row's expert. */
static double product_error(CalibDtype dtype, const Routes *routes, bool gathers,
                            const uint16_t *out, const uint16_t *in, const uint16_t *weights,
                            int32_t n, int32_t k) {
  double *const expected = malloc((size_t)n * sizeof *expected), worst = 0;
  for (int64_t row = 0; row < routes->n; row++) {
    const int64_t pair = routes->pairs[row], expert = routes->chosen[pair];
    const int64_t from = gathers ? pair / routes->device.per_token : row;
    double *const x = decoded(dtype, in + from * k, k);
    double *const w = decoded(dtype, weights + expert * n * k, (int64_t)n * k);
    reference_product(expected, x, w, NULL, 1, n, k);
    worst = fmax(worst, relative_error(dtype, out + row * n, expected, n));
    free(x);
    free(w);
  }
  free(expected);
  return worst;
}

static void check_gemm(CalibDtype dtype, const Case *c, int32_t tile_rows, bool gathers, int32_t n,
                       int32_t k) {
  uint16_t *const logits = make_logits(dtype, c, 32);
  void *const logits_there = device_copy(logits, (size_t)c->tokens * (size_t)c->experts * 2);
  Routes routes = make_routes(dtype, c, logits);
  const int64_t n_in = (gathers ? c->tokens : routes.n) * (int64_t)k;
  const int64_t n_weights = (int64_t)c->experts * n * k;
  uint16_t *const in = random_elements(dtype, n_in, 1, 33);
  uint16_t *const weights = random_elements(dtype, n_weights, 0.1, 34);
  void *const there[] = {device_copy(in, (size_t)n_in * 2),
                         device_copy(weights, (size_t)n_weights * 2),
                         device_alloc((size_t)routes.n * (size_t)n * 2)};
  int status = kernel_moe_routing(NULL, &routes.device, logits_there);
  if (status == 0) status = kernel_moe_load(dtype);
  device_take_counts();
  if (status == 0)
    status = kernel_moe_gemm(NULL, &routes.device, tile_rows, gathers, there[2], there[0], there[1],
                             n, k);
  expect_true(status == 0, "product returns %d", status);
  expect_true(device_take_counts().bank_conflicts == 0, "tiles of %d have bank conflicts",
              tile_rows);
  uint16_t *const out = device_fetch(there[2], (size_t)routes.n * (size_t)n * 2);
  expect_error_below(product_error(dtype, &routes, gathers, out, in, weights, n, k),
                     half_error(dtype),
                     "tiles of %d rows, gathers %d, %d of %d experts, %d tokens, crowd %d, %dx%d",
                     tile_rows, gathers, c->per_token, c->experts, c->tokens, c->crowd, n, k);
  for (int i = 0; i < 3; i++)
    device_free(there[i]);
  device_free(logits_there);
  free(logits);
  free(in);
  free(weights);
  free(out);
  free_routes(&routes);
}

static void check_combine(CalibDtype dtype, const Case *c, int32_t hidden) {
  uint16_t *const logits = make_logits(dtype, c, 35);
  void *const logits_there = device_copy(logits, (size_t)c->tokens * (size_t)c->experts * 2);
  Routes routes = make_routes(dtype, c, logits);
  uint16_t *const in = random_elements(dtype, routes.n * hidden, 1, 36);
  void *const in_there = device_copy(in, (size_t)(routes.n * hidden) * 2);
  void *const out_there = device_alloc((size_t)c->tokens * (size_t)hidden * 2);
  int status = kernel_moe_routing(NULL, &routes.device, logits_there);
  if (status == 0) status = kernel_moe_combine(NULL, &routes.device, out_there, in_there, hidden);
  expect_true(status == 0, "combine returns %d", status);
  double *const expected = calloc((size_t)c->tokens * (size_t)hidden, sizeof *expected);
  for (int64_t pair = 0; pair < routes.n; pair++)
    for (int64_t i = 0; i < hidden; i++)
      expected[pair / c->per_token * hidden + i] +=
          routes.shares[pair] * half_load(dtype, in, routes.rows[pair] * hidden + i);
  uint16_t *const out = device_fetch(out_there, (size_t)c->tokens * (size_t)hidden * 2);
  expect_error_below(greatest_error(dtype, out, expected, (int64_t)c->tokens * hidden, 0.05),
                     half_error(dtype), "sums of %d tokens of %d", c->tokens, hidden);
  device_free(logits_there);
  device_free(in_there);
  device_free(out_there);
  free(logits);
  free(in);
  free(out);
  free(expected);
  free_routes(&routes);
}

static const Case ROUTES[] = {
    {1, 8, 2, CALIB_SOFTMAX, EVEN},     {5, 1, 1, CALIB_SOFTMAX, EVEN},
    {33, 60, 4, CALIB_SOFTMAX, HARD},   {17, 128, 8, CALIB_SOFTMAX, EVEN},
    {129, 128, 8, CALIB_SIGMOID, HARD}, {64, 256, 8, CALIB_SIGMOID, HALF_ARE_EMPTY},
    {3, 512, 16, CALIB_SOFTMAX, EVEN},  {300, 40, 8, CALIB_SOFTMAX, ONE_HAS_ALL},
    {7, 16, 16, CALIB_SIGMOID, HARD},   {1100, 9, 3, CALIB_SOFTMAX, EVEN},
    {256, 64, 8, CALIB_SOFTMAX, EVEN},  {1021, 5, 1, CALIB_SIGMOID, EVEN}, // all threads
};

/* Rows of an expert beside a tile's edges, and none. */
static const Case PRODUCTS[] = {
    {1, 8, 2, CALIB_SOFTMAX, EVEN},          {70, 40, 3, CALIB_SOFTMAX, HALF_ARE_EMPTY},
    {129, 5, 1, CALIB_SOFTMAX, ONE_HAS_ALL}, {100, 4, 2, CALIB_SIGMOID, EVEN},
    {1, 64, 8, CALIB_SOFTMAX, EVEN}, // no more tiles than experts that have a row
};

int main(int argc, char **argv) {
  static const int32_t TILES[] = {16, 64, 128};
  static const int32_t SHAPES[][2] = {{8, 64}, {136, 72}, {264, 200}};
  const bool is_small = is_small_run(argc, argv);
  kernel_testing_begin("moe");
  for (CalibDtype dtype = CALIB_BF16; dtype <= CALIB_FP16; dtype++) {
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
      device_seed(i);
      check_routing(dtype, &ROUTES[i]);
    }
    for (size_t i = 0; i < sizeof PRODUCTS / sizeof *PRODUCTS; i++) {
      for (int at = 0; at < 3; at++) {
        if (is_small && i > 1) continue;
        device_seed(3 * i + (size_t)at);
        const int32_t *const shape = SHAPES[(i + (size_t)at) % 3];
        check_gemm(dtype, &PRODUCTS[i], TILES[at], at % 2 == 0, shape[0], shape[1]);
        check_gemm(dtype, &PRODUCTS[i], TILES[at], at % 2 == 1, shape[0], shape[1]);
      }
      check_combine(dtype, &PRODUCTS[i], 200);
    }
  }
  Routes none = {.device = {.dtype = CALIB_BF16, .experts = 4, .per_token = 2}};
  expect_true(kernel_moe_routing(NULL, &none.device, NULL) == 0, "no tokens are no work");
  expect_true(kernel_moe_gemm(NULL, &none.device, 16, true, NULL, NULL, NULL, 12, 64) != 0,
              "columns that are no whole vectors are refused");
  none.device.tokens = 1;
  expect_true(kernel_moe_gemm(NULL, &none.device, 32, true, NULL, NULL, NULL, 8, 8) != 0,
              "other tiles are refused");
  none.device.per_token = 5;
  expect_true(kernel_moe_routing(NULL, &none.device, NULL) != 0, "more than all are refused");
  return kernel_testing_end();
}
