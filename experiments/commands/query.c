/* `tandem query DB [NAME]`: asks a database of results. A query by name is a file of queries/. */
#include "base/text.h"
#include "experiments/base/cells.h"
#include "experiments/commands/cli.h"
#include "experiments/commands/queries.h"
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
static int print_aligned(sqlite3_stmt *statement, int *widths, int n) {
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

static int print_table(sqlite3_stmt *statement) {
  const int n = sqlite3_column_count(statement);
  Arena arena;
  arena_init(&arena);
  int status = print_aligned(statement, ARENA_ARRAY(&arena, int, n), n);
  arena_done(&arena);
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

static int print_rows(sqlite3_stmt *statement, OutputFormat format) {
  const int n = sqlite3_column_count(statement);
  int status = SQLITE_ROW;
  Rows rows = {format, stdout, "", .gap = "\n  ", .end = "\n]\n", .headings_only = true};
  Arena arena;
  arena_init(&arena);
  Cell *cells = ARENA_ARRAY(&arena, Cell, n + 1);
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
  arena_done(&arena);
  return status;
}

/* ---- The command ---- */

typedef struct Asking {
  const char *sql;
  const char *const *assignments; // of parameters
  OutputFormat format;
} Asking;

static int answer(Results *results, sqlite3_stmt *statement, const Asking *asking, Arena *arena,
                  Diag *diag) {
  if (queries_bind(statement, asking->assignments, arena, diag)) return -1;
  const int status = asking->format == OUTPUT_TABLE ? print_table(statement)
                                                    : print_rows(statement, asking->format);
  return status == SQLITE_DONE ? 0 : queries_explain(results, arena, diag);
}

static int ask(Results *results, const Asking *asking, Arena *arena, Diag *diag) {
  CLEANUP_STATEMENT sqlite3_stmt *statement = NULL;
  const char *rest = "";
  const int status = sqlite3_prepare_v2(results->db, asking->sql, -1, &statement, &rest);
  const bool several =
      status == SQLITE_OK && (!statement || rest[strspn(rest, " \t\r\n;")] != '\0');
  if (status == SQLITE_AUTH || several || !sqlite3_stmt_readonly(statement))
    return diag_error(diag, place_of_file(NULL), "a query must be one statement%s",
                      several ? "" : " that reads only: a SELECT, or a PRAGMA that sets nothing");
  return status == SQLITE_OK ? answer(results, statement, asking, arena, diag)
                             : queries_explain(results, arena, diag);
}

static int run_query(Cli *cli) {
  const Options *given = cli->given;
  const char *const *operands = cli->operands;
  Arena *arena = cli->arena;
  Diag *diag = cli->diag;
  Results results;
  if (given->sql && operands[1]) return cli_usage(cli, "a name and '--sql' exclude each other");
  if (given->list) {
    queries_print((OutputFormat)given->format, arena);
    return EXIT_DONE;
  }
  if (results_open_reader(&results, operands[0], arena, diag)) return EXIT_INPUT;
  const char *name = operands[1] ? operands[1] : "summary";
  const Asking asking = {given->sql ? given->sql : queries_load(name, &results, arena, diag),
                         cli_texts(given->set, arena), (OutputFormat)given->format};
  int64_t runs = 0, stale = 0;
  int status = asking.sql ? ask(&results, &asking, arena, diag) : -1;
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
    .options = options,
    .size = sizeof(Options),
    .notes = "experiments/results/schema.sql describes the tables. A run is stale if a program "
             "with other outcomes made it; is_stale(epoch) tells so. 'sweep' and 'provision' "
             "simulate stale runs again.",
    .listing = "Queries",
    .listed = queries_listed,
    .examples = "tandem query runs.db\n"
                "tandem query runs.db --sql \"SELECT name, value FROM metric\" --format csv",
    .exits = {[EXIT_INPUT] = "the query is wrong, or the file is not a database of results"},
    .run = run_query,
};
