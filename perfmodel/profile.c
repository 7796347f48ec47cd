/* Profiles on disk: the columns are one table, which serves reading, writing and the digest. */
#include "perfmodel/profile.h"
#include "base/csv.h"
#include "base/hash.h"
#include "base/output.h"
#include "base/sort.h"
#include "base/text.h"
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const OP_NAMES[] = {
#define X(id, name, size) name,
#include "perfmodel/operators.def"
#undef X
    NULL};

const char *profile_op_name(ProfileOp op) {
  assert(op >= 0 && op < PROFILE_OPS);
  return OP_NAMES[op];
}

/* ---- Columns ---- */

/* A row as the file has it: what ProfileRow keeps as an enum or a 32-bit number is read here
 * first. */
typedef struct FileRow {
  ProfileRow row;
  const char *op;
  int64_t tensor_parallel_size;
} FileRow;

#define FIELD(name) .offset = offsetof(FileRow, row.name)
#define BATCH(name)                                                                                \
  { #name, CSV_INT, .offset = offsetof(FileRow, row.batch.name), .range = CSV_NOT_NEGATIVE }
#define MISSING(name, kind)                                                                        \
  { #name, kind, FIELD(name), .range = CSV_NOT_NEGATIVE, .may_be_empty = true }
#define OPTIONAL(name, kind)                                                                       \
  { #name, kind, FIELD(name), .range = CSV_NOT_NEGATIVE, .may_be_empty = true, .may_miss = true }

static const CsvColumn COLUMNS[] = {
    {"model", CSV_TEXT, FIELD(model)},
    {"gpu", CSV_TEXT, FIELD(gpu)},
    {"tensor_parallel_size", CSV_INT, .offset = offsetof(FileRow, tensor_parallel_size),
     .range = CSV_POSITIVE},
    {"op", CSV_TEXT, .offset = offsetof(FileRow, op)},
    {"mode", CSV_TEXT, FIELD(mode), .may_be_empty = true},
    OPTIONAL(cache, CSV_TEXT),
    OPTIONAL(busy, CSV_INT),
    {"configuration", CSV_INT, FIELD(configuration)},
    BATCH(prefill_tokens),
    BATCH(prefill_area2),
    BATCH(decode_seqs),
    BATCH(context_tokens),
    BATCH(logit_seqs),
    OPTIONAL(size, CSV_INT),
    {"median_us", CSV_REAL, FIELD(median_us), .range = CSV_POSITIVE},
    MISSING(mad_us, CSV_REAL),
    MISSING(p10_us, CSV_REAL),
    MISSING(p90_us, CSV_REAL),
    MISSING(samples, CSV_INT),
    MISSING(power_w, CSV_REAL),
    MISSING(sm_clock_mhz, CSV_REAL),
    MISSING(mem_clock_mhz, CSV_REAL),
    OPTIONAL(least_sm_clock_mhz, CSV_REAL),
    OPTIONAL(energy_j, CSV_REAL),
    OPTIONAL(throttle, CSV_TEXT),
    OPTIONAL(rates, CSV_TEXT),
    OPTIONAL(algorithm, CSV_TEXT),
    OPTIONAL(attn_kernel, CSV_TEXT),
    OPTIONAL(flops, CSV_REAL),
    OPTIONAL(bytes, CSV_REAL),
    MISSING(roofline_fraction, CSV_REAL),
    {"stop", CSV_TEXT, FIELD(stop), .may_be_empty = true},
    {0}};

/* ---- Building ---- */

void profile_init(Profile *self, const char *path, Arena *arena) {
  *self = (Profile){.arena = arena, .path = path};
}

ProfileRow profile_row(const char *model, const char *gpu, int32_t tensor_parallel_size) {
  FileRow made = {.op = NULL};
  for (const CsvColumn *column = COLUMNS; column->name; column++) {
    void *field = (char *)&made + column->offset;
    if (column->type == CSV_TEXT) *(const char **)field = "";
    if (column->type == CSV_REAL) *(double *)field = NAN;
  }
  made.row.model = model;
  made.row.gpu = gpu;
  made.row.tensor_parallel_size = tensor_parallel_size;
  return made.row;
}

bool profile_is_sustained(const ProfileRow *row) {
  return strcmp(row->rates, "sustained") == 0;
}

static const char *copy_text(Arena *arena, const char *text) {
  return arena_copy(arena, text, strlen(text));
}

/* Where the i-th text of a row is; NULL past the last. */
static const char **text_at(ProfileRow *row, int i) {
  const char **texts[] = {&row->model,    &row->gpu,   &row->mode,      &row->cache,
                          &row->throttle, &row->rates, &row->algorithm, &row->attn_kernel,
                          &row->stop,     NULL};
  return texts[i];
}

/* Rows repeat their texts: those of the row before are shared. */
void profile_add(Profile *self, const ProfileRow *row) {
  ProfileRow none = {0};
  ARENA_RESERVE(self->arena, self->rows, self->rows_capacity, self->n_rows + 1);
  ProfileRow *before = self->n_rows > 0 ? &self->rows[self->n_rows - 1] : &none;
  ProfileRow *added = &self->rows[self->n_rows++];
  *added = *row;
  for (int i = 0; text_at(added, i); i++) {
    const char **text = text_at(added, i), *shared = *text_at(before, i);
    *text = shared && strcmp(shared, *text) == 0 ? shared : copy_text(self->arena, *text);
  }
}

static ProfileFact *find_fact(const Profile *self, const char *key) {
  for (size_t i = 0; i < self->n_facts; i++)
    if (strcmp(self->facts[i].key, key) == 0) return &self->facts[i];
  return NULL;
}

void profile_set_fact(Profile *self, const char *key, const char *value) {
  ProfileFact *fact = find_fact(self, key);
  if (!fact) {
    ARENA_RESERVE(self->arena, self->facts, self->facts_capacity, self->n_facts + 1);
    fact = &self->facts[self->n_facts++];
    fact->key = copy_text(self->arena, text_shown(key, self->arena));
  }
  fact->value = copy_text(self->arena, text_shown(value, self->arena));
}

void profile_count_fact(Profile *self, const char *key, int64_t count) {
  profile_set_fact(self, key, arena_printf(self->arena, "%lld", (long long)count));
}

const char *profile_fact(const Profile *self, const char *key) {
  const ProfileFact *fact = find_fact(self, key);
  return fact ? fact->value : NULL;
}

/* ---- Reading ---- */

const char profile_torn_note[] = "the last line is not complete and was left out";

static bool is_printable(const char *text) {
  while ((unsigned char)*text >= ' ')
    text++;
  return *text == '\0';
}

/* "key: value". */
static int read_fact(Profile *self, const Csv *csv, Field comment, Diag *diag) {
  const char *text = arena_copy(self->arena, comment.text, (size_t)comment.length);
  char *colon = strchr(text, ':');
  if (!colon || colon == text || !is_printable(text))
    return diag_error(diag, csv_place(csv, NULL),
                      "a line of provenance must have the form '# key: value'");
  const char *key = arena_copy(self->arena, text, (size_t)(colon - text));
  if (find_fact(self, key)) return diag_error(diag, csv_place(csv, NULL), "'%s' occurs twice", key);
  profile_set_fact(self, key, colon + 1 + strspn(colon + 1, " "));
  return 0;
}

/* Times in another unit have a column of another name; say so where it stands. */
static int read_header(Csv *csv, Diag *diag) {
  int before = diag->n_entries;
  if (csv_header(csv, COLUMNS, true, diag) == 0) return 0;
  if (diag->n_entries > before) diag_hint(diag, "times are in microseconds, power in watts");
  return -1;
}

/* What the time of an operator depends on must be there. */
static bool has_work(const ProfileRow *row) {
  const BatchShape *batch = &row->batch;
  switch (row->op) {
  case PROFILE_ITERATION:
  case PROFILE_LINEAR:
    return batch->prefill_tokens > 0 || batch->decode_seqs > 0;
  case PROFILE_PREFILL_ATTENTION:
    return batch->prefill_area2 > 0;
  case PROFILE_DECODE_ATTENTION:
    return batch->decode_seqs > 0 && batch->context_tokens > 0;
  case PROFILE_HEAD:
    return batch->logit_seqs > 0;
  default:
    return row->size > 0;
  }
}

static bool is_one_of(const char *text, const char *a, const char *b) {
  return *text == '\0' || strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

/* What the columns alone do not say. */
static int finish_row(const Csv *csv, FileRow *read, Diag *diag) {
  int op = 0, error = 0;
  ProfileRow *row = &read->row;
  while (OP_NAMES[op] && strcmp(OP_NAMES[op], read->op) != 0)
    op++;
  row->op = (ProfileOp)op;
  row->at = csv_place(csv, NULL);
  if (!OP_NAMES[op]) {
    error = diag_error(diag, csv_place(csv, "op"), "unknown operator '%s'", read->op);
    diag_hint_near(diag, read->op, OP_NAMES);
  } else if (!has_work(row)) {
    error = diag_error(diag, row->at, "the %s no work for operator '%s'",
                       row->op < PROFILE_TERMS ? "batch has" : "size gives", read->op);
  }
  if (!is_one_of(row->mode, "graph", "eager") && strcmp(row->mode, "queued") != 0)
    error = csv_error(csv, "mode", "graph, queued, eager or empty", diag);
  if (!is_one_of(row->cache, "cold", "hot"))
    error = csv_error(csv, "cache", "cold, hot or empty", diag);
  if (!is_one_of(row->rates, "burst", "sustained"))
    error = csv_error(csv, "rates", "burst, sustained or empty", diag);
  if (row->busy > 1) error = csv_error(csv, "busy", "0, 1 or empty", diag);
  if (read->tensor_parallel_size > INT32_MAX)
    error = csv_error(csv, "tensor_parallel_size", "at most 2147483647", diag);
  row->tensor_parallel_size = (int32_t)read->tensor_parallel_size;
  if (row->p10_us > row->p90_us) error = csv_error(csv, "p10_us", "at most 'p90_us'", diag);
  return error;
}

static int read_rows(Profile *self, Csv *csv, Diag *diag) {
  FileRow read = {0};
  int status = 1, error = 0;
  size_t n = 0; // good or not
  self->torn = csv_drop_torn(csv);
  while ((status = csv_next(csv, &read, diag)) != 0) {
    if (++n > PROFILE_MAX_ROWS)
      return diag_error(diag, csv_place(csv, NULL), "the profile has more than %d rows",
                        PROFILE_MAX_ROWS);
    if (status < 0 || finish_row(csv, &read, diag)) {
      error = -1;
      continue;
    }
    profile_add(self, &read.row);
  }
  if (n < 2)
    return diag_error(diag, place_of_file(self->path),
                      "a profile needs at least two points, found %zu", n);
  return error;
}

static int read_file(Profile *self, Csv *csv, Diag *diag) {
  Field comment;
  int error = 0;
  while (csv_comment(csv, &comment))
    error |= read_fact(self, csv, comment, diag);
  if (read_header(csv, diag) || read_rows(self, csv, diag)) return -1;
  return error;
}

int profile_load(Profile *self, const char *path, Arena *arena, Diag *diag) {
  Csv csv;
  profile_init(self, path, arena);
  return csv_open(&csv, path, arena, diag) || read_file(self, &csv, diag) ? -1 : 0;
}

int profile_parse(Profile *self, const char *name, const char *text, size_t length, Arena *arena,
                  Diag *diag) {
  Csv csv;
  profile_init(self, name, arena);
  csv_open_text(&csv, name, text, length, arena);
  return read_file(self, &csv, diag);
}

/* ---- Writing ---- */

static FileRow file_row_of(const ProfileRow *row) {
  return (FileRow){*row, OP_NAMES[row->op], row->tensor_parallel_size};
}

/* The shortest decimal that reads back to the same double. */
static void write_real(FILE *out, double value) {
  char text[32];
  if (isnan(value)) return;
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  fputs(text, out);
}

void profile_write_row(const ProfileRow *row, FILE *out) {
  const FileRow file_row = file_row_of(row);
  for (const CsvColumn *column = COLUMNS; column->name; column++) {
    const void *field = (const char *)&file_row + column->offset;
    if (column != COLUMNS) putc(',', out);
    if (column->type == CSV_TEXT)
      csv_put_text(*(const char *const *)field, out);
    else if (column->type == CSV_REAL)
      write_real(out, *(const double *)field);
    else if (*(const int64_t *)field != 0 || !column->may_be_empty)
      fprintf(out, "%lld", (long long)*(const int64_t *)field);
  }
  putc('\n', out);
}

void profile_write_header(const Profile *self, FILE *out) {
  for (size_t i = 0; i < self->n_facts; i++)
    fprintf(out, "# %s: %s\n", self->facts[i].key, self->facts[i].value);
  for (const CsvColumn *column = COLUMNS; column->name; column++)
    fprintf(out, "%s%s", column == COLUMNS ? "" : ",", column->name);
  putc('\n', out);
}

/* A text that would not read back is an error before anything is written. */
static int check_texts(const Profile *self, const char *path, Diag *diag) {
  Place at = place_of_file(path);
  for (size_t i = 0; i < self->n_facts; i++) {
    const ProfileFact *fact = &self->facts[i];
    if (strchr(fact->key, ':') || !text_is_plain(fact->key) || !text_is_plain(fact->value))
      return diag_error(diag, at, "the fact '%s' does not fit on one line", fact->key);
  }
  for (size_t i = 0; i < self->n_rows; i++) {
    const char **text;
    for (int k = 0; (text = text_at(&self->rows[i], k)); k++)
      if (strchr(*text, '"') || !text_is_plain(*text))
        return diag_error(diag, at,
                          "'%s' cannot be written: it holds a quote or a control character", *text);
  }
  return 0;
}

int profile_save(const Profile *self, const char *path, Diag *diag) {
  if (check_texts(self, path, diag)) return -1;
  Output out;
  if (output_open(&out, path, self->arena, diag)) return -1;
  profile_write_header(self, out.file);
  for (size_t i = 0; i < self->n_rows; i++)
    profile_write_row(&self->rows[i], out.file);
  return output_commit(&out, diag);
}

/* ---- Digest and groups ---- */

static uint64_t fold_text(uint64_t hash, const char *text) {
  return hash_fold(hash, hash_bytes(text, strlen(text)));
}

static bool is_empty(CsvType type, const void *field) {
  return type == CSV_TEXT   ? **(const char *const *)field == '\0'
         : type == CSV_REAL ? isnan(*(const double *)field)
                            : *(const int64_t *)field == 0;
}

static uint64_t fold_cell(uint64_t hash, CsvType type, const void *field) {
  uint64_t bits = UINT64_MAX; // of a real number that is missing
  if (type == CSV_TEXT) return fold_text(hash, *(const char *const *)field);
  if (type == CSV_INT || !is_empty(type, field)) memcpy(&bits, field, sizeof bits);
  return hash_fold(hash, bits);
}

/* A cell of an optional column enters with the column's name, or not at all. */
uint64_t profile_digest(const Profile *self) {
  uint64_t hash = 0;
  for (size_t i = 0; i < self->n_rows; i++) {
    const FileRow file_row = file_row_of(&self->rows[i]);
    for (const CsvColumn *column = COLUMNS; column->name; column++) {
      const void *field = (const char *)&file_row + column->offset;
      if (column->may_miss && is_empty(column->type, field)) continue;
      if (column->may_miss) hash = fold_text(hash, column->name);
      hash = fold_cell(hash, column->type, field);
    }
  }
  return hash;
}

bool profile_in_group(const ProfileRow *row, const ProfileGroup *group) {
  return row->tensor_parallel_size == group->tensor_parallel_size &&
         strcmp(row->model, group->model) == 0 && strcmp(row->gpu, group->gpu) == 0;
}

size_t profile_groups(const Profile *self, ProfileGroup **ret_groups, Arena *arena) {
  ProfileGroup *groups = NULL;
  size_t n = 0, capacity = 0, current = 0; // rows of a group mostly follow one another
  for (size_t i = 0; i < self->n_rows; i++) {
    const ProfileRow *row = &self->rows[i];
    if (current >= n || !profile_in_group(row, &groups[current])) {
      for (current = 0; current < n && !profile_in_group(row, &groups[current]);)
        current++;
    }
    if (current == n) {
      ARENA_RESERVE(arena, groups, capacity, n + 1);
      groups[n++] = (ProfileGroup){row->model, row->gpu, row->tensor_parallel_size, 0};
    }
    groups[current].n_rows++;
  }
  *ret_groups = groups;
  return n;
}

/* ---- Configurations ---- */

static int compare_points(const ProfileRow *a, const ProfileRow *b) {
  const int64_t pairs[][2] = {{a->op, b->op}, {a->size, b->size}};
  const int order = compare_pairs(pairs, 2);
  return order ? order : batch_compare(&a->batch, &b->batch);
}

static int compare_rows(const void *a, const void *b) {
  const ProfileRow *left = *(ProfileRow *const *)a, *right = *(ProfileRow *const *)b;
  int order = compare_points(left, right);
  return order ? order : (left > right) - (left < right);
}

void profile_number(Profile *profile) {
  size_t n = profile->n_rows;
  ProfileRow **sorted = ARENA_ARRAY(profile->arena, ProfileRow *, n);
  for (size_t i = 0; i < n; i++)
    sorted[i] = &profile->rows[i];
  qsort(sorted, n, sizeof *sorted, compare_rows);
  const ProfileRow *first = NULL; // of its point; the others hold −1 − its index until numbered
  for (size_t i = 0; i < n; i++) {
    bool is_new = !first || compare_points(first, sorted[i]) != 0;
    if (is_new) first = sorted[i];
    sorted[i]->configuration = is_new ? 0 : -1 - (int64_t)(first - profile->rows);
  }
  int64_t configurations = 0;
  for (size_t i = 0; i < n; i++) {
    ProfileRow *row = &profile->rows[i];
    row->configuration = row->configuration == 0
                             ? ++configurations
                             : profile->rows[-1 - row->configuration].configuration;
  }
}
