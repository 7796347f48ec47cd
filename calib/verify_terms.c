/* An iteration and its terms against the decoder, layer by layer, for all tokens of a small batch
 * or some of a large one.
 *
 * Keys and values that are there already are read before the run; those of tokens that are not
 * computed once more, after it. The rest of what is compared with the backend's results depends on
 * nothing that the backend has computed. */
#include "calib/operators.h"
#include "calib/spread.h"
#include "calib/verify_check.h"
#include <math.h>

enum { MOST_LAYERS = 3, MOST_ROWS = 192 };
static const double MOST_PRODUCTS = 4e9;        // multiplications, about as many seconds
static const double MOST_ATTENDED = 2e9;        // of attention
static const int64_t MOST_KV_NUMBERS = 1 << 26; // of keys and of values

/* Prompts with and without a past, decodes within a page, at its end and after it. */
static const CalibSequence SEQUENCES[VERIFY_SEQUENCES] = {
    {129, 45}, {17, 0}, {1, 0}, {3, 300}, {1, 15}, {1, 16}, {1, 0}, {1, 613}, {1, 255}};
enum { N_PREFILLS = 4 };

CalibBatch verify_batch(const CalibModel *model, CalibSequence *room) {
  const bool has_table = model->positions == CALIB_LEARNED;
  for (int i = 0; i < VERIFY_SEQUENCES; i++) {
    const int32_t left = model->max_position_embeddings - SEQUENCES[i].new_tokens;
    room[i] = SEQUENCES[i];
    if (has_table && room[i].past_tokens > left) room[i].past_tokens = left > 0 ? left : 0;
  }
  return (CalibBatch){.sequences = room,
                      .n_prefills = N_PREFILLS,
                      .n_decodes = VERIFY_SEQUENCES - N_PREFILLS,
                      .n_logits = VERIFY_SEQUENCES - 1};
}

/* Of one sequence, [context][columns]; NULL where none of its rows attends. */
typedef struct KeysValues {
  double *keys, *values;
} KeysValues;

/* The rows that are compared, and where each is in its sequence. */
typedef struct Terms {
  Check *check;
  unsigned parts;
  bool is_whole; // all rows are
  bool is_mixed; // its MLP is one of experts
  int32_t layers, n_sequences;
  CalibBatch batch;
  CheckRows rows;
  int32_t *sequences; // [rows]
  bool *attends;      // [rows]
  KeysValues **kv;    // [layers][sequences]
  ReferenceRows reference;
} Terms;

static int64_t context_of(const CalibSequence *sequence) {
  return (int64_t)sequence->past_tokens + sequence->new_tokens;
}

static bool has_attention(const Terms *self) {
  return self->parts & (CALIB_PART_PREFILL | CALIB_PART_DECODE);
}

/* A point of so many tokens is a prompt, or for the head as many sequences. */
static CalibBatch batch_of(Check *check) {
  const CalibPoint *point = &check->point;
  if (calib_op_size(point->op) == CALIB_SIZE_batch) return point->batch;
  const bool is_rows = point->op == CALIB_HEAD;
  const int32_t n = is_rows ? (int32_t)point->size : 1;
  CalibSequence *sequences = ARENA_ARRAY(check->arena, CalibSequence, n);
  for (int32_t i = 0; i < n; i++)
    sequences[i].new_tokens = is_rows ? 1 : (int32_t)point->size;
  return (CalibBatch){.sequences = sequences, .n_decodes = n, .n_logits = is_rows ? n : 0};
}

/* ---- Which rows ---- */

static int64_t most_rows(const Terms *self) {
  const CalibModel *model = self->check->target->model;
  if (!(self->parts & CALIB_PART_LINEAR) && has_attention(self)) {
    int64_t longest = 1;
    for (int32_t i = 0; i < self->n_sequences; i++)
      longest = (int64_t)fmax((double)longest, (double)context_of(&self->batch.sequences[i]));
    const double of_row = 2.0 * (double)check_columns(self->check, TENSOR_ATTENTION);
    return (int64_t)fmin(MOST_ROWS, fmax(4, MOST_ATTENDED / (of_row * (double)longest)));
  }
  const double columns = (double)check_columns(self->check, TENSOR_QKV) +
                         (double)check_columns(self->check, TENSOR_ATTENTION) +
                         3.0 * calib_ffn(model) * calib_rows_of_token(model, TENSOR_UP);
  const double rows = MOST_PRODUCTS / MOST_LAYERS / (columns * model->hidden_size);
  if (!(self->parts & CALIB_PART_LINEAR) || rows > MOST_ROWS) return MOST_ROWS;
  return rows > 4 ? (int64_t)rows : 4;
}

/* As many sequences as there is room for, the first and the last among them. */
static CheckRows choose_sequences(Terms *self, int64_t most, int64_t tokens) {
  const int64_t width = has_attention(self) ? check_columns(self->check, TENSOR_KEYS) : 0;
  int64_t longest = 1, sum = 0;
  for (int32_t i = 0; i < self->n_sequences; i++) {
    const int64_t context = context_of(&self->batch.sequences[i]);
    longest = context > longest ? context : longest;
    sum += context;
  }
  if (tokens <= most && sum * width <= MOST_KV_NUMBERS)
    return check_range(self->check, 0, self->n_sequences);
  const int64_t fit = width > 0 ? MOST_KV_NUMBERS / (longest * width) : most;
  return check_spread(self->check, self->n_sequences, fit < 1 ? 1 : fit < most ? fit : most);
}

/* Of each sequence its last token, and some before it. */
static void choose_rows(Terms *self) {
  Arena *arena = self->check->arena;
  const int64_t most = most_rows(self);
  int64_t tokens = 0, row = 0, next = 0;
  for (int32_t i = 0; i < self->n_sequences; i++)
    tokens += self->batch.sequences[i].new_tokens;
  const CheckRows chosen = choose_sequences(self, most, tokens);
  const int64_t share = tokens <= most ? tokens : most > chosen.n ? most / chosen.n : 1;
  const int64_t room = tokens <= most ? tokens : share * chosen.n;
  int64_t *rows = ARENA_ARRAY(arena, int64_t, room), *contexts = ARENA_ARRAY(arena, int64_t, room);
  self->sequences = ARENA_ARRAY(arena, int32_t, room);
  self->attends = ARENA_ARRAY(arena, bool, room);
  self->rows.at = rows;
  for (int32_t i = 0; i < self->n_sequences && next < chosen.n; i++) {
    const CalibSequence *sequence = &self->batch.sequences[i];
    const CheckRows some = check_spread(self->check, sequence->new_tokens, share);
    for (int64_t k = 0; chosen.at[next] == i && k < some.n; k++) {
      const int64_t at = self->rows.n++;
      rows[at] = row + some.at[k];
      contexts[at] = sequence->past_tokens + some.at[k] + 1;
      self->sequences[at] = i;
      self->attends[at] =
          self->parts & (i < self->batch.n_prefills ? CALIB_PART_PREFILL : CALIB_PART_DECODE);
    }
    next += chosen.at[next] == i;
    row += sequence->new_tokens;
  }
  self->reference.contexts = contexts;
  self->is_whole = self->rows.n == tokens;
}

/* ---- Before the run ---- */

/* Room for keys and values of the sequences that have rows. */
static void make_kv(Terms *self) {
  Arena *arena = self->check->arena;
  const int64_t width = check_columns(self->check, TENSOR_KEYS);
  self->kv = ARENA_ARRAY(arena, KeysValues *, self->layers);
  for (int32_t layer = 0; layer < self->layers; layer++) {
    self->kv[layer] = ARENA_ARRAY(arena, KeysValues, self->n_sequences);
    for (int64_t i = 0; i < self->rows.n; i++) {
      KeysValues *kv = &self->kv[layer][self->sequences[i]];
      const int64_t n = context_of(&self->batch.sequences[self->sequences[i]]) * width;
      if (kv->keys || !self->attends[i]) continue;
      kv->keys = ARENA_ARRAY(arena, double, n);
      kv->values = ARENA_ARRAY(arena, double, n);
    }
  }
}

/* Those of the past, or those of the new tokens. */
static void read_kv(Terms *self, bool is_new) {
  Check *check = self->check;
  const int64_t width = check_columns(check, TENSOR_KEYS);
  for (int32_t layer = 0; layer < self->layers; layer++) {
    for (int32_t s = 0; s < self->n_sequences; s++) {
      const KeysValues *kv = &self->kv[layer][s];
      const CalibSequence *sequence = &self->batch.sequences[s];
      const int64_t first = is_new ? sequence->past_tokens : 0;
      const int64_t n = is_new ? sequence->new_tokens : sequence->past_tokens;
      if (!kv->keys) continue;
      check_read_kv(check, TENSOR_KEYS, layer, s, first, n, kv->keys + first * width);
      check_read_kv(check, TENSOR_VALUES, layer, s, first, n, kv->values + first * width);
    }
  }
}

/* What the point's parts do not compute is there before it runs. */
static void read_inputs(Terms *self) {
  Check *check = self->check;
  ReferenceRows *rows = &self->reference;
  const bool is_linear = self->parts & CALIB_PART_LINEAR;
  const double *positions = check_read(check, TENSOR_POSITIONS, 0, self->rows);
  double *wide = ARENA_ARRAY(check->arena, double, self->rows.n);
  for (int64_t i = 0; i < self->rows.n; i++) {
    wide[i] = positions[i];
    /* Those that a table of them is asked for may be others, where a prompt is longer than it. */
    if (has_attention(self) && check->target->model->positions != CALIB_LEARNED &&
        wide[i] != (double)(rows->contexts[i] - 1))
      check_book(check, TENSOR_POSITIONS, INFINITY);
  }
  rows->n = self->rows.n;
  rows->positions = wide;
  rows->residual = is_linear ? check_embedded(check, self->rows)
                             : check_read(check, TENSOR_RESIDUAL, 0, self->rows);
  rows->added = check_read(check, TENSOR_ADDED, 0, self->rows);
  rows->qkv = check_read(check, TENSOR_QKV, 0, self->rows);
  rows->attention = check_read(check, TENSOR_ATTENTION, 0, self->rows);
  for (int64_t i = 0; is_linear && i < rows->n * check_columns(check, TENSOR_ADDED); i++)
    rows->added[i] = 0; // nothing before the first layer
  if (!has_attention(self)) return;
  make_kv(self);
  read_kv(self, false);
  if (!(self->parts & CALIB_PART_LINEAR)) read_kv(self, true);
}

/* Of the run. */
static void read_routes(Terms *self) {
  Check *check = self->check;
  const int64_t n = check->target->model->num_experts;
  self->reference.experts = check_read_experts(check, self->rows);
  self->reference.router_logits = ARENA_ARRAY(check->arena, double, self->rows.n *n);
}

static void poison_outputs(Terms *self) {
  Check *check = self->check;
  int64_t *attending = ARENA_ARRAY(check->arena, int64_t, self->rows.n), n = 0;
  for (int64_t i = 0; i < self->rows.n; i++)
    if (self->attends[i]) attending[n++] = self->rows.at[i];
  check_poison(check, TENSOR_ATTENTION, (CheckRows){attending, n});
  if (!(self->parts & CALIB_PART_LINEAR)) return;
  if (self->is_mixed) check_poison(check, TENSOR_EXPERTS, self->rows);
  check_poison(check, TENSOR_RESIDUAL, self->rows);
  check_poison(check, TENSOR_ADDED, self->rows);
}

/* ---- The same by the reference ---- */

static ReferenceLayer read_layer(Check *check, int32_t layer) {
  const CalibModel *model = check->target->model;
  const CheckRows hidden = check_range(check, 0, model->hidden_size);
  const CheckRows qkv = check_range(check, 0, check_columns(check, TENSOR_QKV));
  const bool has_gate = model->activation == CALIB_SWIGLU;
  const int64_t mlps = model->num_experts > 0 ? model->num_experts : 1;
  const int64_t columns = (has_gate ? 2 : 1) * (int64_t)calib_ffn(model);
  const CheckRows up = check_range(check, 0, mlps * columns);
  const CheckRows down = check_range(check, 0, mlps * model->hidden_size);
  const CheckRows experts = check_range(check, 0, model->num_experts);
  return (ReferenceLayer){.norm = check_vector(check, TENSOR_NORM, layer),
                          .norm_bias = check_vector(check, TENSOR_NORM_BIAS, layer),
                          .qkv = check_read(check, TENSOR_QKV_WEIGHTS, layer, qkv),
                          .qkv_bias = check_vector(check, TENSOR_QKV_BIAS, layer),
                          .q_norm = check_vector(check, TENSOR_Q_NORM, layer),
                          .k_norm = check_vector(check, TENSOR_K_NORM, layer),
                          .o = check_read(check, TENSOR_O_WEIGHTS, layer, hidden),
                          .o_bias = check_vector(check, TENSOR_O_BIAS, layer),
                          .ffn_norm = check_vector(check, TENSOR_FFN_NORM, layer),
                          .ffn_norm_bias = check_vector(check, TENSOR_FFN_NORM_BIAS, layer),
                          .up = check_read(check, TENSOR_UP_WEIGHTS, layer, up),
                          .up_bias = check_vector(check, TENSOR_UP_BIAS, layer),
                          .down = check_read(check, TENSOR_DOWN_WEIGHTS, layer, down),
                          .down_bias = check_vector(check, TENSOR_DOWN_BIAS, layer),
                          .router = check_read(check, TENSOR_ROUTER_WEIGHTS, layer, experts)};
}

static void attend_rows(const void *work, int64_t begin, int64_t end) {
  const Terms *self = work;
  for (int64_t i = begin; i < end; i++)
    if (self->attends[i]) reference_layer_attend(self->check->target->model, &self->reference, i);
}

static void attend(const Terms *self) {
  double tokens = 0;
  for (int64_t i = 0; i < self->rows.n; i++)
    tokens += self->attends[i] ? (double)self->reference.contexts[i] : 0;
  spread(attend_rows, self, self->rows.n,
         2 * tokens * (double)check_columns(self->check, TENSOR_ATTENTION));
}

/* Weights of one layer at a time are in memory. */
static void compute_layer(Terms *self, int32_t layer) {
  Check *check = self->check;
  ReferenceRows *rows = &self->reference;
  const CalibModel *model = check->target->model;
  Arena arena, *whole = check->arena;
  ReferenceLayer weights = {0};
  arena_init(&arena);
  if (has_attention(self)) {
    double **keys = ARENA_ARRAY(&arena, double *, rows->n);
    double **values = ARENA_ARRAY(&arena, double *, rows->n);
    for (int64_t i = 0; i < rows->n; i++) {
      keys[i] = self->kv[layer][self->sequences[i]].keys;
      values[i] = self->kv[layer][self->sequences[i]].values;
    }
    rows->keys = keys;
    rows->values = values;
  }
  check->arena = &arena;
  if (self->parts & CALIB_PART_LINEAR) weights = read_layer(check, layer);
  check->arena = whole;
  if (self->parts & CALIB_PART_LINEAR && !check->status)
    reference_layer_begin(model, &weights, rows);
  if (!check->status) attend(self);
  if (self->parts & CALIB_PART_LINEAR && !check->status) reference_layer_end(model, &weights, rows);
  rows->keys = rows->values = NULL;
  arena_done(&arena);
}

/* Logits of the rows that are computed. */
static void compare_head(Terms *self, CheckRows logits, const int64_t *at) {
  Check *check = self->check;
  const ReferenceRows *rows = &self->reference;
  const int64_t hidden = check_columns(check, TENSOR_RESIDUAL);
  double *sum = ARENA_ARRAY(check->arena, double, logits.n *hidden);
  double *normed = ARENA_ARRAY(check->arena, double, logits.n *hidden);
  for (int64_t i = 0; i < logits.n * hidden; i++) {
    const int64_t from = at[i / hidden] * hidden + i % hidden;
    sum[i] = rows->residual[from] + rows->added[from];
  }
  reference_norm(check->target->model->norm, normed, sum, check_vector(check, TENSOR_FINAL_NORM, 0),
                 check_vector(check, TENSOR_FINAL_NORM_BIAS, 0), logits.n, hidden);
  check_product_columns(check, logits, normed, TENSOR_HEAD_WEIGHTS, CALIB_N_TENSORS, TENSOR_LOGITS,
                        false);
  check_best(check, logits, check_read(check, TENSOR_LOGITS, 0, logits));
}

/* Those logits whose rows are computed, and which of these they are. */
static CheckRows find_logits(Terms *self, int64_t *ret_at) {
  Check *check = self->check;
  const CheckRows all =
      check_range(check, 0, self->parts & CALIB_PART_HEAD ? self->batch.n_logits : 0);
  const double *rows = check_read(check, TENSOR_LOGIT_ROWS, 0, all);
  int64_t *logits = ARENA_ARRAY(check->arena, int64_t, all.n), n = 0;
  for (int64_t i = 0; i < all.n; i++) {
    for (int64_t row = 0; row < self->rows.n; row++) {
      if (rows[i] != (double)self->rows.at[row]) continue;
      logits[n] = i;
      ret_at[n++] = row;
    }
  }
  return (CheckRows){logits, n};
}

void check_terms(Check *check) {
  Terms self = {.check = check, .parts = calib_parts(check->point.op), .batch = batch_of(check)};
  self.n_sequences = self.batch.n_prefills + self.batch.n_decodes;
  choose_rows(&self);
  /* Layers may share their pages where memory is short, and then only the last one's are left. */
  const int32_t layers = check->target->model->num_hidden_layers;
  /* And only the last one's routes. */
  self.is_mixed = self.parts & CALIB_PART_LINEAR && check->target->model->num_experts > 0;
  self.layers = !self.is_whole || self.is_mixed ? 1 : layers < MOST_LAYERS ? layers : MOST_LAYERS;
  check->point.layers = self.layers;
  check_prepare(check);
  int64_t *at = ARENA_ARRAY(check->arena, int64_t, self.batch.n_logits);
  const CheckRows logits = find_logits(&self, at);
  read_inputs(&self);
  poison_outputs(&self);
  if (logits.n > 0) {
    check_poison(check, TENSOR_LOGITS, logits);
    check_poison(check, TENSOR_BEST, logits);
  }
  check_run(check);
  if (has_attention(&self) && self.parts & CALIB_PART_LINEAR && !self.is_whole)
    read_kv(&self, true);
  if (self.is_mixed) read_routes(&self);
  for (int32_t layer = 0; layer < self.layers; layer++)
    compute_layer(&self, layer);
  if (self.is_mixed && !check->status)
    check_experts(check, self.reference.experts, self.reference.router_logits, self.rows.n);
  check_output(check, TENSOR_ATTENTION, self.rows, self.reference.attention);
  check_output(check, TENSOR_RESIDUAL, self.rows, self.reference.residual);
  check_output(check, TENSOR_ADDED, self.rows, self.reference.added);
  if (logits.n > 0) compare_head(&self, logits, at);
}
