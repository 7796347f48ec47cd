/* See verify_check.h. */
#include "calib/verify_check.h"
#include <math.h>

enum { MOST_TOKENS = 192, MOST_PAIRS = 192, MOST_COLUMNS = 64 };

/* `n` numbers as indices among `most`; those that are none are errors, and −1. */
static int64_t *as_indices(Check *self, CalibTensor tensor, const double *values, int64_t n,
                           int64_t most) {
  int64_t *indices = ARENA_ARRAY(self->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    indices[i] = check_index(values[i], most);
    if (indices[i] < 0) check_book(self, tensor, INFINITY);
  }
  return indices;
}

int64_t *check_read_experts(Check *self, CheckRows rows) {
  const CalibModel *model = self->target->model;
  const int64_t n = rows.n * model->num_experts_per_tok;
  int64_t *experts = as_indices(self, TENSOR_EXPERTS, check_read(self, TENSOR_EXPERTS, 0, rows), n,
                                model->num_experts);
  for (int64_t i = 0; i < n; i++)
    experts[i] = experts[i] < 0 ? 0 : experts[i];
  return experts;
}

/* Of one row. */
static double off_the_best(const CalibModel *model, const int64_t *experts, const double *logits,
                           const int64_t *best) {
  const int64_t n = model->num_experts, picked = model->num_experts_per_tok;
  double squares = 0, worst = INFINITY;
  for (int64_t e = 0; e < n; e++)
    squares += logits[e] * logits[e] / (double)n;
  for (int64_t k = 0; k < picked; k++) {
    worst = fmin(worst, logits[experts[k]]);
    for (int64_t i = 0; i < k; i++)
      if (experts[i] == experts[k]) return INFINITY;
  }
  const double short_by = logits[best[picked - 1]] - worst;
  return short_by > 0 ? short_by / (4 * sqrt(squares)) : 0;
}

void check_experts(Check *self, const int64_t *experts, const double *logits, int64_t rows) {
  const CalibModel *model = self->target->model;
  const int64_t n = model->num_experts, picked = model->num_experts_per_tok;
  int64_t *best = ARENA_ARRAY(self->arena, int64_t, picked);
  for (int64_t i = 0; i < rows; i++) {
    reference_choose(best, logits + i * n, n, picked);
    check_book(self, TENSOR_EXPERTS,
               off_the_best(model, experts + i * picked, logits + i * n, best));
  }
}

/* Where pairs lie: those of an expert together, in their own order. */
static void sort_pairs(int64_t *ret_pairs, int64_t *ret_rows, const double *experts, int64_t n,
                       int64_t n_experts) {
  int64_t row = 0;
  for (int64_t expert = 0; expert < n_experts; expert++) {
    for (int64_t pair = 0; pair < n; pair++) {
      if (experts[pair] != (double)expert) continue;
      ret_pairs[row] = pair;
      ret_rows[pair] = row++;
    }
  }
}

static void check_indices(Check *self, CalibTensor tensor, const int64_t *expected, int64_t n) {
  const int64_t columns = check_columns(self, tensor);
  const double *out = check_read(self, tensor, 0, check_range(self, 0, n / columns));
  for (int64_t i = 0; i < n; i++)
    check_book(self, tensor, out[i] == (double)expected[i] ? 0 : INFINITY);
}

/* Experts and shares of some tokens, pairs and rows of all. */
void check_moe_routing(Check *self) {
  const CalibModel *model = self->target->model;
  const int64_t n = model->num_experts, picked = model->num_experts_per_tok;
  const CheckRows all = check_range(self, 0, self->point.size);
  const CheckRows some = check_spread(self, self->point.size, MOST_TOKENS);
  const int64_t pairs = all.n * picked;
  const double *logits = check_read(self, TENSOR_ROUTER_LOGITS, 0, some);
  int64_t *best = ARENA_ARRAY(self->arena, int64_t, some.n * picked);
  double *shares = ARENA_ARRAY(self->arena, double, some.n *picked);
  check_poison(self, TENSOR_EXPERT_SHARES, some);
  check_poison(self, TENSOR_EXPERTS, all);
  check_poison(self, TENSOR_EXPERT_PAIRS, check_range(self, 0, pairs));
  check_poison(self, TENSOR_EXPERT_ROWS, all);
  check_run(self);
  for (int64_t i = 0; i < some.n; i++) {
    reference_choose(best + i * picked, logits + i * n, n, picked);
    reference_shares(model->router, shares + i * picked, logits + i * n, best + i * picked, picked);
  }
  const double *experts = check_read(self, TENSOR_EXPERTS, 0, all);
  for (int64_t i = 0; i < some.n * picked; i++) {
    const int64_t at = some.at[i / picked] * picked + i % picked;
    check_book(self, TENSOR_EXPERTS, experts[at] == (double)best[i] ? 0 : INFINITY);
  }
  check_output(self, TENSOR_EXPERT_SHARES, some, shares);
  int64_t *expected = ARENA_ARRAY(self->arena, int64_t, 2 * pairs);
  sort_pairs(expected, expected + pairs, experts, pairs, n);
  check_indices(self, TENSOR_EXPERT_PAIRS, expected, pairs);
  check_indices(self, TENSOR_EXPERT_ROWS, expected + pairs, pairs);
}

static const CalibProduct UP = {TENSOR_NORMED, TENSOR_UP_WEIGHTS, CALIB_N_TENSORS, TENSOR_UP},
                          DOWN = {TENSOR_ACTIVE, TENSOR_DOWN_WEIGHTS, CALIB_N_TENSORS,
                                  TENSOR_EXPERT_OUT};

/* Columns of one row, by the weights of its expert. */
static void check_row(Check *self, const CalibProduct *product, int64_t expert, const double *in,
                      const double *out) {
  const int64_t n = check_columns(self, product->out), k = check_columns(self, product->weights);
  const CheckRows columns = check_spread(self, n, MOST_COLUMNS);
  int64_t *of_expert = ARENA_ARRAY(self->arena, int64_t, columns.n);
  double *picked = ARENA_ARRAY(self->arena, double, 2 * columns.n);
  for (int64_t i = 0; i < columns.n; i++) {
    of_expert[i] = expert * n + columns.at[i];
    picked[i] = out[columns.at[i]];
  }
  const double *weights = check_read(self, product->weights, 0, (CheckRows){of_expert, columns.n});
  if (self->status) return;
  reference_product(picked + columns.n, in, weights, NULL, 1, columns.n, k);
  check_compare(self, product->out, picked, picked + columns.n, 1, columns.n);
}

/* Rows of pairs; of the weights that are read for one row, nothing is kept. */
void check_moe_product(Check *self) {
  const bool is_up = self->point.op == CALIB_MOE_GEMM_UP;
  const CalibProduct *product = is_up ? &UP : &DOWN;
  const int64_t picked = self->target->model->num_experts_per_tok;
  const int64_t n = check_columns(self, product->out);
  const CheckRows rows = check_spread(self, self->point.size * picked, MOST_PAIRS);
  const CheckRows tokens = check_range(self, 0, self->point.size);
  const int64_t *pairs =
      as_indices(self, TENSOR_EXPERT_PAIRS, check_read(self, TENSOR_EXPERT_PAIRS, 0, rows), rows.n,
                 tokens.n * picked);
  const int64_t *experts = check_read_experts(self, tokens);
  int64_t *from = ARENA_ARRAY(self->arena, int64_t, rows.n);
  for (int64_t i = 0; i < rows.n; i++)
    from[i] = !is_up ? rows.at[i] : pairs[i] >= 0 ? pairs[i] / picked : 0;
  const double *in = check_read(self, product->in, 0, (CheckRows){from, rows.n});
  check_poison(self, product->out, rows);
  check_run(self);
  const double *out = check_read(self, product->out, 0, rows);
  Arena *whole = self->arena;
  for (int64_t i = 0; i < rows.n && !self->status && !isinf(self->worst); i++) {
    Arena arena;
    arena_init(&arena);
    self->arena = &arena;
    check_row(self, product, experts[pairs[i]], in + i * check_columns(self, product->in),
              out + i * n);
    self->arena = whole;
    arena_done(&arena);
  }
}

void check_moe_combine(Check *self) {
  const int64_t picked = self->target->model->num_experts_per_tok;
  const int64_t hidden = check_columns(self, TENSOR_ADDED);
  const CheckRows tokens = check_spread(self, self->point.size, MOST_TOKENS);
  const double *shares = check_read(self, TENSOR_EXPERT_SHARES, 0, tokens);
  const int64_t *rows =
      as_indices(self, TENSOR_EXPERT_ROWS, check_read(self, TENSOR_EXPERT_ROWS, 0, tokens),
                 tokens.n * picked, self->point.size * picked);
  double *sums = ARENA_ARRAY(self->arena, double, tokens.n *hidden);
  if (isinf(self->worst)) return;
  const double *in = check_read(self, TENSOR_EXPERT_OUT, 0, (CheckRows){rows, tokens.n * picked});
  check_poison(self, TENSOR_ADDED, tokens);
  check_run(self);
  for (int64_t i = 0; i < tokens.n * picked; i++)
    for (int64_t h = 0; h < hidden; h++)
      sums[i / picked * hidden + h] += shares[i] * in[i * hidden + h];
  check_output(self, TENSOR_ADDED, tokens, sums);
}
