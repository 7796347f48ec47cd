/* See figures.h. */
#include "experiments/compare/figures.h"
#include "base/hash.h"
#include "base/key_map.h"
#include "base/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What people ask about first; of latencies the mean and these. */
static const char *const selection[] = {"throughput_rps",
                                        "output_tokens_per_s",
                                        "ttft_s.mean",
                                        "ttft_s.p50",
                                        "ttft_s.p90",
                                        "ttft_s.p99",
                                        "tpot_s.mean",
                                        "tpot_s.p50",
                                        "tpot_s.p90",
                                        "tpot_s.p99",
                                        "tbt_s.mean",
                                        "tbt_s.p50",
                                        "tbt_s.p90",
                                        "tbt_s.p99",
                                        "e2e_s.mean",
                                        "e2e_s.p50",
                                        "e2e_s.p90",
                                        "e2e_s.p99",
                                        "slo.goodput",
                                        "cost_usd",
                                        "energy_kwh",
                                        "cached_share",
                                        "preemptions",
                                        "extrapolated.time_share",
                                        NULL};

/* All figures of both sides, found by a hash of their names. */
typedef struct Table {
  Compare *compare;
  Compared *figures; // [n]
  size_t n, capacity;
  KeyMap by_name; // the number of a figure and one
} Table;

/* `asked` is the name, or the name without a statistic or the unit: ttft_s, ttft.p99; "" is any. */
static bool is_asked(const char *asked, const char *name) {
  const size_t length = strlen(asked), stem = strcspn(asked, ".");
  if (length == 0) return true;
  if (strncmp(asked, name, length) == 0 && (name[length] == '\0' || name[length] == '.'))
    return true;
  if (strncmp(asked, name, stem) != 0 || strncmp(name + stem, "_s", 2) != 0) return false;
  const char *rest = name + stem + 2;
  const size_t n_rest = length - stem;
  return strncmp(asked + stem, rest, n_rest) == 0 &&
         (rest[n_rest] == '\0' || (n_rest == 0 && *rest == '.'));
}

static size_t rank_of(const char *name, const char *const *asked) {
  size_t rank = 0;
  while (asked[rank] && !is_asked(asked[rank], name))
    rank++;
  return rank;
}

static const char *name_of(sqlite3_stmt *statement, Arena *arena) {
  const char *scope = (const char *)sqlite3_column_text(statement, 1);
  const char *name = (const char *)sqlite3_column_text(statement, 2);
  const char *statistic = (const char *)sqlite3_column_text(statement, 3);
  if (!scope || !name || !statistic) return "";
  const bool of_run = strcmp(scope, "run") == 0, is_value = strcmp(statistic, "value") == 0;
  return arena_printf(arena, "%s%s%s%s%s", of_run ? "" : scope, of_run ? "" : ".", name,
                      is_value ? "" : ".", is_value ? "" : statistic);
}

static uint64_t key_of(const char *name) {
  const uint64_t hash = hash_bytes(name, strlen(name));
  return hash ? hash : 1;
}

/* The figure of a row, which is made when it is the first of its name. */
static Compared *find_figure(Table *self, sqlite3_stmt *statement, const char *const *asked) {
  Arena *arena = self->compare->arena;
  const char *name = name_of(statement, arena);
  uint32_t *number = key_map_put(&self->by_name, key_of(name), arena);
  if (*number > 0) return &self->figures[*number - 1];
  ARENA_RESERVE(arena, self->figures, self->capacity, self->n + 1);
  Compared *figure = &self->figures[self->n++];
  *number = (uint32_t)self->n;
  *figure = (Compared){
      .name = name, .unit = results_text(statement, 5, arena), .rank = rank_of(name, asked)};
  if (!asked[figure->rank]) return figure;
  for (int side = 0; side < 2; side++) {
    const size_t n_runs = self->compare->sides[side].n_runs;
    figure->values[side] = ARENA_ARRAY(arena, double, n_runs);
    for (size_t i = 0; i < n_runs; i++)
      figure->values[side][i] = NAN;
  }
  return figure;
}

static int load_side(Table *table, int number, const char *const *asked) {
  const Side *side = &table->compare->sides[number];
  Arena *arena = table->compare->arena;
  CLEANUP_STATEMENT sqlite3_stmt *statement =
      results_query(side->results,
                    "SELECT run_id, scope, name, statistic, value, unit FROM metric "
                    "WHERE run_id IN (SELECT value FROM json_each(?1)) UNION ALL "
                    "SELECT run_id, 'slo', name, 'value', value, unit FROM slo "
                    "WHERE run_id IN (SELECT value FROM json_each(?1))",
                    VALUES(value_text(side->ids)), table->compare->diag);
  KeyMap runs = {0};
  int status;
  for (size_t i = 0; i < side->n_runs; i++)
    *key_map_put(&runs, (uint64_t)side->runs[i].id, arena) = (uint32_t)i;
  while ((status = results_next(side->results, statement, table->compare->diag)) > 0) {
    const uint32_t *run = key_map_find(&runs, (uint64_t)sqlite3_column_int64(statement, 0));
    Compared *figure = find_figure(table, statement, asked);
    if (run && figure->values[number] && sqlite3_column_type(statement, 4) != SQLITE_NULL)
      figure->values[number][*run] = sqlite3_column_double(statement, 4);
  }
  return status;
}

/* An entry for each name that is of no figure. */
static int check_asked(const Table *self, const char *const *asked) {
  Arena *arena = self->compare->arena;
  const char **names = ARENA_ARRAY(arena, const char *, self->n + 1);
  int status = 0;
  for (size_t i = 0; i < self->n; i++)
    names[i] = self->figures[i].name;
  for (size_t k = 0; asked[k]; k++) {
    bool there = false;
    for (size_t i = 0; i < self->n; i++)
      there |= is_asked(asked[k], names[i]);
    if (there) continue;
    status = diag_error(self->compare->diag, place_of_file(NULL), "neither side has a figure '%s'",
                        asked[k]);
    diag_hint_choices(self->compare->diag, asked[k], names, "tandem list figures");
  }
  return status;
}

static int compare_ranks(const void *a, const void *b) {
  const Compared *one = a, *other = b;
  if (one->rank != other->rank) return one->rank < other->rank ? -1 : 1;
  return strcmp(one->name, other->name);
}

static Values values_of(const Compare *self, const Compared *figure, int number) {
  const Side *side = &self->sides[number];
  bool *repeated = ARENA_ARRAY(self->arena, bool, side->n_runs);
  for (size_t i = 0; i < side->n_runs; i++)
    repeated[i] = side->runs[i].repeated;
  return (Values){figure->values[number], repeated, side->n_runs};
}

int figures_load(Compare *self, const CompareQuestion *question) {
  static const char *const everything[] = {"", NULL};
  const bool by_name = question->figures && question->figures[0];
  const char *const *asked = question->all ? everything : by_name ? question->figures : selection;
  Table table = {.compare = self};
  if (load_side(&table, 0, asked) || load_side(&table, 1, asked)) return -1;
  if (by_name && check_asked(&table, asked)) return -1;
  for (size_t i = 0; i < table.n; i++) {
    Compared *figure = &table.figures[i];
    if (!asked[figure->rank]) continue;
    const Values a = values_of(self, figure, 0), b = values_of(self, figure, 1);
    figure->difference = self->paired ? difference_paired(&a, &b) : difference_unpaired(&a, &b);
    // What only one of them has, or neither, cannot be compared.
    if (!isnan(figure->difference.value)) table.figures[self->n_figures++] = *figure;
  }
  self->figures = table.figures;
  if (self->n_figures > 0)
    qsort(self->figures, self->n_figures, sizeof *self->figures, compare_ranks);
  return 0;
}
