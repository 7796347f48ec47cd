/* `tandem query DB [NAME]`: asks a database of results. A query by name is a file of queries/. */
#include "base/folder.h"
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "experiments/results/results.h"
#include <stdlib.h>
#include <string.h>

typedef struct Options {
  const char *sql;
  const Node *set;
  bool list;
  int format;
} Options;

static const OptionSpec options[] = {
    {CLI_MAIN, CLI_TEXT("--sql", sql, "TEXT", "run this SELECT statement in place of NAME")},
    {CLI_ROW("--set", NODE, set, "NAME=VALUE",
             "set a parameter of the query: --set run=3 sets ':run'")},
    {CLI_FLAG("--list", list, "print the named queries and what each returns")},
    {CLI_FORMAT},
    {0}};

/* ---- Queries by name ---- */

static const char *folder_of(Arena *arena) {
  return arena_printf(arena, "%s/experiments/queries", config_data_root());
}

static const char *path_of(const char *name, Arena *arena) {
  return arena_printf(arena, "%s/%s.sql", folder_of(arena), name);
}

static const char *about(const char *name, Arena *arena) {
  return folder_about(path_of(name, arena), arena);
}

static const CliTerm *queries_listed(Arena *arena) {
  return cli_terms(folder_names(folder_of(arena), ".sql", arena), about, arena);
}

static void list_queries(OutputFormat format, Arena *arena) {
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
  static const char *const none[] = {NULL};
  Diag unsaid;
  diag_init(&unsaid);
  const char *const *names = results_texts(results, sql, arena, &unsaid);
  diag_done(&unsaid);
  return names ? names : none;
}

#define TABLES                                                                                     \
  "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"

/* ---- Axes ---- */

/* SQL has no columns that depend on rows: a comment "axes of X" in a query is where the axes of the
 * database's sweeps become columns of their own. */

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

static const char *load_query(const char *name, Results *results, Arena *arena, Diag *diag) {
  const char *const *names = folder_names(folder_of(arena), ".sql", arena);
  if (!text_is_one(name, names)) {
    diag_error(diag, place_of_file(NULL), "unknown query '%s'", name);
    if (text_is_one(name, names_of(results, TABLES, arena)))
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

static int bind_parameters(sqlite3_stmt *statement, const char *const *assignments, Arena *arena,
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

static int explain(Results *results, Arena *arena, Diag *diag) {
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

/* ---- Printing rows as they come ---- */

static const char *cell_text(sqlite3_stmt *statement, int column) {
  const unsigned char *text = sqlite3_column_text(statement, column);
  return text ? (const char *)text : "";
}

/* Six digits are enough for people. */
static const char *cell_short(sqlite3_stmt *statement, int column, char text[32]) {
  if (sqlite3_column_type(statement, column) != SQLITE_FLOAT) return cell_text(statement, column);
  snprintf(text, 32, "%.6g", sqlite3_column_double(statement, column));
  return text;
}

/* Widths of the columns, negative for those on the left. */
static int measure(sqlite3_stmt *statement, int *widths, int n) {
  int status = SQLITE_ROW;
  for (int i = 0; i < n; i++)
    widths[i] = -text_width(sqlite3_column_name(statement, i));
  while ((status = sqlite3_step(statement)) == SQLITE_ROW)
    for (int i = 0; i < n; i++) {
      char text[32];
      const int width = text_width(cell_short(statement, i, text));
      const int widest = width > abs(widths[i]) ? width : abs(widths[i]);
      const int type = sqlite3_column_type(statement, i);
      const bool is_number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
      widths[i] = widths[i] > 0 || is_number ? widest : -widest;
    }
  return status;
}

/* Goes through all rows twice, so that nothing is kept. */
static int print_table(sqlite3_stmt *statement, Arena *arena) {
  const int n = sqlite3_column_count(statement);
  int *widths = ARENA_ARRAY(arena, int, n);
  int status = measure(statement, widths, n);
  if (status != SQLITE_DONE) return status;
  sqlite3_reset(statement);
  for (int i = 0; i < n; i++) {
    write_cell(sqlite3_column_name(statement, i), widths[i], stdout);
    fputs(i + 1 < n ? "  " : "\n", stdout);
  }
  while ((status = sqlite3_step(statement)) == SQLITE_ROW)
    for (int i = 0; i < n; i++) {
      char text[32];
      write_cell(cell_short(statement, i, text), widths[i], stdout);
      fputs(i + 1 < n ? "  " : "\n", stdout);
    }
  return status;
}

/* What a column of the row holds; CSV has numbers as the database writes them. */
static Cell cell_of(sqlite3_stmt *statement, int column, OutputFormat format) {
  const char *name = sqlite3_column_name(statement, column);
  const int type = sqlite3_column_type(statement, column);
  if (format == OUTPUT_JSON && type == SQLITE_INTEGER)
    return (Cell){CELL_OF_WHOLE(name, sqlite3_column_int64(statement, column))};
  if (format == OUTPUT_JSON && type == SQLITE_FLOAT)
    return (Cell){CELL_OF_NUMBER(name, sqlite3_column_double(statement, column))};
  return (Cell){CELL_OF_TEXT(name, type == SQLITE_NULL ? NULL : cell_text(statement, column))};
}

static int print_rows(sqlite3_stmt *statement, OutputFormat format, Arena *arena) {
  const int n = sqlite3_column_count(statement);
  int status = SQLITE_ROW;
  Rows rows = {format, stdout, "", .gap = "\n  ", .end = "\n]\n", .headings_only = true};
  Cell *cells = ARENA_ARRAY(arena, Cell, n + 1);
  for (int i = 0; i < n; i++)
    cells[i] = (Cell){CELL_OF_TEXT(sqlite3_column_name(statement, i), NULL)};
  if (format == OUTPUT_CSV) rows_put(&rows, cells);
  rows.headings_only = false;
  while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
    for (int i = 0; i < n; i++)
      cells[i] = cell_of(statement, i, format);
    rows_put(&rows, cells);
  }
  rows_end(&rows);
  return status;
}

/* ---- The command ---- */

static int answer(Results *results, sqlite3_stmt *statement, const Options *given, Arena *arena,
                  Diag *diag) {
  if (bind_parameters(statement, cli_texts(given->set, arena), arena, diag)) return -1;
  const int status = given->format == OUTPUT_TABLE
                         ? print_table(statement, arena)
                         : print_rows(statement, (OutputFormat)given->format, arena);
  return status == SQLITE_DONE ? 0 : explain(results, arena, diag);
}

static int ask(Results *results, const char *sql, const Options *given, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;
  const char *rest = "";
  const int status = sqlite3_prepare_v2(results->db, sql, -1, &statement, &rest);
  const bool several =
      status == SQLITE_OK && (!statement || rest[strspn(rest, " \t\r\n;")] != '\0');
  if (status == SQLITE_AUTH || several || !sqlite3_stmt_readonly(statement))
    return diag_error(diag, place_of_file(NULL), "a query must be one statement%s",
                      several ? "" : " that reads only: a SELECT, or a PRAGMA that sets nothing");
  return status == SQLITE_OK ? answer(results, statement, given, arena, diag)
                             : explain(results, arena, diag);
}

static int run_query(Cli *cli) {
  const Options *given = cli->given;
  const char *const *operands = cli->operands;
  Arena *arena = cli->arena;
  Diag *diag = cli->diag;
  Results results;
  if (given->sql && operands[1]) return cli_usage(cli, "a name and '--sql' exclude each other");
  if (given->list) {
    list_queries((OutputFormat)given->format, arena);
    return EXIT_DONE;
  }
  if (results_open_reader(&results, operands[0], arena, diag)) return EXIT_INPUT;
  const char *name = operands[1] ? operands[1] : "summary";
  const char *sql = given->sql ? given->sql : load_query(name, &results, arena, diag);
  int64_t runs = 0, stale = 0;
  int status = sql ? ask(&results, sql, given, arena, diag) : -1;
  if (status == 0) status = results_count_runs(&results, &runs, &stale, diag);
  cli_note_stale(runs, stale);
  results_close(&results);
  return status ? EXIT_INPUT : EXIT_DONE;
}

const Command command_query = {
    .name = "query",
    .group = COMMANDS_RESULTS,
    .help = "query a database of results",
    .description = "Runs a named query or one SQL statement on a database of results. The database "
                   "is only read.",
    .operands = "DB [NAME]",
    .arguments = (const CliTerm[]){{"DB", "database of results (SQLite)"},
                                   {"NAME", "name of a query; 'summary' by default, which prints "
                                            "one row per run"},
                                   {0}},
    CLI_OPTIONS,
    .notes = "experiments/results/schema.sql describes the tables. A run is stale if a program "
             "with other outcomes made it; is_stale(epoch) tells so. 'sweep' and 'provision' "
             "simulate stale runs again.",
    .listing = "Queries",
    .listed = queries_listed,
    .listed_as = "NAME",
    .examples = "tandem query runs.db\n"
                "tandem query runs.db --sql \"SELECT name, value FROM metric\" --format csv",
    .exits = {[EXIT_INPUT] = "the query is wrong, or the file is not a database of results"},
    .run = run_query,
};
