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

const char plot_css[] =
    "svg.figure{display:block;width:100%;height:auto}\n"
    "@media(prefers-color-scheme:dark){svg.figure{--figure-1a1a1a:#e4e4e4;--figure-6b6b6b:#a3a3a3;"
    "--figure-d9d9d9:#3a3a3a;--figure-ffffff:#181818;--figure-0072b2:#4aa3df;"
    "--figure-d55e00:#f0803c;--figure-009e73:#2fc497}}\n";

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

/* A statement of plots/NAME.sql over the runs of a choice; NULL with entries. */
static sqlite3_stmt *prepare(Results *results, const char *name, Arena *arena, Diag *diag) {
  const char *file = arena_printf(arena, "%s/plots/%s.sql", config_data_root(), name);
  const char *sql = folder_text(file, arena, diag);
  return sql ? results_prepare(results, sql, diag) : NULL;
}

static int draw(Results *results, const char *name, const PlotPlace *place, Arena *arena,
                Diag *diag) {
  Gnuplot gnuplot;
  CLEANUP_STATEMENT sqlite3_stmt *rows = prepare(results, name, arena, diag);
  if (!rows) return -1;
  const char *about = first_sentence(sqlite3_sql(rows), arena);
  if (!has_rows(rows)) {
    diag_error(diag, place_of_file(results->path), "'%s' holds nothing for the figure '%s'",
               results->path, name);
    diag_hint(diag, "it draws: %s", about);
    return -1;
  }
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  fprintf(gnuplot.script, "n_series = %d\n", write_series(rows, &gnuplot, arena));
  return gnuplot_draw(&gnuplot, name, about, diag);
}

int plot_query(const char *name, const char *database, const PlotChoice *choice,
               const PlotPlace *place, Arena *arena, Diag *diag) {
  Results results = {0};
  if (results_open_reader(&results, database, arena, diag)) return -1;
  (void)choice;
  const int status = draw(&results, name, place, arena, diag);
  results_close(&results);
  return status;
}

bool plot_fits(const char *name, const char *database, const PlotChoice *choice, Arena *arena) {
  Results results = {0};
  Diag unsaid;
  diag_init(&unsaid);
  (void)choice;
  bool fits = false;
  if (results_open_reader(&results, database, arena, &unsaid) == 0) {
    CLEANUP_STATEMENT sqlite3_stmt *rows = prepare(&results, name, arena, &unsaid);
    fits = rows && has_rows(rows);
  }
  results_close(&results);
  diag_done(&unsaid);
  return fits;
}
