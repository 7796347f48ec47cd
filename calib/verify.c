/* The table, and the single operators. Weights are read after the run: a backend whose operands
 * rotate knows only then which they were. */
#include "calib/verify.h"
#include "calib/operators.h"
#include "calib/verify_check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 192, MOST_COLUMNS = 64 }; // compared of an operator's
static const double SUM_ERROR = 1e-4;

/* ---- What a check does ---- */

CheckRows check_range(Check *self, int64_t first, int64_t n) {
  int64_t *at = ARENA_ARRAY(self->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++)
    at[i] = first + i;
  return (CheckRows){at, n};
}

CheckRows check_spread(Check *self, int64_t n, int64_t most) {
  if (n <= most) return check_range(self, 0, n);
  int64_t *at = ARENA_ARRAY(self->arena, int64_t, most);
  for (int64_t i = 0; i < most; i++)
    at[i] = most > 1 ? i * (n - 1) / (most - 1) : n - 1;
  return (CheckRows){at, most};
}

static int64_t backend_columns(const Check *self, CalibTensor tensor) {
  return self->target->backend->columns(self->target->state, tensor);
}

/* A backend may have as many words. */
static int64_t padded(int64_t vocab) {
  return (vocab + 7) / 8 * 8;
}

int64_t check_columns(const Check *self, CalibTensor tensor) {
  const int64_t columns = calib_tensor_columns(self->target->model, tensor);
  if (tensor == TENSOR_FROM || tensor == TENSOR_TO) return backend_columns(self, TENSOR_TO);
  if (tensor != TENSOR_LOGITS) return columns;
  const int64_t has = backend_columns(self, tensor);
  return has > columns && has <= padded(columns) ? has : columns;
}

/* Whether the backend has it. */
static bool check_has(const Check *self, CalibTensor tensor) {
  return backend_columns(self, tensor) != 0;
}

int64_t check_index(double number, int64_t n) {
  return number >= 0 && number < (double)n && number == floor(number) ? (int64_t)number : -1;
}

/* Buffers and the reference go by the model's widths. */
static bool is_as_wide(Check *self, CalibTensor tensor) {
  const int64_t has = backend_columns(self, tensor), columns = check_columns(self, tensor);
  const CalibSlice none = {.tensor = tensor, .sequence = CALIB_OF_ROWS};
  if (self->status || has == columns) return !self->status;
  if (has == 0) // because it could not say?
    self->status =
        self->target->backend->move(self->target->state, &none, NULL, false, self->error);
  if (self->status) return false;
  self->status = CALIB_WRONG;
  snprintf(self->error, CALIB_ERROR_SIZE,
           "'%s' has %lld columns in the backend, but %lld in the model", calib_tensor_name(tensor),
           (long long)has, (long long)columns);
  return false;
}

/* Rows that follow one another are one slice. */
static void move_rows(Check *self, CalibSlice slice, CheckRows rows, double *values, bool writes) {
  const VerifyTarget *target = self->target;
  const int64_t columns = check_columns(self, slice.tensor);
  if (!is_as_wide(self, slice.tensor)) return;
  for (int64_t i = 0; i < rows.n && !self->status; i += slice.n_rows) {
    slice.row = rows.at[i];
    for (slice.n_rows = 1; i + slice.n_rows < rows.n; slice.n_rows++)
      if (rows.at[i + slice.n_rows] != slice.row + slice.n_rows) break;
    self->status =
        target->backend->move(target->state, &slice, values + i * columns, writes, self->error);
  }
}

double *check_read(Check *self, CalibTensor tensor, int32_t layer, CheckRows rows) {
  double *values = ARENA_ARRAY(self->arena, double, rows.n *check_columns(self, tensor));
  const CalibSlice slice = {.tensor = tensor, .layer = layer, .sequence = CALIB_OF_ROWS};
  move_rows(self, slice, rows, values, false);
  return values;
}

const double *check_vector(Check *self, CalibTensor tensor, int32_t layer) {
  if (tensor == CALIB_N_TENSORS || check_columns(self, tensor) == 0) return NULL;
  return check_read(self, tensor, layer, check_range(self, 0, 1));
}

void check_read_kv(Check *self, CalibTensor tensor, int32_t layer, int32_t sequence, int64_t first,
                   int64_t n, double *ret) {
  const VerifyTarget *target = self->target;
  const CalibSlice slice = {tensor, layer, sequence, first, n};
  if (n > 0 && is_as_wide(self, tensor))
    self->status = target->backend->move(target->state, &slice, ret, false, self->error);
}

static bool is_index(CalibTensor tensor) {
  return tensor == TENSOR_BEST || tensor == TENSOR_EXPERTS || tensor == TENSOR_EXPERT_PAIRS ||
         tensor == TENSOR_EXPERT_ROWS;
}

static void check_write(Check *self, CalibTensor tensor, int32_t layer, CheckRows rows,
                        const double *values) {
  const int64_t n = rows.n * check_columns(self, tensor);
  double *copy = ARENA_ARRAY(self->arena, double, n);
  for (int64_t i = 0; i < n; i++)
    copy[i] = values ? values[i] : is_index(tensor) ? -1 : NAN;
  const CalibSlice slice = {.tensor = tensor, .layer = layer, .sequence = CALIB_OF_ROWS};
  move_rows(self, slice, rows, copy, true);
}

void check_poison(Check *self, CalibTensor tensor, CheckRows rows) {
  check_write(self, tensor, 0, rows, NULL);
}

void check_prepare(Check *self) {
  const VerifyTarget *target = self->target;
  if (!self->status)
    self->status = target->backend->prepare(target->state, &self->point, self->error);
}

void check_run(Check *self) {
  if (!self->status) self->status = self->target->backend->run(self->target->state, self->error);
}

void check_book(Check *self, CalibTensor tensor, double error) {
  self->is_compared = true;
  if (error <= self->worst) return;
  self->worst = isfinite(error) ? error : INFINITY; // which NaN is, too
  self->worst_at = tensor;
}

void check_compare(Check *self, CalibTensor tensor, const double *out, const double *reference,
                   int64_t rows, int64_t n) {
  for (; rows > 0; rows--, out += n, reference += n) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
      difference += (out[i] - reference[i]) * (out[i] - reference[i]);
      size += reference[i] * reference[i];
    }
    check_book(self, tensor, difference == 0 ? 0 : sqrt(difference / size));
  }
}

void check_output(Check *self, CalibTensor tensor, CheckRows rows, const double *reference) {
  check_compare(self, tensor, check_read(self, tensor, 0, rows), reference, rows.n,
                check_columns(self, tensor));
}

void check_best(Check *self, CheckRows rows, const double *logits) {
  const int64_t vocab = check_columns(self, TENSOR_LOGITS);
  const double *best = check_read(self, TENSOR_BEST, 0, rows);
  for (int64_t i = 0; i < rows.n; i++)
    check_book(self, TENSOR_BEST,
               best[i] == (double)reference_argmax(logits + i * vocab, vocab) ? 0 : INFINITY);
}

/* ---- Single operators ---- */

/* As the product takes them; the head's are of the model's type. */
static const double *quantized(Check *self, const double *in, CalibTensor weights, int64_t rows,
                               int64_t k) {
  double *copy = ARENA_ARRAY(self->arena, double, rows *k);
  memcpy(copy, in, (size_t)(rows * k) * sizeof *in);
  if (weights != TENSOR_HEAD_WEIGHTS)
    reference_quantize(self->target->model->weights, copy, rows, k);
  return copy;
}

void check_product_columns(Check *self, CheckRows rows, const double *in, CalibTensor weights,
                           CalibTensor bias, CalibTensor out, bool is_active) {
  const int64_t n = check_columns(self, out), k = check_columns(self, weights);
  const CheckRows columns = check_spread(self, n, MOST_COLUMNS);
  const double *all = check_read(self, out, 0, rows), *biases = check_vector(self, bias, 0);
  double *picked = ARENA_ARRAY(self->arena, double, (rows.n + 1) * columns.n);
  double *picked_biases = picked + rows.n * columns.n;
  double *reference = ARENA_ARRAY(self->arena, double, rows.n *columns.n);
  for (int64_t i = 0; i < rows.n * columns.n; i++)
    picked[i] = all[i / columns.n * n + columns.at[i % columns.n]];
  for (int64_t i = 0; biases && i < columns.n; i++)
    picked_biases[i] = biases[columns.at[i]];
  reference_product(reference, quantized(self, in, weights, rows.n, k),
                    check_read(self, weights, 0, columns), biases ? picked_biases : NULL, rows.n,
                    columns.n, k);
  for (int64_t i = 0; is_active && i < rows.n * columns.n; i++)
    reference[i] = reference_activate(self->target->model->activation, reference[i]);
  check_compare(self, out, picked, reference, rows.n, columns.n);
}

static CheckRows rows_of(Check *self) {
  return check_spread(self, self->point.size, MOST_ROWS);
}

/* Where the product of the gate or of `up` takes the activation with it, there is no tensor between
 * the two. */
static void check_product(Check *self) {
  const CheckRows rows = rows_of(self);
  const CalibProduct product = calib_product(self->point.op);
  const bool is_active = product.out == TENSOR_UP && !check_has(self, TENSOR_UP);
  const CalibTensor out = is_active ? TENSOR_ACTIVE : product.out;
  const double *in = check_read(self, product.in, 0, rows);
  check_poison(self, out, rows);
  check_run(self);
  check_product_columns(self, rows, in, product.weights, product.bias, out, is_active);
}

static void check_norm(Check *self) {
  const CheckRows rows = rows_of(self);
  const int64_t hidden = check_columns(self, TENSOR_RESIDUAL);
  double *residual = check_read(self, TENSOR_RESIDUAL, 0, rows);
  const double *added = check_read(self, TENSOR_ADDED, 0, rows);
  double *normed = ARENA_ARRAY(self->arena, double, rows.n *hidden);
  check_poison(self, TENSOR_NORMED, rows);
  check_run(self);
  for (int64_t i = 0; i < rows.n * hidden; i++)
    residual[i] += added[i];
  reference_norm(self->target->model->norm, normed, residual,
                 check_vector(self, TENSOR_FINAL_NORM, 0),
                 check_vector(self, TENSOR_FINAL_NORM_BIAS, 0), rows.n, hidden);
  check_output(self, TENSOR_RESIDUAL, rows, residual);
  check_output(self, TENSOR_NORMED, rows, normed);
}

/* Of the rows only q need be turned in place; K and V are compared where they were put. */
static void check_rope_append(Check *self) {
  const CalibModel *model = self->target->model;
  const CheckRows rows = rows_of(self);
  const int64_t columns = check_columns(self, TENSOR_QKV), kv = check_columns(self, TENSOR_KEYS);
  const int64_t q = columns - 2 * kv;
  const double *positions = check_read(self, TENSOR_POSITIONS, 0, rows);
  double *qkv = check_read(self, TENSOR_QKV, 0, rows);
  const double *q_norm = check_vector(self, TENSOR_Q_NORM, 0);
  const double *k_norm = check_vector(self, TENSOR_K_NORM, 0);
  check_run(self);
  const double *out = check_read(self, TENSOR_QKV, 0, rows);
  const double *keys = check_read(self, TENSOR_KEYS, 0, rows);
  const double *values = check_read(self, TENSOR_VALUES, 0, rows);
  for (int64_t i = 0; i < rows.n; i++) {
    double *row = qkv + i * columns;
    if (q_norm && k_norm)
      reference_norm_heads(row, q_norm, k_norm, (int32_t)(q / model->head_dim),
                           (int32_t)(kv / model->head_dim), model->head_dim);
    if (model->positions == CALIB_ROPE)
      reference_rotate(row, (int32_t)((q + kv) / model->head_dim), model->head_dim, positions[i],
                       REFERENCE_THETA);
    check_compare(self, TENSOR_QKV, out + i * columns, row, 1, q);
    check_compare(self, TENSOR_KEYS, keys + i * kv, row + q, 1, kv);
    check_compare(self, TENSOR_VALUES, values + i * kv, row + q + kv, 1, kv);
  }
}

static void check_activation(Check *self) {
  const int64_t of_token = calib_rows_of_token(self->target->model, TENSOR_ACTIVE);
  const CheckRows rows = check_spread(self, self->point.size * of_token, MOST_ROWS);
  const int64_t ffn = check_columns(self, TENSOR_ACTIVE);
  const double *in = check_read(self, TENSOR_UP, 0, rows);
  double *reference = ARENA_ARRAY(self->arena, double, rows.n *ffn);
  check_poison(self, TENSOR_ACTIVE, rows);
  check_run(self);
  reference_activation(self->target->model->activation, reference, in, rows.n, ffn);
  check_output(self, TENSOR_ACTIVE, rows, reference);
}

/* Rows of a table of `n` by number. */
static const double *look_up(Check *self, CalibTensor table, int64_t n, CalibTensor numbers,
                             CheckRows rows) {
  const double *from = check_read(self, numbers, 0, rows);
  int64_t *at = ARENA_ARRAY(self->arena, int64_t, rows.n);
  for (int64_t i = 0; i < rows.n; i++) {
    at[i] = check_index(from[i], n);
    if (at[i] >= 0) continue;
    check_book(self, numbers, INFINITY);
    at[i] = 0;
  }
  return check_read(self, table, 0, (CheckRows){at, rows.n});
}

double *check_embedded(Check *self, CheckRows rows) {
  const CalibModel *model = self->target->model;
  const int64_t n = rows.n * check_columns(self, TENSOR_RESIDUAL);
  double *out = ARENA_ARRAY(self->arena, double, n);
  const double *words = NULL, *places = NULL;
  if (model->positions == CALIB_LEARNED)
    places = look_up(self, TENSOR_POSITION_TABLE, model->max_position_embeddings, TENSOR_POSITIONS,
                     rows);
  words = look_up(self, TENSOR_EMBEDDING, padded(model->vocab_size), TENSOR_IDS, rows);
  for (int64_t i = 0; i < n; i++)
    out[i] = words[i] + (places ? places[i] : 0);
  return out;
}

static void check_embedding(Check *self) {
  const CheckRows rows = rows_of(self);
  check_poison(self, TENSOR_RESIDUAL, rows);
  check_run(self);
  check_output(self, TENSOR_RESIDUAL, rows, check_embedded(self, rows));
}

/* The last number of the first row is the greatest, and so is one before it. */
static void check_argmax(Check *self) {
  const CheckRows rows = rows_of(self);
  const int64_t vocab = check_columns(self, TENSOR_LOGITS);
  double *first = check_read(self, TENSOR_LOGITS, 0, check_range(self, 0, 1));
  first[vocab - 1] = first[vocab / 2] = 1000;
  check_write(self, TENSOR_LOGITS, 0, check_range(self, 0, 1), first);
  check_poison(self, TENSOR_BEST, rows);
  check_run(self);
  check_best(self, rows, check_read(self, TENSOR_LOGITS, 0, rows));
}

/* The rows of a part of a copy: of its beginning, its middle or its end. */
enum { COPY_PARTS = 3 };
static CheckRows part_of(Check *self, int part, int64_t columns) {
  static const int64_t MOST_NUMBERS = 1 << 16;
  const int64_t n = self->point.size, most = columns < MOST_NUMBERS ? MOST_NUMBERS / columns : 1;
  const int64_t rows = n < most ? n : most;
  return check_range(self, part * (n - rows) / (COPY_PARTS - 1), rows);
}

/* Small numbers in every type are written as bytes or as elements of pages, because keys and values
 * may lie there later. Weights that are loaded again stay weights. */
static double *write_pattern(Check *self, int32_t way, CheckRows rows, int64_t columns) {
  const int64_t n = rows.n * columns;
  double *pattern = ARENA_ARRAY(self->arena, double, n),
         *zeros = ARENA_ARRAY(self->arena, double, n);
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = rows.at[0] * columns + i + way;
    pattern[i] = (double)(1 + (at * 7 + at / 251) % 62) / (columns > 1 ? 64 : 1);
  }
  if (self->point.op == CALIB_WEIGHT_RELOAD)
    pattern = check_read(self, TENSOR_FROM, way, rows);
  else
    check_write(self, TENSOR_FROM, way, rows, pattern);
  check_write(self, TENSOR_TO, way, rows, zeros);
  return pattern;
}

static void check_copy(Check *self) {
  const int64_t columns = check_columns(self, TENSOR_TO);
  const int ways = self->point.op == CALIB_COPY_BOTH ? 2 : 1;
  const double *expected[2 * COPY_PARTS];
  if (columns == 0) return;
  for (int i = 0; i < ways * COPY_PARTS; i++)
    expected[i] =
        write_pattern(self, i / COPY_PARTS, part_of(self, i % COPY_PARTS, columns), columns);
  check_run(self);
  for (int i = 0; i < ways * COPY_PARTS; i++) {
    const CheckRows rows = part_of(self, i % COPY_PARTS, columns);
    const double *out = check_read(self, TENSOR_TO, i / COPY_PARTS, rows);
    const size_t bytes = (size_t)(rows.n * columns) * sizeof *out;
    check_book(self, TENSOR_TO, memcmp(out, expected[i], bytes) == 0 ? 0 : INFINITY);
  }
}

/* What every rank has is summed, and every rank's sums are compared: NCCL may round each partial
 * sum to the model's type. */
static void check_all_reduce(Check *self) {
  enum { SUM_ROWS = 1024 };
  const int64_t columns = check_columns(self, TENSOR_TO);
  const int32_t ranks = self->target->model->tensor_parallel_size;
  if (columns == 0) return;
  const int64_t element = self->target->model->dtype == CALIB_FP32 ? 4 : 2;
  const int64_t n_rows = self->point.size / (columns * element);
  const CheckRows rows = check_spread(self, n_rows, SUM_ROWS);
  double *sums = ARENA_ARRAY(self->arena, double, rows.n *columns);
  for (int32_t rank = 0; rank < ranks; rank++) {
    const double *in = check_read(self, TENSOR_FROM, rank, rows);
    for (int64_t i = 0; i < rows.n * columns; i++)
      sums[i] += in[i];
    check_write(self, TENSOR_TO, rank, rows, NULL);
  }
  check_run(self);
  for (int32_t rank = 0; rank < ranks; rank++)
    check_compare(self, TENSOR_TO, check_read(self, TENSOR_TO, rank, rows), sums, rows.n, columns);
}

/* ---- The table ---- */

static const int64_t TOKENS[] = {1, 2, 17, 129, 0}, FEW_TOKENS[] = {1, 129, 0}, BATCH[] = {1, 0};
static const int64_t BYTES[] = {1, 10001, 1 << 20, 0}, SUMS[] = {16, 16400, 1 << 19, 0},
                     PAGES[] = {1, 5, 13, 0};

/* An operator: what compares it, at which sizes (a batch is that of verify_terms.c), how many
 * roundings to the model's type add up in its result, and whether an activation is in it. Those of
 * a term add up as squares do. */
typedef struct Operator {
  void (*check)(Check *self);
  const int64_t *sizes;
  double roundings;
  bool is_active;
} Operator;

static const Operator OPERATORS[CALIB_N_OPS] = {
    [CALIB_ITERATION] = {check_terms, BATCH, 4, true},
    [CALIB_LINEAR] = {check_terms, FEW_TOKENS, 4, true},
    [CALIB_PREFILL_ATTENTION] = {check_terms, BATCH, 2, false},
    [CALIB_DECODE_ATTENTION] = {check_terms, BATCH, 2, false},
    [CALIB_HEAD] = {check_terms, FEW_TOKENS, 3, false},
    [CALIB_GEMM_QKV] = {check_product, TOKENS, 1, false},
    [CALIB_GEMM_O] = {check_product, TOKENS, 1, false},
    [CALIB_GEMM_UP] = {check_product, TOKENS, 1, true},
    [CALIB_GEMM_DOWN] = {check_product, TOKENS, 1, false},
    [CALIB_GEMM_HEAD] = {check_product, TOKENS, 1, false},
    [CALIB_NORM] = {check_norm, TOKENS, 2, false},
    [CALIB_ROPE_APPEND] = {check_rope_append, TOKENS, 1, false},
    [CALIB_ACTIVATION] = {check_activation, TOKENS, 1, true},
    [CALIB_EMBEDDING] = {check_embedding, TOKENS, 1, false},
    [CALIB_ARGMAX] = {check_argmax, TOKENS, 0, false},
    [CALIB_ALL_REDUCE] = {check_all_reduce, SUMS, 5, false},
    [CALIB_ALL_REDUCE_PEER] = {check_all_reduce, SUMS, 1, false},
    [CALIB_COPY_H2D] = {check_copy, BYTES, 0, false},
    [CALIB_COPY_D2H] = {check_copy, BYTES, 0, false},
    [CALIB_COPY_BOTH] = {check_copy, BYTES, 0, false},
    [CALIB_COPY_D2D] = {check_copy, BYTES, 0, false},
    [CALIB_COPY_PEER] = {check_copy, BYTES, 0, false},
    [CALIB_COPY_PAGEABLE] = {check_copy, BYTES, 0, false},
    [CALIB_KV_GATHER] = {check_copy, PAGES, 0, false},
    [CALIB_KV_SCATTER] = {check_copy, PAGES, 0, false},
    [CALIB_KV_OUT] = {check_copy, PAGES, 0, false},
    [CALIB_WEIGHT_RELOAD] = {check_copy, BYTES, 0, false},
    [CALIB_MOE_ROUTING] = {check_moe_routing, TOKENS, 0, false},
    [CALIB_MOE_GEMM_UP] = {check_moe_product, TOKENS, 1, false},
    [CALIB_MOE_GEMM_DOWN] = {check_moe_product, TOKENS, 1, false},
    [CALIB_MOE_COMBINE] = {check_moe_combine, TOKENS, 1, false},
};

/* What 8 bits add: a tensor core may sum their products with 14 bits; and where an input is the
 * result of others, some of its numbers are rounded to the next of 8 bits, an eighth away, and more
 * of those that come out of them. */
static double of_8_bits(const CalibModel *model, CalibOp op) {
  const bool is_product = op >= CALIB_GEMM_QKV && op <= CALIB_GEMM_DOWN;
  if (model->weights == CALIB_WEIGHTS_PLAIN) return 0;
  return is_product ? 0x1p-9 : op == CALIB_LINEAR || op == CALIB_ITERATION ? 0x1p-3 : 0;
}

/* A processor's tanh may be right to 11 bits only; of GELU's small results that is 8. */
double verify_tolerance(const CalibModel *model, CalibOp op) {
  const Operator *row = &OPERATORS[op];
  const double of_one = model->dtype == CALIB_BF16   ? 0x1p-8
                        : model->dtype == CALIB_FP16 ? 0x1p-11
                                                     : 0x1p-24;
  const bool is_tanh = row->is_active && model->activation == CALIB_GELU;
  return row->roundings * of_one + SUM_ERROR + of_8_bits(model, op) +
         (is_tanh && model->dtype != CALIB_FP32 ? 0x1p-8 : 0);
}

/* The model's biases and norms of q and k, and no others, take part. */
static bool has_vectors(const Check *self) {
  const CalibModel *model = self->target->model;
  return check_has(self, TENSOR_Q_NORM) == model->qk_norm &&
         check_has(self, TENSOR_K_NORM) == model->qk_norm &&
         check_has(self, TENSOR_O_BIAS) == model->bias &&
         check_has(self, TENSOR_FINAL_NORM_BIAS) == (model->norm == CALIB_LAYER_NORM);
}

static CalibStatus judge(const Check *self, double *ret_error) {
  const double tolerance = verify_tolerance(self->target->model, self->point.op);
  if (self->status || !self->is_compared) return self->status;
  *ret_error = fmax(*ret_error, self->worst); // of NAN and a number, the number
  if (self->worst <= tolerance) return CALIB_OK;
  snprintf(
      self->error, CALIB_ERROR_SIZE,
      "'%s' of %lld is wrong: '%s' differs from its reference by %.2g, at most %.2g is allowed",
      calib_op_name(self->point.op), (long long)self->point.size, calib_tensor_name(self->worst_at),
      self->worst, tolerance);
  return CALIB_WRONG;
}

CalibStatus verify_point(const VerifyTarget *target, const CalibPoint *point, double *ret_error,
                         char *error) {
  const Operator *row = &OPERATORS[point->op];
  Arena arena;
  Check check = {.target = target, .point = *point, .arena = &arena, .error = error};
  *ret_error = NAN;
  if (!target->backend->run || !row->check || !calib_has_op(target->model, point->op))
    return CALIB_OK;
  if (target->backend->supports(target->state, point)) return CALIB_OK;
  arena_init(&arena);
  check.point.hot = check.point.busy = false;
  if (row->check != check_terms) check_prepare(&check);
  if (!check.status && row->check != check_copy && !has_vectors(&check))
    check_book(&check, TENSOR_O_BIAS, INFINITY);
  if (!check.status) row->check(&check);
  arena_done(&arena);
  return judge(&check, ret_error);
}

CalibStatus verify_operator(const VerifyTarget *target, CalibOp op, double *ret_error,
                            char *error) {
  CalibStatus status = CALIB_OK;
  *ret_error = NAN;
  if (!calib_has_op(target->model, op)) return CALIB_OK;
  if (target->backend->verify) return target->backend->verify(target->state, op, ret_error, error);
  for (const int64_t *size = OPERATORS[op].sizes; size && *size && !status; size++) {
    CalibSequence sequences[VERIFY_SEQUENCES];
    CalibPoint point = {.op = op, .size = *size};
    double of_size;
    if (calib_op_size(op) == CALIB_SIZE_batch) point.batch = verify_batch(target->model, sequences);
    status = verify_point(target, &point, &of_size, error);
    *ret_error = fmax(*ret_error, of_size);
  }
  return status;
}
