/* See subject.h. */
#include "base/text.h"
#include "experiments/base/writer.h"
#include "experiments/findings/subject.h"
#include <math.h>
#include <string.h>

sqlite3_stmt *subject_ask(const Subject *self, const char *sql) {
  sqlite3_stmt *statement = results_prepare(&self->of->results, sql, self->of->diag);
  if (!statement) return NULL;
  const int runs = sqlite3_bind_parameter_index(statement, ":runs");
  const int id = sqlite3_bind_parameter_index(statement, ":id");
  if (runs) sqlite3_bind_text(statement, runs, self->runs, -1, SQLITE_STATIC);
  if (id) sqlite3_bind_int64(statement, id, self->id);
  return statement;
}

double subject_number(const Subject *self, const char *sql) {
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(self, sql);
  return rows && sqlite3_step(rows) == SQLITE_ROW ? results_real(rows, 0) : NAN;
}

/* Three digits, of large numbers all of the whole part: 0.0123, 4.57, 81.2, 1,234. */
static const char *digits(double value, Arena *arena) {
  char text[32];
  if (fabs(value) >= 100) return arena_printf(arena, "%s", format_count(round(value), text));
  if (value == round(value)) return arena_printf(arena, "%.0f", value);
  return arena_printf(arena, "%.3g", value);
}

const char *shown(double value, const char *unit, Arena *arena) {
  char text[32];
  if (isnan(value)) return "-";
  if (isinf(value)) return value > 0 ? "never" : "-";
  if (strcmp(unit, "s") == 0) return arena_printf(arena, "%s", format_duration(value, text));
  if (strcmp(unit, "%") == 0)
    return arena_printf(arena, fabs(value) < 0.1 ? "%.1f%%" : "%.0f%%", 100 * value);
  if (*unit == '$')
    return arena_printf(arena, fabs(value) < 100 ? "$%.2f%s" : "$%.0f%s", value, unit + 1);
  if (strcmp(unit, "B") == 0 && fabs(value) >= 1e9)
    return arena_printf(arena, "%s GB", digits(value / 1e9, arena));
  return *unit ? arena_printf(arena, "%s %s", digits(value, arena), unit) : digits(value, arena);
}

/* ---- Tables of queries ---- */

typedef struct Column {
  const char *head, *unit;
  bool is_text, is_class, is_hidden, has_any;
} Column;

typedef struct Grid {
  Column *columns; // [n_columns]
  int n_columns;
  const char **cells; // [n_rows · n_columns]
  size_t n_cells, capacity, n_rows, n_more;
} Grid;

/* Columns of the schema that a query gives as they are. */
static const char *const schema_units[][2] = {{"cost_per_hour", "$"},
                                              {"cost_per_million_tokens", "$"},
                                              {"cost_per_million_output_tokens", "$"},
                                              {"power_kw", "kW"},
                                              {"margin", "%"}};

static Column column_of(const char *name, Arena *arena) {
  const char *unit = strrchr(name, '[');
  char *words = arena_copy(arena, name, strlen(name));
  Column self = {.head = words, .unit = "", .is_class = strcmp(name, "class") == 0};
  self.is_hidden = self.is_class || text_ends_with(name, "_id");
  for (size_t i = 0; i < sizeof schema_units / sizeof *schema_units; i++)
    if (strcmp(name, schema_units[i][0]) == 0) self.unit = schema_units[i][1];
  for (char *at = words; *at; at++)
    if (*at == '_') *at = ' ';
  if (unit && unit > name && text_ends_with(name, "]")) {
    words[unit - name - 1] = '\0';
    self.unit = arena_copy(arena, unit + 1, strlen(unit) - 2);
  }
  return self;
}

/* Whether a table has the column. */
static bool is_shown(const Column *self) {
  return self->has_any && !self->is_hidden;
}

static const char *cell_of(sqlite3_stmt *row, int i, Column *column, Arena *arena) {
  const int type = sqlite3_column_type(row, i);
  if (type == SQLITE_NULL) return NULL;
  column->has_any = true;
  if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
    column->is_text = true;
    return results_text(row, i, arena);
  }
  return shown(results_real(row, i), column->unit, arena);
}

static int load_grid(Grid *self, const Subject *of, const char *sql) {
  Arena *arena = of->of->arena;
  CLEANUP_STATEMENT sqlite3_stmt *rows = subject_ask(of, sql);
  if (!rows) return -1;
  self->n_columns = sqlite3_column_count(rows);
  self->columns = ARENA_ARRAY(arena, Column, self->n_columns);
  for (int i = 0; i < self->n_columns; i++) {
    const char *name = sqlite3_column_name(rows, i);
    self->columns[i] = column_of(arena_copy(arena, name, strlen(name)), arena);
  }
  int status;
  while ((status = results_next(&of->of->results, rows, of->of->diag)) > 0) {
    if (self->n_rows == ROWS_MOST) {
      self->n_more++;
      continue;
    }
    self->n_rows++;
    ARENA_RESERVE(arena, self->cells, self->capacity, self->n_cells + (size_t)self->n_columns);
    for (int i = 0; i < self->n_columns; i++)
      self->cells[self->n_cells++] = cell_of(rows, i, &self->columns[i], arena);
  }
  return status;
}

static void put_rows(const Grid *self, Page *page, size_t from, size_t to, const char *caption) {
  PageColumn *columns = ARENA_ARRAY(page->arena, PageColumn, self->n_columns);
  int n = 0;
  for (int i = 0; i < self->n_columns; i++)
    if (is_shown(&self->columns[i]))
      columns[n++] =
          (PageColumn){.head = self->columns[i].head, .is_text = self->columns[i].is_text};
  page_table(page, columns, n, caption);
  for (size_t r = from; r < to; r++) {
    const char **cells = self->cells + r * (size_t)self->n_columns, *class = NULL;
    for (int i = 0; i < self->n_columns; i++)
      if (self->columns[i].is_class) class = cells[i];
    page_row(page, class);
    for (int i = 0; i < self->n_columns; i++)
      if (is_shown(&self->columns[i]))
        page_cell(page, self->columns[i].is_text, "%s", cells[i] ? cells[i] : "-");
    page_row_end(page);
  }
  page_table_end(page);
}

int put_query(const Subject *self, const char *sql, const char *caption, size_t open) {
  Page *page = &self->of->page;
  Grid grid = {0};
  if (load_grid(&grid, self, sql)) return -1;
  if (grid.n_rows == 0) return 0;
  const size_t first = grid.n_rows < open ? grid.n_rows : open;
  if (first > 0) put_rows(&grid, page, 0, first, caption);
  if (first == grid.n_rows) return 0;
  if (first > 0)
    page_details(page, "%zu more", grid.n_rows - first);
  else
    page_details(page, "%s (%zu)", caption, grid.n_rows);
  put_rows(&grid, page, first, grid.n_rows, NULL);
  if (grid.n_more > 0)
    page_element(page, "p", "soft", "%zu rows are not shown; tandem query has them.", grid.n_more);
  page_details_end(page);
  return 0;
}
