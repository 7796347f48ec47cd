/* Figures from databases of results: the rows of plots/NAME.sql as data blocks for plots/NAME.gp.
 *
 * The first column is the series that a row belongs to, by name or by its number among those of
 * `:places`; rows of a series stand together. The script finds series i in $series<i> (columns 1,
 * 2, … are the others, missing values NaN), its name in name<i>, how many there are in n_series,
 * and rows without a series in $marks, n_marks of them; of row i that has a column run_id, mark<i>
 * is what tells that run from others of its series, if anything does.
 *
 * A query that has the parameters is given `:places` and `:metrics`, lists in JSON (shown.h), and
 * says in lines at its head what it takes of them:
 *
 *     -- axes: 1            x, or x and y
 *     -- numbers: 1         x must be one
 *     -- words: 1           its values stand side by side, also where they are numbers
 *     -- prefer: rate       for x
 *     -- series: 12         at most; what varies most is then held at one value
 *     -- fold: 1            or is then no part of what series are called
 *     -- metrics: limits, ttft.p99   unless others are asked for
 *     -- as: NAME           a case of another figure, whose text and script follow
 *
 * A comment "values" in it, marked as below, stands for the values of those metrics of those runs.
 */
#include "base/folder.h"
#include "experiments/base/cells.h"
#include "experiments/config/config.h"
#include "experiments/plot/gnuplot.h"
#include "experiments/plot/shown.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char plot_css[] =
    "svg.figure{display:block;width:100%;height:auto}\n"
    "@media(prefers-color-scheme:dark){svg.figure{--figure-1a1a1a:#e4e4e4;--figure-6b6b6b:#a3a3a3;"
    "--figure-d9d9d9:#3a3a3a;--figure-ffffff:#181818;--figure-0072b2:#4aa3df;"
    "--figure-d55e00:#f0803c;--figure-009e73:#2fc497}}\n";

const char *const *plot_query_names(Arena *arena) {
  const char *const *queries =
      folder_names(arena_printf(arena, "%s/plots", config_data_root()), ".sql", arena);
  int n = 0, n_run = 0;
  while (queries[n])
    n++;
  while (plot_run_names[n_run])
    n_run++;
  const char **names = ARENA_ARRAY(arena, const char *, n + n_run + 1);
  memcpy(names, queries, (size_t)n * sizeof *names);
  memcpy(names + n, plot_run_names, (size_t)n_run * sizeof *names);
  return names;
}

const char *plot_about(const char *name, Arena *arena) {
  static const char *const others[][2] = {
      {"fit", "a fitted performance model: the measurements, the fit and its error"},
      {"batches", "prompt tokens and sequences of the iterations of a run"},
      {"cluster", "a run over time, by pool: requests, KV memory, prefix cache, power"}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(others[i][0], name) == 0) return others[i][1];
  return folder_about(arena_printf(arena, "%s/plots/%s.sql", config_data_root(), name), arena);
}

typedef struct Drawing {
  const char *name, *script;
  sqlite3_stmt *rows;
  bool has_places;
  Shown shown;
  ShownMetrics metrics;
} Drawing;

/* A number always has a point: as text gnuplot takes 1.0e-06, and not 1e-06. */
static void write_row(sqlite3_stmt *rows, FILE *out) {
  for (int i = 1; i < sqlite3_column_count(rows); i++)
    if (sqlite3_column_type(rows, i) == SQLITE_NULL)
      fputs(" NaN", out);
    else
      fprintf(out, " %#.9g", sqlite3_column_double(rows, i));
  putc('\n', out);
}

static const char *series_name(const Drawing *self, Arena *arena) {
  if (sqlite3_column_type(self->rows, 0) == SQLITE_NULL) return NULL;
  const int64_t number = sqlite3_column_int64(self->rows, 0);
  if (self->has_places && number >= 0 && number < self->shown.n_series)
    return self->shown.series[number];
  const char *text = (const char *)sqlite3_column_text(self->rows, 0);
  return arena_copy(arena, text, strlen(text));
}

/* What a run is called that a row has in a column `run_id`; NULL: it has none, or nothing tells it
 * from the others of its series. */
static const char *run_name(const Drawing *self) {
  for (int i = 1; i < sqlite3_column_count(self->rows); i++) {
    if (strcmp(sqlite3_column_name(self->rows, i), "run_id") != 0) continue;
    for (size_t k = 0; self->has_places && k < self->shown.n_runs; k++)
      if (self->shown.runs[k].id == sqlite3_column_int64(self->rows, i))
        return *self->shown.runs[k].name ? self->shown.runs[k].name : NULL;
  }
  return NULL;
}

/* All rows, of which those without a series come first. */
static void write_rows(const Drawing *self, Gnuplot *gnuplot, Arena *arena) {
  FILE *script = gnuplot->script;
  int n_series = 0, n_marks = 0;
  const char *series = NULL;
  const char **names = NULL; // of marks, from 1
  size_t capacity = 0;
  fputs("$marks << END\n", script);
  while (sqlite3_step(self->rows) == SQLITE_ROW) {
    const char *name = series_name(self, arena);
    if (name && (!series || strcmp(series, name) != 0)) {
      series = name;
      fputs("END\n", script);
      gnuplot_set(gnuplot, arena_printf(arena, "name%d", ++n_series), series);
      fprintf(script, "$series%d << END\n", n_series);
    }
    n_marks += name == NULL;
    if (!name) {
      ARENA_RESERVE(arena, names, capacity, (size_t)n_marks + 1);
      names[n_marks] = run_name(self);
    }
    write_row(self->rows, script);
  }
  fprintf(script, "END\nn_marks = %d\nn_series = %d\n", n_marks, n_series);
  for (int i = 1; i <= n_marks; i++)
    if (names[i]) gnuplot_set(gnuplot, arena_printf(arena, "mark%d", i), names[i]);
}

static void write_axis(const char *name, const ShownAxis *axis, Gnuplot *gnuplot, Arena *arena) {
  gnuplot_set(gnuplot, arena_printf(arena, "%s_label", name), axis->label ? axis->label : "");
  fprintf(gnuplot->script, "%s_words = %d\n", name, axis->words ? axis->n_words : 0);
  fprintf(gnuplot->script, "%s_numeric = %d\n", name, axis->numeric);
  for (int i = 0; axis->words && i < axis->n_words; i++)
    gnuplot_set(gnuplot, arena_printf(arena, "%s_word%d", name, i + 1), axis->words[i]);
}

/* What stands around the data. */
static int write_labels(const Drawing *self, Results *results, Gnuplot *gnuplot, Arena *arena,
                        Diag *diag) {
  const char *corner = shown_corner(&self->shown, results, arena, diag);
  if (!corner) return -1;
  gnuplot_corner(gnuplot, corner, arena);
  fprintf(gnuplot->script, "n_metrics = %d\n", self->metrics.n);
  for (int i = 0; i < self->metrics.n; i++)
    gnuplot_set(gnuplot, arena_printf(arena, "metric%d", i + 1), self->metrics.labels[i]);
  for (int i = 0; i < self->metrics.n; i++)
    fprintf(gnuplot->script, "metric%d_is_share = %d\n", i + 1, self->metrics.is_share[i]);
  write_axis("x", &self->shown.x, gnuplot, arena);
  write_axis("y", &self->shown.y, gnuplot, arena);
  return 0;
}

/* Whether the query gives any rows; leaves it at its start. */
static bool has_rows(sqlite3_stmt *rows) {
  const bool any = sqlite3_step(rows) == SQLITE_ROW;
  sqlite3_reset(rows);
  return any;
}

/* What a line "-- NAME: VALUE" at the head of a query says; NULL: there is none. */
static const char *told(const char *sql, const char *name, Arena *arena) {
  const size_t length = strlen(name);
  for (; strncmp(sql, "-- ", 3) == 0; sql += *sql == '\n') {
    const size_t line = strcspn(sql += 3, "\n");
    if (strncmp(sql, name, length) == 0 && strncmp(sql + length, ": ", 2) == 0)
      return arena_copy(arena, sql + length + 2, line - length - 2);
    sql += line;
  }
  return NULL;
}

static int told_number(const char *sql, const char *name, int otherwise, Arena *arena) {
  const char *text = told(sql, name, arena);
  return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static const char values_mark[] = "/* values */";
/* The value of a run is off by `half` as far as chance within it goes. */
static const char values_sql[] =
    "place AS (SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS "
    "series, "
    "json_extract(value, '$[2]') AS x, json_extract(value, '$[3]') AS y FROM json_each(:places)), "
    "asked AS (SELECT json_extract(value, '$[0]') AS panel, json_extract(value, '$[1]') AS scope, "
    "json_extract(value, '$[2]') AS name, json_extract(value, '$[3]') AS statistic, "
    "json_extract(value, '$[4]') AS objective FROM json_each(:metrics)), "
    "found AS (SELECT place.*, asked.*, metric.value FROM asked CROSS JOIN place JOIN metric "
    "ON metric.run_id = place.run_id AND metric.scope = asked.scope AND metric.name = asked.name "
    "AND metric.statistic = asked.statistic UNION ALL SELECT place.*, asked.*, slo.value "
    "FROM asked CROSS JOIN place JOIN slo ON asked.scope = 'slo' AND slo.run_id = place.run_id "
    "AND slo.name = asked.name), "
    "\"values\" AS (SELECT found.run_id, series, x, y, panel, found.value, slo.\"limit\", "
    "(SELECT digest FROM run WHERE id = found.run_id) AS outcomes, "
    "found.value * width.value AS half FROM found LEFT JOIN slo ON slo.run_id = found.run_id "
    "AND slo.name = objective LEFT JOIN metric AS width ON width.run_id = found.run_id "
    "AND width.scope = found.scope AND width.name = found.name "
    "AND width.statistic = found.statistic || '_half_width') ";

/* Its text, with that of the query which it is a case of. */
static const char *load_sql(const char *name, const char **ret_script, Arena *arena, Diag *diag) {
  const char *file = arena_printf(arena, "%s/plots/%s.sql", config_data_root(), name);
  const char *sql = folder_text(file, arena, diag);
  const char *as = sql ? told(sql, "as", arena) : NULL;
  *ret_script = name;
  if (as) {
    const char *rest = load_sql(as, ret_script, arena, diag);
    return rest ? arena_printf(arena, "%s%s", sql, rest) : NULL;
  }
  const char *mark = sql ? strstr(sql, values_mark) : NULL;
  return mark ? arena_printf(arena, "%.*s%s%s", (int)(mark - sql), sql, values_sql,
                             mark + strlen(values_mark))
              : sql;
}

static bool has_parameter(const Drawing *self, const char *name) {
  return sqlite3_bind_parameter_index(self->rows, name) > 0;
}

static void bind(const Drawing *self, const char *name, const char *text) {
  const int index = sqlite3_bind_parameter_index(self->rows, name);
  if (index > 0) sqlite3_bind_text(self->rows, index, text, -1, SQLITE_STATIC);
}

int plot_refuse(const char *option, const char *name, Diag *diag) {
  return diag_error(diag, place_of_file(option), "figure '%s' does not use this option", name);
}

/* What of a choice the figure does not have. */
static int check_choice(const Drawing *self, const PlotChoice *choice, int n_axes, Diag *diag) {
  int status = 0;
  if (choice->metrics && !has_parameter(self, ":metrics"))
    status = plot_refuse("--metric", self->name, diag);
  if (choice->runs && !self->has_places) status = plot_refuse("--run", self->name, diag);
  if (choice->where && !self->has_places) status = plot_refuse("--where", self->name, diag);
  if (choice->axis && n_axes != 1) status = plot_refuse("--axis", self->name, diag);
  if (choice->x && n_axes < 1) status = plot_refuse("--x", self->name, diag);
  if (choice->y && n_axes != 2) status = plot_refuse("--y", self->name, diag);
  return status;
}

/* Closed by the caller in any case. */
static int open_figure(Drawing *self, const char *name, Results *results, const PlotChoice *choice,
                       Arena *arena, Diag *diag) {
  static const PlotChoice none = {0};
  *self = (Drawing){.name = name};
  if (!choice) choice = &none;
  const char *sql = load_sql(name, &self->script, arena, diag);
  if (!sql || !(self->rows = results_prepare(results, sql, diag))) return -1;
  self->has_places = has_parameter(self, ":places");
  const ShownForm form = {.n_axes = told_number(sql, "axes", 0, arena),
                          .numeric = told_number(sql, "numbers", 0, arena),
                          .words = told_number(sql, "words", 0, arena),
                          .max_series = told_number(sql, "series", 12, arena),
                          .fold = told_number(sql, "fold", 0, arena),
                          .prefer = told(sql, "prefer", arena)};
  if (check_choice(self, choice, form.n_axes, diag)) return -1;
  if (!self->has_places) return shown_find_all(&self->shown, results, arena, diag);
  if (shown_find(&self->shown, results, choice, &form, arena, diag)) return -1;
  bind(self, ":places", self->shown.places);
  if (!has_parameter(self, ":metrics")) return 0;
  const char *defaults = told(sql, "metrics", arena);
  if (shown_find_metrics(&self->metrics, results, self->shown.ids, choice->metrics,
                         defaults ? defaults : "", arena, diag))
    return -1;
  bind(self, ":metrics", self->metrics.json);
  return 0;
}

/* ---- The rows themselves ---- */

static Cell cell_of(const Drawing *self, int column, Arena *arena) {
  const char *name = sqlite3_column_name(self->rows, column);
  if (column == 0) return (Cell){CELL_OF_TEXT(name, series_name(self, arena))};
  const int type = sqlite3_column_type(self->rows, column);
  return (Cell){
      CELL_OF_NUMBER(name, type == SQLITE_NULL ? NAN : sqlite3_column_double(self->rows, column))};
}

static void print_rows(const Drawing *self, FILE *out) {
  const int n = sqlite3_column_count(self->rows);
  Rows rows = {.format = OUTPUT_CSV, .out = out, .indent = "", .gap = "", .end = ""};
  while (sqlite3_step(self->rows) == SQLITE_ROW) {
    Arena row;
    arena_init(&row);
    Cell *cells = ARENA_ARRAY(&row, Cell, n + 1);
    for (int i = 0; i < n; i++)
      cells[i] = cell_of(self, i, &row);
    rows_put(&rows, cells);
    arena_done(&row);
  }
  rows_end(&rows);
}

static int draw(Drawing *self, Results *results, const PlotPlace *place, Arena *arena, Diag *diag) {
  Gnuplot gnuplot;
  const char *about = plot_about(self->name, arena);
  if (!has_rows(self->rows)) {
    diag_error(diag, place_of_file(results->path), "'%s' has nothing for the figure '%s'",
               results->path, self->name);
    diag_hint(diag, "the figure draws %s", about);
    return -1;
  }
  if (place->rows) {
    print_rows(self, place->rows);
    return 0;
  }
  if (gnuplot_open(&gnuplot, place, config_data_root(), arena, diag)) return -1;
  write_rows(self, &gnuplot, arena);
  const int status = write_labels(self, results, &gnuplot, arena, diag);
  return gnuplot_draw(&gnuplot, self->script, about, diag) || status ? -1 : 0;
}

int plot_query(const char *name, const char *database, const PlotChoice *choice,
               const PlotPlace *place, Arena *arena, Diag *diag) {
  Results results = {0};
  Drawing figure = {0};
  if (plot_is_of_run(name)) return plot_run(name, database, choice, place, arena, diag);
  if (results_open_reader(&results, database, arena, diag)) return -1;
  const int status = open_figure(&figure, name, &results, choice, arena, diag) ||
                     draw(&figure, &results, place, arena, diag);
  results_finalize(&figure.rows);
  results_close(&results);
  return status ? -1 : 0;
}

bool plot_fits(const char *name, const char *database, const PlotChoice *choice, Arena *arena) {
  Results results = {0};
  Drawing figure = {0};
  Diag unsaid;
  if (plot_is_of_run(name)) return plot_run_fits(database, choice, arena);
  diag_init(&unsaid);
  const bool fits = results_open_reader(&results, database, arena, &unsaid) == 0 &&
                    open_figure(&figure, name, &results, choice, arena, &unsaid) == 0 &&
                    has_rows(figure.rows);
  results_finalize(&figure.rows);
  results_close(&results);
  diag_done(&unsaid);
  return fits;
}
