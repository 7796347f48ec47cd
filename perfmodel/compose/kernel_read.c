/* One struct takes a row of any table; its columns are made from the query. All rows of a file are
 * loaded, and then those that are asked for are taken. */
#include "perfmodel/compose/kernel_read.h"
#include "base/csv.h"
#include "base/sort.h"
#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MAX_ROWS = 1 << 22, // of a file
  MAX_VALUES = 128,   // of a column, kept to name the nearest
};

/* What such tables also have. Filters and keys come first, so a name may be there too. */
static const char *const OTHERS[] = {"framework",
                                     "version",
                                     "device",
                                     "op_name",
                                     "kernel_source",
                                     "power",
                                     "variant",
                                     "dtype",
                                     "bytes",
                                     "backend",
                                     "attn_dtype",
                                     "window_size",
                                     "beam_width",
                                     "step",
                                     "isl",
                                     "tp_size",
                                     "bmm_dtype",
                                     "nccl_dtype",
                                     "allreduce_dtype",
                                     "mla_dtype",
                                     "gemm_type",
                                     "num_slots",
                                     "sms",
                                     "transmit_us",
                                     "comm_backend",
                                     "comm_dtype",
                                     "dp_num_tokens",
                                     "rank0_num_tokens",
                                     "model",
                                     "architecture",
                                     "distribution",
                                     "d_model",
                                     "d_conv",
                                     "model_name",
                                     "num_tokens",
                                     "chunk_size",
                                     "power_limit",
                                     "compress_ratio",
                                     "num_sites",
                                     "sinkhorn_iters"};
enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };
enum { MAX_COLUMNS = KERNEL_FILTERS + KERNEL_KEYS + 2 + N_OTHERS };

static const double MAX_US = 1e9; // of one call

typedef struct KernelRow {
  const char *text[KERNEL_FILTERS];
  int64_t number[KERNEL_FILTERS], key[KERNEL_KEYS];
  double latency_us, latency; // one of them is NAN
  Line line;
} KernelRow;

/* What csv_next fills. */
typedef struct WholeRow {
  KernelRow row;
  const char *other[N_OTHERS];
} WholeRow;

/* The values of a column in rows that pass the filters before it. */
typedef struct Values {
  const char *texts[MAX_VALUES + 1];
  int64_t numbers[MAX_VALUES];
  int n;
} Values;

typedef struct WideColumn {
  int field;
  int64_t x;
} WideColumn;

/* All rows of a file, for any query of the same columns. */
typedef struct KernelFile {
  int n_filters, n_keys, n_fields;
  Place at[KERNEL_FILTERS]; // of the columns, in the header
  bool has[KERNEL_FILTERS];
  WideColumn *wide; // of the last key, one for each of its values
  int n_wide;
  KernelRow *rows;
  size_t n_rows, capacity;
} KernelFile;

typedef struct Loading {
  const KernelQuery *query;
  KernelFile *file;
  Csv csv;
  CsvColumn columns[MAX_COLUMNS + 1];
  Arena *arena;
} Loading;

typedef struct Reading {
  const KernelQuery *query;
  const KernelFile *file;
  KernelFound *found;
  Values values[KERNEL_FILTERS];
  bool passed[KERNEL_FILTERS]; // by any row
  Field *fields;               // [file->n_fields]
  int64_t rank;                // of the points kept: a choice of texts, the least is liked best
  Arena *arena;
} Reading;

/* ---- The file ---- */

static const char *const ENDINGS[] = {".csv.gz", ".csv", "_perf.csv.gz", "_perf.csv"};

static const char *find_file(const char *folder, const char *name, Arena *arena) {
  for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
    const char *path = arena_printf(arena, "%s/%s%s", folder, name, ENDINGS[i]);
    if (access(path, F_OK) == 0) return path;
  }
  return NULL;
}

bool kernel_folder_has(const char *folder, const char *name, Arena *arena) {
  return find_file(folder, name, arena) != NULL;
}

/* Where the last part of a path begins and ends. */
static void last_part(const char *path, size_t *ret_begin, size_t *ret_end) {
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/')
    end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  *ret_begin = begin;
  *ret_end = end;
}

const char *kernel_folder_name(const char *folder, Arena *arena) {
  size_t begin = 0, end = 0;
  last_part(folder, &begin, &end);
  return arena_copy(arena, folder + begin, end - begin);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_of_engine(const char *name, const char *engine) {
  const size_t length = engine ? strlen(engine) : 0;
  return strchr(name, '-') &&
         (!engine || (strncmp(name, engine, length) == 0 && name[length] == '-'));
}

const char *const *kernel_folders_beside(const char *folder, const char *engine, const char *name,
                                         Arena *arena) {
  size_t begin = 0, end = 0, n = 0, capacity = 0;
  const char **found = NULL;
  last_part(folder, &begin, &end);
  const char *parent = begin > 0 ? arena_copy(arena, folder, begin) : "./";
  DIR *listing = opendir(parent);
  for (const struct dirent *entry; listing && (entry = readdir(listing));) {
    const char *path = arena_printf(arena, "%s%s", parent, entry->d_name);
    const bool is_self = strlen(entry->d_name) == end - begin &&
                         strncmp(entry->d_name, folder + begin, end - begin) == 0;
    if (is_self || !is_of_engine(entry->d_name, engine) || !kernel_folder_has(path, name, arena))
      continue;
    ARENA_RESERVE(arena, found, capacity, n + 2);
    found[n++] = path;
  }
  if (listing) closedir(listing);
  if (n == 0) return ARENA_NEW(arena, const char *);
  qsort(found, n, sizeof *found, compare_texts);
  found[n] = NULL;
  return found;
}

static int missing_file(const char *folder, const char *name, Arena *arena, Diag *diag) {
  static const char *const parquets[] = {".parquet", "_perf.parquet"};
  for (size_t i = 0; i < 2; i++) {
    const char *path = arena_printf(arena, "%s/%s%s", folder, name, parquets[i]);
    if (access(path, F_OK) != 0) continue;
    diag_error(diag, place_of_file(path), "Parquet is not supported, CSV is");
    diag_hint(diag,
              "pip install duckdb-cli; duckdb -c \"COPY (SELECT * FROM '%s') TO '%s/%s.csv'\"",
              path, folder, name);
    return -1;
  }
  diag_environment(diag, place_of_file(folder), "the folder has no '%s.csv' or '%s.csv.gz'", name,
                   name);
  return -1;
}

/* ---- Columns ---- */

static bool has_column(const CsvColumn *columns, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(columns[i].name, name) == 0) return true;
  return false;
}

/* Of the keys only what is in the cache already may be nothing. */
static bool may_be_zero(const char *key) {
  return strcmp(key, "step") == 0;
}

static void make_columns(Loading *self) {
  const KernelQuery *query = self->query;
  const int last = self->file->n_keys - 1;
  int n = 0;
  for (int i = 0; i < self->file->n_filters; i++) {
    const KernelFilter *filter = &query->filters[i];
    self->columns[n++] = filter->texts[0]
                             ? (CsvColumn){filter->column, CSV_TEXT, offsetof(KernelRow, text[i]),
                                           .may_miss = filter->may_miss}
                             : (CsvColumn){filter->column, CSV_INT, offsetof(KernelRow, number[i]),
                                           .range = CSV_NOT_NEGATIVE, .may_miss = filter->may_miss};
  }
  for (int i = 0; query->keys[i]; i++)
    self->columns[n++] =
        (CsvColumn){query->keys[i], CSV_INT, offsetof(KernelRow, key[i]),
                    .range = may_be_zero(query->keys[i]) ? CSV_NOT_NEGATIVE : CSV_POSITIVE,
                    .may_miss = i == last && self->file->n_wide > 0};
  self->columns[n++] = (CsvColumn){"latency_us", CSV_REAL, offsetof(KernelRow, latency_us),
                                   .range = CSV_POSITIVE, .may_miss = true};
  self->columns[n++] = (CsvColumn){"latency", CSV_REAL, offsetof(KernelRow, latency),
                                   .range = CSV_POSITIVE, .may_miss = true};
  for (int i = 0; i < N_OTHERS; i++)
    if (!has_column(self->columns, n, OTHERS[i]))
      self->columns[n++] = (CsvColumn){OTHERS[i], CSV_TEXT, offsetof(WholeRow, other[i]),
                                       .may_be_empty = true, .may_miss = true};
  assert(n <= MAX_COLUMNS);
}

/* The columns NAME=VALUE of the last key, where the table has curves as rows. */
static void find_wide(Loading *self) {
  KernelFile *file = self->file;
  Csv csv = self->csv; // to read its header twice
  Line line;
  do
    if (line_reader_next(&csv.lines, &line, NULL) <= 0) return;
  while (line.text[0] == '#');
  const char *name = self->query->keys[file->n_keys - 1];
  const int length = (int)strlen(name), n = line_split(&line, NULL, 0);
  Field *fields = ARENA_ARRAY(self->arena, Field, n);
  line_split(&line, fields, n);
  file->wide = ARENA_ARRAY(self->arena, WideColumn, n);
  for (int i = 0; i < n; i++) {
    double x = 0;
    const Field value = {fields[i].text + length + 1, fields[i].length - length - 1};
    if (value.length < 1 || strncmp(fields[i].text, name, (size_t)length) != 0 ||
        fields[i].text[length] != '=' || !field_real(value, &x) || x < 0 || x > KERNEL_KEY_MAX)
      continue;
    file->wide[file->n_wide++] = (WideColumn){i, (int64_t)x};
  }
}

static int read_header(Loading *self, Diag *diag) {
  KernelFile *file = self->file;
  const bool exact = file->n_wide == 0;
  if (csv_header(&self->csv, self->columns, exact, diag)) return -1;
  if (exact && csv_has(&self->csv, "latency_us") == csv_has(&self->csv, "latency"))
    return diag_error(diag, csv_place(&self->csv, NULL),
                      "one of the columns 'latency_us' and 'latency' (milliseconds) is required");
  for (int i = 0; i < file->n_filters; i++) {
    file->at[i] = csv_place(&self->csv, self->query->filters[i].column);
    file->has[i] = csv_has(&self->csv, self->query->filters[i].column);
  }
  file->n_fields = self->csv.n_fields;
  return 0;
}

static double row_us(const KernelRow *row) {
  return isnan(row->latency) ? row->latency_us : 1e3 * row->latency;
}

static int check_row(const Loading *self, const KernelRow *row, Diag *diag) {
  for (int i = 0; i < self->file->n_keys; i++)
    if (row->key[i] > KERNEL_KEY_MAX)
      return csv_error(&self->csv, self->query->keys[i], "at most 1073741824", diag);
  if (row_us(row) > MAX_US)
    return csv_error(&self->csv, isnan(row->latency) ? "latency_us" : "latency",
                     "at most 1000 seconds", diag);
  return 0;
}

static int load_rows(Loading *self, Diag *diag) {
  KernelFile *file = self->file;
  WholeRow whole = {.row = {.latency_us = NAN, .latency = NAN}};
  int error = 0;
  for (int status; (status = csv_next(&self->csv, &whole, diag)) != 0;) {
    if (file->n_rows == MAX_ROWS)
      return diag_error(diag, csv_place(&self->csv, NULL), "more than %d rows", MAX_ROWS);
    if (status < 0 || check_row(self, &whole.row, diag)) error = -1;
    whole.row.line = self->csv.line;
    ARENA_RESERVE(self->arena, file->rows, file->capacity, file->n_rows + 1);
    file->rows[file->n_rows++] = whole.row;
  }
  return error;
}

/* Where a file is, and a query for what its columns are. */
typedef struct FileOf {
  const char *path;
  const KernelQuery *query;
} FileOf;

/* A CacheLoad. */
static const void *load_file(const void *context, Arena *arena, Diag *diag) {
  const FileOf *of = context;
  const KernelQuery *query = of->query;
  KernelFile *file = ARENA_NEW(arena, KernelFile);
  Loading *self = ARENA_NEW(arena, Loading);
  *self = (Loading){.query = query, .file = file, .arena = arena};
  while (file->n_filters < KERNEL_FILTERS && query->filters[file->n_filters].column)
    file->n_filters++;
  while (query->keys[file->n_keys])
    file->n_keys++;
  if (csv_open(&self->csv, arena_copy(arena, of->path, strlen(of->path)), arena, diag)) return NULL;
  find_wide(self);
  make_columns(self);
  return read_header(self, diag) || load_rows(self, diag) ? NULL : file;
}

static const char *cache_key(const FileOf *of, Arena *arena) {
  const char *key = arena_printf(arena, "rows of %s by", of->path);
  const KernelFilter *filter = of->query->filters;
  for (int i = 0; i < KERNEL_FILTERS && filter[i].column; i++)
    key = arena_printf(arena, "%s %s%s%s", key, filter[i].texts[0] ? "text " : "", filter[i].column,
                       filter[i].may_miss ? "?" : "");
  for (int i = 0; of->query->keys[i]; i++)
    key = arena_printf(arena, "%s, %s", key, of->query->keys[i]);
  return key;
}

/* What is wrong with a file points into it, so that this is read anew. */
static const KernelFile *open_file(const FileOf *of, Cache *cache, Arena *arena, Diag *diag) {
  Diag unknown;
  diag_init(&unknown);
  const void *kept = cache ? cache_get(cache, cache_key(of, arena), load_file, of, &unknown) : NULL;
  diag_done(&unknown);
  return kept ? kept : load_file(of, arena, diag);
}

/* ---- Rows ---- */

static void note_value(Values *self, const char *text, int64_t number) {
  for (int i = 0; i < self->n; i++)
    if (text ? strcmp(self->texts[i], text) == 0 : self->numbers[i] == number) return;
  if (self->n == MAX_VALUES) return;
  self->texts[self->n] = text;
  self->numbers[self->n++] = number;
}

/* Whether the row is asked for; `*ret_rank` orders the choices of texts, the liked ones first. */
static bool passes(Reading *self, const KernelRow *row, int64_t *ret_rank) {
  *ret_rank = 0;
  for (int i = 0; i < self->file->n_filters; i++) {
    const KernelFilter *filter = &self->query->filters[i];
    int choice = 0;
    if (!self->file->has[i]) continue;
    note_value(&self->values[i], filter->texts[0] ? row->text[i] : NULL, row->number[i]);
    if (!filter->texts[0] && row->number[i] != filter->number) return false;
    while (filter->texts[0] && choice < KERNEL_CHOICES &&
           !(filter->texts[choice] && strcmp(filter->texts[choice], row->text[i]) == 0))
      choice++;
    if (choice == KERNEL_CHOICES) return false;
    self->passed[i] = true;
    *ret_rank = *ret_rank * KERNEL_CHOICES + choice;
  }
  return true;
}

/* Whether a row that passes is of the texts that are liked best so far. */
static bool is_liked(Reading *self, const KernelRow *row, int64_t rank) {
  KernelTable *table = &self->found->table;
  if (table->n_points > 0 && rank > self->rank) return false;
  if (rank < self->rank) table->n_points = 0;
  if (table->n_points == 0)
    for (int i = 0; i < self->file->n_filters; i++)
      self->found->texts[i] = row->text[i];
  self->rank = rank;
  return true;
}

/* The points of a curve; cells without one are empty. */
static int take_curve(Reading *self, const KernelRow *row, KernelPoint *point, Diag *diag) {
  const KernelFile *file = self->file;
  line_split(&row->line, self->fields, file->n_fields);
  for (int i = 0; i < file->n_wide; i++) {
    const Field cell = self->fields[file->wide[i].field];
    if (cell.length == 0) continue;
    if (!field_real(cell, &point->us) || !(point->us > 0 && point->us <= MAX_US))
      return field_error(&row->line, cell, "a time", "microseconds above 0", diag);
    point->key[file->n_keys - 1] = file->wide[i].x;
    kernel_table_add(&self->found->table, point, self->arena);
  }
  return 0;
}

static int take_row(Reading *self, const KernelRow *row, Diag *diag) {
  int64_t rank = 0;
  KernelPoint point = {.us = row_us(row)};
  memcpy(point.key, row->key, sizeof point.key);
  if (!passes(self, row, &rank) || !is_liked(self, row, rank)) return 0;
  if (self->file->n_wide > 0) return take_curve(self, row, &point, diag);
  kernel_table_add(&self->found->table, &point, self->arena);
  return 0;
}

static int take_rows(Reading *self, Diag *diag) {
  int error = 0;
  for (size_t i = 0; i < self->file->n_rows; i++)
    error |= take_row(self, &self->file->rows[i], diag);
  return error;
}

/* ---- What is not there ---- */

static const char *list_numbers(Values *values, int64_t wanted, Arena *arena) {
  int64_t below = -1, above = -1;
  const size_t n = sort_distinct(values->numbers, (size_t)values->n);
  for (size_t i = 0; i < n; i++) {
    if (values->numbers[i] < wanted) below = values->numbers[i];
    if (values->numbers[i] > wanted && above < 0) above = values->numbers[i];
  }
  if (below >= 0 && above >= 0)
    return arena_printf(arena, "%lld and %lld", (long long)below, (long long)above);
  return arena_printf(arena, "%lld", (long long)(below >= 0 ? below : above));
}

/* The first column that no row passes. */
static int refuse(Reading *self, Diag *diag) {
  int i = 0;
  while (i < self->file->n_filters && (self->passed[i] || !self->file->has[i]))
    i++;
  if (i == self->file->n_filters || self->values[i].n == 0)
    return diag_error(diag, place_of_file(self->found->path), "the table has no rows");
  const KernelFilter *filter = &self->query->filters[i];
  Values *values = &self->values[i];
  if (!filter->texts[0]) {
    diag_error(diag, self->file->at[i], "no row has '%s' %lld", filter->column,
               (long long)filter->number);
    diag_hint(diag, "the nearest values that were measured: %s",
              list_numbers(values, filter->number, self->arena));
    return -1;
  }
  diag_error(diag, self->file->at[i], "no row has '%s' %s", filter->column, filter->texts[0]);
  const char *text = "";
  for (int k = 0; k < values->n; k++)
    text = arena_printf(self->arena, "%s%s%s", text, k > 0 ? ", " : "", values->texts[k]);
  diag_hint(diag, "the values that were measured: %s", text);
  return -1;
}

int kernel_read(KernelFound *ret_found, const KernelQuery *query, const char *folder, Cache *cache,
                Arena *arena, Diag *diag) {
  const FileOf of = {find_file(folder, query->name, arena), query};
  *ret_found = (KernelFound){.path = of.path};
  if (!of.path) return missing_file(folder, query->name, arena, diag);
  const KernelFile *file = open_file(&of, cache, arena, diag);
  if (!file) return -1;
  Reading *self = ARENA_NEW(arena, Reading);
  *self = (Reading){.query = query,
                    .file = file,
                    .found = ret_found,
                    .fields = ARENA_ARRAY(arena, Field, file->n_fields),
                    .rank = INT64_MAX,
                    .arena = arena};
  ret_found->table.n_keys = file->n_keys;
  ret_found->n_rows = file->n_rows;
  if (take_rows(self, diag)) return -1;
  if (ret_found->table.n_points == 0) return refuse(self, diag);
  kernel_table_sort(&ret_found->table);
  return 0;
}
