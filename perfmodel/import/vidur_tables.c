/* Vidur's tables.
 *
 * What they leave out, and how it is filled in: norms, the residual add and the embedding do not
 * depend on tensor parallelism and were timed at 1 only, so other degrees take those of the same
 * token count at 1. The embedding runs once, all else once in each layer (the residual add too,
 * which is how Vidur counts it). All-reduces were timed apart: they become rows of their own when
 * the table of collectives is there, and the fit adds two to each layer. The head was not timed.
 * kv_cache_size is the past of a prefill chunk and the context of each decode. */
#include "perfmodel/import/vidur_tables.h"
#include "sim/base/csv.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { MAX_TOKENS = 1 << 24, US_PER_MS = 1000 };

/* ---- Collectives ---- */

typedef struct CollectiveRow {
  const char *collective;
  int64_t num_workers, devices_per_node, size;
  double median_ms;
  Place at;
} CollectiveRow;

#define COLLECTIVE(field, kind, limits) CSV_FIELD(CollectiveRow, field, kind, limits)

static const CsvColumn COLLECTIVE_COLUMNS[] = {COLLECTIVE(collective, CSV_TEXT, CSV_ANY),
                                               COLLECTIVE(num_workers, CSV_INT, CSV_POSITIVE),
                                               COLLECTIVE(devices_per_node, CSV_INT, CSV_POSITIVE),
                                               COLLECTIVE(size, CSV_INT, CSV_POSITIVE),
                                               {.name = "time_stats.all_reduce.median",
                                                .type = CSV_REAL,
                                                .offset = offsetof(CollectiveRow, median_ms),
                                                .range = CSV_POSITIVE},
                                               {0}};

/* All-reduces within a node, by number of GPUs and size. */
typedef struct Collectives {
  CollectiveRow *rows;
  size_t n, capacity;
} Collectives;

static int compare_collectives(const void *a, const void *b) {
  const CollectiveRow *left = a, *right = b;
  if (left->num_workers != right->num_workers)
    return left->num_workers < right->num_workers ? -1 : 1;
  return (left->size > right->size) - (left->size < right->size);
}

static int read_collectives(Csv *csv, Collectives *self, Diag *diag) {
  CollectiveRow row = {0};
  int status = 1, error = csv_header(csv, COLLECTIVE_COLUMNS, false, diag);
  if (error) return error;
  while ((status = csv_next(csv, &row, diag)) != 0) {
    if (status < 0) error = -1;
    if (status < 0 || row.num_workers != row.devices_per_node) continue;
    row.at = csv_place(csv, NULL);
    ARENA_RESERVE(csv->arena, self->rows, self->capacity, self->n + 1);
    self->rows[self->n++] = row;
  }
  if (self->n > 0) qsort(self->rows, self->n, sizeof *self->rows, compare_collectives);
  return error;
}

/* ---- Linear operators ---- */

enum { N_OPS = 10 };

typedef struct LinearRow {
  double ops_ms[N_OPS]; // NAN: not in this row
  int64_t n_head, n_kv_head, n_embd, num_tokens, num_tensor_parallel_workers;
  Place at;
} LinearRow;

#define OP(i, op, missing)                                                                         \
  {                                                                                                \
    .name = "time_stats." op ".median", .type = CSV_REAL,                                          \
    .offset = offsetof(LinearRow, ops_ms[i]),                                                      \
    .range = (missing) ? CSV_NOT_NEGATIVE : CSV_POSITIVE, .may_be_empty = missing,                 \
    .may_miss = missing                                                                            \
  }
#define LINEAR(field) CSV_FIELD(LinearRow, field, CSV_INT, CSV_POSITIVE)

/* The embedding comes first; what may miss is timed without tensor parallelism, or not at all. */
static const CsvColumn LINEAR_COLUMNS[] = {OP(0, "emb", true),
                                           OP(1, "input_layernorm", true),
                                           OP(2, "post_attention_layernorm", true),
                                           OP(3, "add", true),
                                           OP(4, "attn_rope", true),
                                           OP(5, "attn_pre_proj", false),
                                           OP(6, "attn_post_proj", false),
                                           OP(7, "mlp_up_proj", false),
                                           OP(8, "mlp_act", false),
                                           OP(9, "mlp_down_proj", false),
                                           LINEAR(n_head),
                                           LINEAR(n_kv_head),
                                           LINEAR(n_embd),
                                           LINEAR(num_tokens),
                                           LINEAR(num_tensor_parallel_workers),
                                           {0}};

/* What all three readers share. */
typedef struct Reading {
  const ImportInput *input;
  Profile *profile;
  Llm llm;
  Collectives collectives;
  int64_t unequal_rows, idle_rows; // passed over
} Reading;

/* The rows must be of the model that the user named. */
static int check_shape(const Reading *self, const Csv *csv, int64_t heads, int64_t kv_heads,
                       int64_t hidden, Diag *diag) {
  const Llm *llm = &self->llm;
  if (heads == llm->num_attention_heads && kv_heads == llm->num_key_value_heads &&
      hidden == llm->hidden_size)
    return 0;
  return diag_error(diag, csv_place(csv, "n_embd"),
                    "the row is of %lld heads, %lld KV heads and hidden size %lld, '%s' has %lld, "
                    "%lld and %lld",
                    (long long)heads, (long long)kv_heads, (long long)hidden, llm->name,
                    (long long)llm->num_attention_heads, (long long)llm->num_key_value_heads,
                    (long long)llm->hidden_size);
}

static int compare_linear(const void *a, const void *b) {
  const LinearRow *left = a, *right = b;
  const int64_t keys[][2] = {
      {left->num_tensor_parallel_workers, right->num_tensor_parallel_workers},
      {left->num_tokens, right->num_tokens},
      {left->at.line, right->at.line}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
  return 0;
}

/* Milliseconds of an operator: the row's own, or those of the same token count in the sorted rows
 * without tensor parallelism; 0 where it was not timed at all. */
static double op_ms(const LinearRow *rows, size_t n, const LinearRow *row, int op) {
  if (!isnan(row->ops_ms[op])) return row->ops_ms[op];
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    bool before =
        rows[middle].num_tensor_parallel_workers == 1 && rows[middle].num_tokens < row->num_tokens;
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < n && rows[low].num_tensor_parallel_workers == 1 &&
               rows[low].num_tokens == row->num_tokens && !isnan(rows[low].ops_ms[op]);
  return found ? rows[low].ops_ms[op] : 0;
}

static void add_linear(Reading *self, const LinearRow *rows, size_t n, const LinearRow *row) {
  const int64_t gpus = row->num_tensor_parallel_workers;
  double layer_ms = 0;
  for (int op = 1; op < N_OPS; op++)
    layer_ms += op_ms(rows, n, row, op);
  double ms = op_ms(rows, n, row, 0) + layer_ms * (double)self->llm.num_hidden_layers;
  ProfileRow added = import_row(self->input->model, self->input->gpu, gpus, PROFILE_LINEAR,
                                (BatchShape){.prefill_tokens = row->num_tokens}, ms * US_PER_MS);
  added.at = row->at;
  profile_add(self->profile, &added);
}

/* Those of as many GPUs as layers were timed on. */
static void add_collectives(Reading *self, const LinearRow *rows, size_t n) {
  for (size_t i = 0; i < self->collectives.n; i++) {
    const CollectiveRow *row = &self->collectives.rows[i];
    size_t k = 0;
    while (k < n && rows[k].num_tensor_parallel_workers != row->num_workers)
      k++;
    if (k == n || row->num_workers == 1) continue;
    ProfileRow added = import_row(self->input->model, self->input->gpu, row->num_workers,
                                  PROFILE_ALL_REDUCE, (BatchShape){0}, row->median_ms * US_PER_MS);
    added.size = row->size;
    added.at = row->at;
    profile_add(self->profile, &added);
  }
}

static int read_linear(Csv *csv, Reading *self, Diag *diag) {
  LinearRow *rows = NULL, row = {.num_tokens = 0};
  size_t n = 0, capacity = 0;
  int status = 1, error = csv_header(csv, LINEAR_COLUMNS, false, diag);
  if (error) return error;
  while ((status = csv_next(csv, &row, diag)) != 0) {
    if (status > 0 && row.num_tokens > MAX_TOKENS)
      status = csv_error(csv, "num_tokens", "at most 16777216", diag);
    if (status < 0 || check_shape(self, csv, row.n_head, row.n_kv_head, row.n_embd, diag)) {
      error = -1;
      continue;
    }
    row.at = csv_place(csv, NULL);
    ARENA_RESERVE(csv->arena, rows, capacity, n + 1);
    rows[n++] = row;
  }
  if (n > 0) qsort(rows, n, sizeof *rows, compare_linear);
  for (size_t i = 0; i < n; i++)
    add_linear(self, rows, n, &rows[i]);
  add_collectives(self, rows, n);
  return error;
}

/* ---- Attention ---- */

typedef struct AttentionRow {
  double input_ms, save_ms, prefill_ms, decode_ms, output_ms;
  int64_t n_q_head, n_kv_head, n_embd, num_tensor_parallel_workers;
  int64_t batch_size, prefill_chunk_size, kv_cache_size;
  const char *is_mixed_batch, *is_true_mixed_batch;
} AttentionRow;

#define STEP(field, op)                                                                            \
  {                                                                                                \
    .name = "time_stats." op ".median", .type = CSV_REAL, .offset = offsetof(AttentionRow, field), \
    .range = CSV_NOT_NEGATIVE, .may_be_empty = true                                                \
  }
#define ATTENTION(field, limits) CSV_FIELD(AttentionRow, field, CSV_INT, limits)
#define MIXED(field)                                                                               \
  {                                                                                                \
    .name = #field, .type = CSV_TEXT, .offset = offsetof(AttentionRow, field),                     \
    .may_be_empty = true, .may_miss = true                                                         \
  }

static const CsvColumn ATTENTION_COLUMNS[] = {STEP(input_ms, "attn_input_reshape"),
                                              STEP(save_ms, "attn_kv_cache_save"),
                                              STEP(prefill_ms, "attn_prefill"),
                                              STEP(decode_ms, "attn_decode"),
                                              STEP(output_ms, "attn_output_reshape"),
                                              ATTENTION(n_q_head, CSV_POSITIVE),
                                              ATTENTION(n_kv_head, CSV_POSITIVE),
                                              ATTENTION(n_embd, CSV_POSITIVE),
                                              ATTENTION(num_tensor_parallel_workers, CSV_POSITIVE),
                                              ATTENTION(batch_size, CSV_POSITIVE),
                                              ATTENTION(prefill_chunk_size, CSV_NOT_NEGATIVE),
                                              ATTENTION(kv_cache_size, CSV_NOT_NEGATIVE),
                                              MIXED(is_mixed_batch),
                                              MIXED(is_true_mixed_batch),
                                              {0}};

static double or_zero(double value) {
  return isnan(value) ? 0 : value;
}

/* The kernel of the other phase shows the cost of its timer, so only this phase's is counted. */
static int add_attention(Reading *self, const Csv *csv, const AttentionRow *row, Diag *diag) {
  const int64_t n = row->batch_size, chunk = row->prefill_chunk_size, past = row->kv_cache_size;
  const bool is_prefill = chunk > 0;
  if (!is_prefill && past == 0) {
    self->idle_rows++;
    return 0;
  }
  const double kernel_ms = is_prefill ? row->prefill_ms : row->decode_ms;
  if (!(kernel_ms > 0))
    return csv_error(
        csv, is_prefill ? "time_stats.attn_prefill.median" : "time_stats.attn_decode.median",
        "a number above 0", diag);
  const BatchShape batch = is_prefill
                               ? (BatchShape){.prefill_tokens = n * chunk,
                                              .prefill_area2 = n * chunk * (2 * past + chunk)}
                               : (BatchShape){.decode_seqs = n, .context_tokens = n * past};
  const double ms =
      (or_zero(row->input_ms) + or_zero(row->save_ms) + kernel_ms + or_zero(row->output_ms)) *
      (double)self->llm.num_hidden_layers;
  ProfileRow added = import_row(
      self->input->model, self->input->gpu, row->num_tensor_parallel_workers,
      is_prefill ? PROFILE_PREFILL_ATTENTION : PROFILE_DECODE_ATTENTION, batch, ms * US_PER_MS);
  added.at = csv_place(csv, NULL);
  profile_add(self->profile, &added);
  return 0;
}

static bool is_true(const char *text) {
  return text[0] == 'T' || text[0] == 't' || text[0] == '1';
}

static int check_attention_sizes(const Csv *csv, const AttentionRow *row, Diag *diag) {
  enum { MAX_BATCH = 1 << 16, MAX_CONTEXT = 1 << 20 };
  int error = 0;
  if (row->batch_size > MAX_BATCH) error = csv_error(csv, "batch_size", "at most 65536", diag);
  if (row->prefill_chunk_size > MAX_CONTEXT)
    error = csv_error(csv, "prefill_chunk_size", "at most 1048576", diag);
  if (row->kv_cache_size > MAX_CONTEXT)
    error = csv_error(csv, "kv_cache_size", "at most 1048576", diag);
  return error;
}

static int read_attention(Csv *csv, Reading *self, Diag *diag) {
  AttentionRow row = {0};
  int status = 1, error = csv_header(csv, ATTENTION_COLUMNS, false, diag);
  if (error) return error;
  while ((status = csv_next(csv, &row, diag)) != 0) {
    if (status > 0 && (is_true(row.is_mixed_batch) || is_true(row.is_true_mixed_batch))) {
      self->unequal_rows++;
      continue;
    }
    if (status < 0 || check_attention_sizes(csv, &row, diag) ||
        check_shape(self, csv, row.n_q_head, row.n_kv_head, row.n_embd, diag) ||
        add_attention(self, csv, &row, diag))
      error = -1;
  }
  return error;
}

/* ---- All files ---- */

typedef enum Table { TABLE_COLLECTIVES, TABLE_LINEAR, TABLE_ATTENTION, N_TABLES } Table;

static const struct {
  const char *column; // that only this table has
  const char *name;
} TABLES[N_TABLES] = {
    [TABLE_COLLECTIVES] = {"time_stats.all_reduce.median", "all-reduces"},
    [TABLE_LINEAR] = {"time_stats.mlp_up_proj.median", "linear operators"},
    [TABLE_ATTENTION] = {"time_stats.attn_decode.median", "attention"},
};

static int open_table(const char *path, Csv tables[N_TABLES], Arena *arena, Diag *diag) {
  Csv csv;
  if (csv_open(&csv, path, arena, diag)) return -1;
  for (int i = 0; i < N_TABLES; i++) {
    if (!csv_has(&csv, TABLES[i].column)) continue;
    if (tables[i].path)
      return diag_error(diag, place_of_file(path), "is a second table of %s, after '%s'",
                        TABLES[i].name, tables[i].path);
    tables[i] = csv;
    return 0;
  }
  diag_error(diag, place_of_file(path), "is none of the tables there are");
  diag_hint(diag, "one has column '%s', '%s' or '%s'", TABLES[0].column, TABLES[1].column,
            TABLES[2].column);
  return -1;
}

static void set_facts(const Reading *self, const Csv tables[N_TABLES]) {
  Profile *profile = self->profile;
  for (int i = 0; i < N_TABLES; i++)
    profile_set_fact(profile, arena_printf(profile->arena, "source_of_%s", TABLES[i].name),
                     tables[i].path ? tables[i].path : "none");
  profile_set_fact(profile, "engine_preset", "ideal");
  profile_set_fact(profile, "assumption_layers",
                   arena_printf(profile->arena, "%lld layers, each with every operator once",
                                (long long)self->llm.num_hidden_layers));
  profile_set_fact(profile, "assumption_tensor_parallel",
                   "operators missing from a row are those of 1 GPU at the same tokens");
  profile_set_fact(profile, "all_reduce", "none"); // in linear; the fit adds the rows of their own
  profile_set_fact(profile, "assumption_head", "not measured");
  import_count_fact(profile, "rows_of_unequal_prompts_left_out", self->unequal_rows);
  import_count_fact(profile, "rows_without_context_left_out", self->idle_rows);
}

int vidur_tables_read(const ImportInput *input, Profile *profile, Diag *diag) {
  Csv tables[N_TABLES] = {{0}};
  Reading self = {.input = input, .profile = profile};
  if (import_model(input, &self.llm, profile->arena, diag)) return -1;
  for (int i = 0; input->paths[i]; i++)
    if (open_table(input->paths[i], tables, profile->arena, diag)) return -1;
  int error = 0;
  if (tables[TABLE_COLLECTIVES].path)
    error |= read_collectives(&tables[TABLE_COLLECTIVES], &self.collectives, diag);
  if (tables[TABLE_LINEAR].path) error |= read_linear(&tables[TABLE_LINEAR], &self, diag);
  if (tables[TABLE_ATTENTION].path) error |= read_attention(&tables[TABLE_ATTENTION], &self, diag);
  set_facts(&self, tables);
  return error;
}
