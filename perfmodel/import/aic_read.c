/* One struct takes a row of any table; its columns are made from the query. */
#include "perfmodel/import/aic_read.h"
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
static const char *const OTHERS[] = {"framework",        "version",       "device",
                                     "op_name",          "kernel_source", "power",
                                     "variant",          "dtype",         "bytes",
                                     "backend",          "attn_dtype",    "window_size",
                                     "beam_width",       "step",          "isl",
                                     "tp_size",          "bmm_dtype",     "nccl_dtype",
                                     "allreduce_dtype",  "mla_dtype",     "gemm_type",
                                     "num_slots",        "sms",           "transmit_us",
                                     "comm_backend",     "comm_dtype",    "dp_num_tokens",
                                     "rank0_num_tokens", "model",         "architecture",
                                     "distribution"};
enum { N_OTHERS = sizeof OTHERS / sizeof *OTHERS };
enum { MAX_COLUMNS = AIC_FILTERS + AIC_KEYS + 2 + N_OTHERS };

static const double MAX_US = 1e9; // of one call

typedef struct AicRow {
  const char *text[AIC_FILTERS];
  int64_t number[AIC_FILTERS], key[AIC_KEYS];
  double latency_us, latency; // one of them is NAN
  const char *other[N_OTHERS];
} AicRow;

/* The values of a column in rows that pass the filters before it. */
typedef struct Values {
  const char *texts[MAX_VALUES + 1];
  int64_t numbers[MAX_VALUES];
  int n;
} Values;

typedef struct Reading {
  const AicQuery *query;
  AicFound *found;
  Csv csv;
  CsvColumn columns[MAX_COLUMNS + 1];
  Place at[AIC_FILTERS]; // of the columns, in the header
  Values values[AIC_FILTERS];
  bool passed[AIC_FILTERS]; // by any row
  int n_filters;
  int64_t rank; // of the points kept: a choice of texts, the least is liked best
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

bool aic_has(const char *folder, const char *name, Arena *arena) {
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

const char *aic_folder_name(const char *folder, Arena *arena) {
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

const char *const *aic_beside(const char *folder, const char *engine, const char *name,
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
    if (is_self || !is_of_engine(entry->d_name, engine) || !aic_has(path, name, arena)) continue;
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

static void make_columns(Reading *self) {
  const AicQuery *query = self->query;
  int n = 0;
  for (int i = 0; i < self->n_filters; i++) {
    const AicFilter *filter = &query->filters[i];
    self->columns[n++] = filter->texts[0]
                             ? (CsvColumn){filter->column, CSV_TEXT, offsetof(AicRow, text[i]),
                                           .may_miss = filter->may_miss}
                             : (CsvColumn){filter->column, CSV_INT, offsetof(AicRow, number[i]),
                                           .range = CSV_NOT_NEGATIVE, .may_miss = filter->may_miss};
  }
  for (int i = 0; query->keys[i]; i++)
    self->columns[n++] =
        (CsvColumn){query->keys[i], CSV_INT, offsetof(AicRow, key[i]),
                    .range = may_be_zero(query->keys[i]) ? CSV_NOT_NEGATIVE : CSV_POSITIVE};
  self->columns[n++] = (CsvColumn){"latency_us", CSV_REAL, offsetof(AicRow, latency_us),
                                   .range = CSV_POSITIVE, .may_miss = true};
  self->columns[n++] = (CsvColumn){"latency", CSV_REAL, offsetof(AicRow, latency),
                                   .range = CSV_POSITIVE, .may_miss = true};
  for (int i = 0; i < N_OTHERS; i++)
    if (!has_column(self->columns, n, OTHERS[i]))
      self->columns[n++] = (CsvColumn){OTHERS[i], CSV_TEXT, offsetof(AicRow, other[i]),
                                       .may_be_empty = true, .may_miss = true};
  assert(n <= MAX_COLUMNS);
}

static int read_header(Reading *self, Diag *diag) {
  if (csv_header(&self->csv, self->columns, true, diag)) return -1;
  if (csv_has(&self->csv, "latency_us") == csv_has(&self->csv, "latency"))
    return diag_error(diag, csv_place(&self->csv, NULL),
                      "one of the columns 'latency_us' and 'latency' (milliseconds) is required");
  for (int i = 0; i < self->n_filters; i++)
    self->at[i] = csv_place(&self->csv, self->query->filters[i].column);
  return 0;
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
static bool passes(Reading *self, const AicRow *row, int64_t *ret_rank) {
  *ret_rank = 0;
  for (int i = 0; i < self->n_filters; i++) {
    const AicFilter *filter = &self->query->filters[i];
    int choice = 0;
    if (!csv_has(&self->csv, filter->column)) continue;
    note_value(&self->values[i], filter->texts[0] ? row->text[i] : NULL, row->number[i]);
    if (!filter->texts[0] && row->number[i] != filter->number) return false;
    while (filter->texts[0] && choice < AIC_CHOICES &&
           !(filter->texts[choice] && strcmp(filter->texts[choice], row->text[i]) == 0))
      choice++;
    if (choice == AIC_CHOICES) return false;
    self->passed[i] = true;
    *ret_rank = *ret_rank * AIC_CHOICES + choice;
  }
  return true;
}

static int take_row(Reading *self, const AicRow *row, Diag *diag) {
  int64_t rank = 0;
  AicPoint point = {.us = isnan(row->latency) ? row->latency_us : 1e3 * row->latency};
  for (int i = 0; self->query->keys[i]; i++) {
    if (row->key[i] > AIC_KEY_MAX)
      return csv_error(&self->csv, self->query->keys[i], "at most 1073741824", diag);
    point.key[i] = row->key[i];
  }
  if (point.us > MAX_US)
    return csv_error(&self->csv, isnan(row->latency) ? "latency_us" : "latency",
                     "at most 1000 seconds", diag);
  if (!passes(self, row, &rank)) return 0;
  AicTable *table = &self->found->table;
  if (table->n_points > 0 && rank > self->rank) return 0;
  if (rank < self->rank) table->n_points = 0;
  if (table->n_points == 0)
    for (int i = 0; i < self->n_filters; i++)
      self->found->texts[i] = row->text[i];
  self->rank = rank;
  aic_table_add(table, &point, self->arena);
  return 0;
}

static int read_rows(Reading *self, Diag *diag) {
  AicRow row = {.latency_us = NAN, .latency = NAN};
  int error = 0;
  for (int status; (status = csv_next(&self->csv, &row, diag)) != 0;) {
    if (++self->found->n_rows > MAX_ROWS)
      return diag_error(diag, csv_place(&self->csv, NULL), "more than %d rows", MAX_ROWS);
    if (status < 0 || take_row(self, &row, diag)) error = -1;
  }
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
  while (i < self->n_filters &&
         (self->passed[i] || !csv_has(&self->csv, self->query->filters[i].column)))
    i++;
  if (i == self->n_filters || self->values[i].n == 0)
    return diag_error(diag, place_of_file(self->found->path), "the table has no rows");
  const AicFilter *filter = &self->query->filters[i];
  Values *values = &self->values[i];
  if (!filter->texts[0]) {
    diag_error(diag, self->at[i], "no row has '%s' %lld", filter->column,
               (long long)filter->number);
    diag_hint(diag, "the nearest values that were measured: %s",
              list_numbers(values, filter->number, self->arena));
    return -1;
  }
  diag_error(diag, self->at[i], "no row has '%s' %s", filter->column, filter->texts[0]);
  const char *text = "";
  for (int k = 0; k < values->n; k++)
    text = arena_printf(self->arena, "%s%s%s", text, k > 0 ? ", " : "", values->texts[k]);
  diag_hint(diag, "the values that were measured: %s", text);
  return -1;
}

int aic_read(AicFound *ret_found, const AicQuery *query, const char *folder, Arena *arena,
             Diag *diag) {
  Reading *self = ARENA_NEW(arena, Reading);
  *ret_found = (AicFound){.path = find_file(folder, query->name, arena)};
  if (!ret_found->path) return missing_file(folder, query->name, arena, diag);
  self->query = query;
  self->found = ret_found;
  self->arena = arena;
  self->rank = INT64_MAX;
  while (self->n_filters < AIC_FILTERS && query->filters[self->n_filters].column)
    self->n_filters++;
  while (query->keys[ret_found->table.n_keys])
    ret_found->table.n_keys++;
  make_columns(self);
  if (csv_open(&self->csv, ret_found->path, arena, diag) || read_header(self, diag) ||
      read_rows(self, diag))
    return -1;
  if (ret_found->table.n_points == 0) return refuse(self, diag);
  aic_table_sort(&ret_found->table);
  return 0;
}
