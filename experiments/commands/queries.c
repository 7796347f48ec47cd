/* See queries.h. */
#include "experiments/commands/queries.h"
#include "base/folder.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/config/config.h"
#include <stdlib.h>
#include <string.h>

static const char *folder_of(Arena *arena) {
  return arena_printf(arena, "%s/experiments/queries", config_data_root());
}

static const char *path_of(const char *name, Arena *arena) {
  return arena_printf(arena, "%s/%s.sql", folder_of(arena), name);
}

static const char *about(const char *name, Arena *arena) {
  return folder_about(path_of(name, arena), arena);
}

const CliTerm *queries_listed(Arena *arena) {
  return cli_terms(folder_names(folder_of(arena), ".sql", arena), about, arena);
}

void queries_print(OutputFormat format, Arena *arena) {
  Rows rows = {.format = format, .out = stdout, .indent = "", .gap = "\n  ", .end = "\n]\n"};
  for (const CliTerm *query = queries_listed(arena); query->name; query++)
    rows_put(&rows, (Cell[]){{CELL_OF_TEXT("query", query->name), COLUMN("query", -10)},
                             {CELL_OF_TEXT("about", query->text), COLUMN("about", 0)},
                             {0}});
  rows_end(&rows);
}

/* ---- Names in the database ---- */

/* NULL-terminated; those that can be read. */
static const char *const *names_of(Results *results, const char *sql, Arena *arena) {
  sqlite3_stmt *statement = NULL;
  const char **names = NULL;
  size_t n = 0, capacity = 0;
  ARENA_RESERVE(arena, names, capacity, 1);
  sqlite3_prepare_v2(results->db, sql, -1, &statement, NULL);
  while (statement && sqlite3_step(statement) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    if (!name) continue;
    ARENA_RESERVE(arena, names, capacity, n + 2);
    names[n++] = arena_copy(arena, name, strlen(name));
  }
  sqlite3_finalize(statement);
  return names;
}

#define TABLES                                                                                     \
  "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"

static bool is_one(const char *name, const char *const *names) {
  while (*names && strcmp(*names, name) != 0)
    names++;
  return *names != NULL;
}

/* ---- Axes ---- */

/* What a mark says: the columns of a point, or of a run with this number. */
static const struct AxesMark {
  const char *text, *value;
  bool but_seeds;
} marks[] = {
    {"/* axes of point */",
     "point_value JOIN axis USING (sweep_id, axis) WHERE point_value.sweep_id = point.sweep_id "
     "AND point_value.point = point.point",
     false},
    {"/* axes of run */",
     "point AS at JOIN point_value USING (sweep_id, point) JOIN axis USING (sweep_id, axis) "
     "WHERE at.run_id = run.id",
     false},
    {"/* axes of run but seeds */",
     "point AS at JOIN point_value USING (sweep_id, point) JOIN axis USING (sweep_id, axis) "
     "WHERE at.run_id = run.id",
     true},
};

/* Axes beyond some hundred would be more columns than SQLite takes. */
static const char *axes_columns(const struct AxesMark *mark, Results *results, Arena *arena) {
  const char *const *names =
      names_of(results, "SELECT DISTINCT name FROM axis ORDER BY axis, name LIMIT 100", arena);
  const char *text = "";
  for (; *names; names++) {
    if (mark->but_seeds && strstr(*names, "seed")) continue;
    char *column = sqlite3_mprintf("(SELECT point_value.value FROM %s AND axis.name = %Q LIMIT 1) "
                                   "AS \"%w\", ",
                                   mark->value, *names, *names);
    if (!column) arena_exhausted(0);
    text = arena_printf(arena, "%s%s", text, column);
    sqlite3_free(column);
  }
  return text;
}

const char *queries_load(const char *name, Results *results, Arena *arena, Diag *diag) {
  const char *const *names = folder_names(folder_of(arena), ".sql", arena);
  if (!is_one(name, names)) {
    diag_error(diag, place_of_file(NULL), "unknown query '%s'", name);
    if (is_one(name, names_of(results, TABLES, arena)))
      diag_hint(diag, "this is a table: --sql 'SELECT * FROM %s'", name);
    else
      diag_hint_choices(diag, name, names, "tandem query DB --list");
    return NULL;
  }
  const char *text = folder_text(path_of(name, arena), arena, diag);
  for (size_t i = 0; text && i < sizeof marks / sizeof *marks; i++) {
    const char *at = strstr(text, marks[i].text);
    if (at)
      text = arena_printf(arena, "%.*s%s%s", (int)(at - text), text,
                          axes_columns(&marks[i], results, arena), at + strlen(marks[i].text));
  }
  return text;
}

/* ---- Parameters ---- */

static const char *const *parameters_of(sqlite3_stmt *statement, Arena *arena) {
  const int n = sqlite3_bind_parameter_count(statement);
  const char **names = ARENA_ARRAY(arena, const char *, n + 1);
  int kept = 0;
  for (int i = 1; i <= n; i++) {
    const char *name = sqlite3_bind_parameter_name(statement, i);
    if (name) names[kept++] = name + 1;
  }
  return names;
}

/* Numbers as numbers, so that they equal those of columns. */
static void bind_text(sqlite3_stmt *statement, int index, const char *text) {
  char *end = NULL;
  const long long whole = strtoll(text, &end, 10);
  if (*text && !*end) {
    sqlite3_bind_int64(statement, index, whole);
    return;
  }
  const double real = strtod(text, &end);
  if (*text && !*end)
    sqlite3_bind_double(statement, index, real);
  else
    sqlite3_bind_text(statement, index, text, -1, SQLITE_TRANSIENT);
}

int queries_bind(sqlite3_stmt *statement, const char *const *assignments, Arena *arena,
                 Diag *diag) {
  for (; assignments && *assignments; assignments++) {
    const size_t length = strcspn(*assignments, "=");
    const char *name = arena_copy(arena, *assignments, length);
    const int index = sqlite3_bind_parameter_index(statement, arena_printf(arena, ":%s", name));
    if (index > 0 && (*assignments)[length] == '=') {
      bind_text(statement, index, *assignments + length + 1);
      continue;
    }
    diag_error(diag, place_of_file("--set"),
               index > 0 ? "'%s' needs a value, as in --set %s=1"
                         : "the query has no parameter '%s'",
               name, name);
    const char *const *names = parameters_of(statement, arena);
    if (index == 0 && names[0])
      diag_hint_near(diag, name, names);
    else if (index == 0)
      diag_hint(diag, "a parameter has the form ':%s' in the text of the query", name);
    return -1;
  }
  return 0;
}

/* ---- Errors ---- */

int queries_explain(Results *results, Arena *arena, Diag *diag) {
  const char *said = sqlite3_errmsg(results->db);
  const char *message = arena_copy(arena, said, strlen(said));
  const char *name = strrchr(message, ' ') ? strrchr(message, ' ') + 1 : message;
  const char *dot = strrchr(name, '.');
  const bool is_table = strncmp(message, "no such table", 13) == 0;
  const bool is_column = strncmp(message, "no such column", 14) == 0;
  diag_error(diag, place_of_file(NULL), "the query failed: %s", message);
  if (is_table)
    diag_hint_choices(diag, name, names_of(results, TABLES, arena), "tandem query DB tables");
  else if (is_column)
    diag_hint_choices(diag, dot ? dot + 1 : name,
                      names_of(results,
                               "SELECT DISTINCT c.name FROM sqlite_master AS t JOIN "
                               "pragma_table_info(t.name) AS c WHERE t.type IN ('table', 'view')",
                               arena),
                      "tandem query DB tables");
  return -1;
}
