/* Figures from databases of results: the rows of plots/NAME.sql as data blocks for plots/NAME.gp.
 *
 * The first column names the series that a row belongs to; rows of a series stand together. The
 * script finds series number i in $series<i> (columns 1, 2, … are the others, missing values NaN),
 * its name in name<i>, and how many there are in n_series. */
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/plot.h"
#include "experiments/results/results.h"
#include "sim/base/folder.h"
#include <string.h>

const char *const *plot_query_names(Arena *arena) {
  return folder_names(arena_printf(arena, "%s/plots", config_data_root()), ".sql", arena);
}

static void write_row(sqlite3_stmt *rows, FILE *out) {
  for (int i = 1; i < sqlite3_column_count(rows); i++)
    if (sqlite3_column_type(rows, i) == SQLITE_NULL)
      fputs(" NaN", out);
    else
      fprintf(out, " %.9g", sqlite3_column_double(rows, i));
  putc('\n', out);
}

/* Returns how many series there are; all rows are written when `rows` is at its end. */
static int write_series(sqlite3_stmt *rows, Gnuplot *gnuplot, Arena *arena) {
  int n_series = 0;
  const char *series = NULL;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(rows, 0);
    const char *name = text ? text : "";
    if (!series || strcmp(series, name) != 0) {
      if (series) fputs("END\n", gnuplot->script);
      series = arena_copy(arena, name, strlen(name));
      gnuplot_set(gnuplot, arena_printf(arena, "name%d", ++n_series), series);
      fprintf(gnuplot->script, "$series%d << END\n", n_series);
    }
    write_row(rows, gnuplot->script);
  }
  if (series) fputs("END\n", gnuplot->script);
  return n_series;
}

/* Whether the query gives any rows; leaves it at its start. */
static bool has_rows(sqlite3_stmt *rows) {
  const bool any = sqlite3_step(rows) == SQLITE_ROW;
  sqlite3_reset(rows);
  return any;
}

/* The first sentence of the comment that a query begins with: what it draws. */
static const char *first_sentence(const char *sql, Arena *arena) {
  const char *text = "";
  while (strncmp(sql, "-- ", 3) == 0) {
    const size_t length = strcspn(sql += 3, "\n"), sentence = strcspn(sql, ".");
    const size_t taken = sentence < length ? sentence : length;
    text = arena_printf(arena, "%s%s%.*s", text, *text ? " " : "", (int)taken, sql);
    if (sentence < length || !sql[length]) break;
    sql += length + 1;
  }
  return text;
}

static int draw(Results *results, sqlite3_stmt *rows, const char *name, const char *path,
                Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  if (!has_rows(rows)) {
    diag_error(diag, place_of_file(results->path), "'%s' holds nothing for the figure '%s'",
               results->path, name);
    diag_hint(diag, "it draws: %s", first_sentence(sqlite3_sql(rows), arena));
    return -1;
  }
  if (gnuplot_open(&gnuplot, path, 1100, 760, config_data_root(), arena, diag)) return -1;
  fprintf(gnuplot.script, "n_series = %d\n", write_series(rows, &gnuplot, arena));
  return gnuplot_draw(&gnuplot, name, diag);
}

int plot_query(const char *name, const char *database, const char *path, Arena *arena, Diag *diag) {
  Results results = {0};
  sqlite3_stmt *rows = NULL;
  const char *file = arena_printf(arena, "%s/plots/%s.sql", config_data_root(), name);
  const char *sql = folder_text(file, arena, diag);
  int status = sql ? results_open_reader(&results, database, arena, diag) : -1;
  if (status == 0 && sqlite3_prepare_v2(results.db, sql, -1, &rows, NULL) != SQLITE_OK)
    status = results_error(&results, "read", diag);
  if (status == 0) status = draw(&results, rows, name, path, arena, diag);
  sqlite3_finalize(rows);
  results_close(&results);
  return status;
}
