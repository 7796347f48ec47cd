/* See cells.h. */
#include "experiments/base/cells.h"
#include "base/csv.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool is_in(const Cell *cell, OutputFormat format) {
  if (cell->only) return cell->only >> format & 1;
  return format == OUTPUT_TABLE ? cell->head != NULL : cell->name != NULL;
}

/* ---- One value ---- */

static void put_number(const Cell *cell, const char *missing, FILE *out) {
  if (cell->format && isfinite(cell->value))
    fprintf(out, cell->format, cell->value);
  else
    write_number(cell->value, missing, out);
}

static void put_json(const Cell *cell, FILE *out) {
  if (cell->kind == CELL_JSON)
    cell->write(cell->of, out);
  else if (cell->kind == CELL_NUMBER)
    put_number(cell, "null", out);
  else if (cell->kind == CELL_WHOLE)
    fprintf(out, "%" PRId64, cell->whole);
  else if (cell->kind == CELL_FLAG)
    fputs(cell->whole ? "true" : "false", out);
  else if (cell->text)
    write_json_string(cell->text, out);
  else
    fputs("null", out);
}

static void put_csv(const Cell *cell, FILE *out) {
  if (cell->kind == CELL_NUMBER)
    put_number(cell, "", out);
  else if (cell->kind == CELL_WHOLE || cell->kind == CELL_FLAG)
    fprintf(out, "%" PRId64, cell->whole);
  else if (cell->text)
    csv_put_text(cell->text, out);
}

/* As people read it. */
static const char *shown_text(const Cell *cell, char text[32]) {
  if (cell->shown) return cell->shown;
  if (cell->kind == CELL_WHOLE)
    snprintf(text, 32, "%" PRId64, cell->whole);
  else if (cell->kind == CELL_NUMBER && !isnan(cell->value))
    snprintf(text, 32, cell->show ? cell->show : "%.6g",
             cell->value * (cell->times != 0 ? cell->times : 1));
  else
    return cell->kind == CELL_TEXT && cell->text ? cell->text : "-";
  return text;
}

/* ---- Rows ---- */

void cells_json(const Cell *cells, const char *first, const char *between, FILE *out) {
  for (const Cell *cell = cells; cell->kind; cell++) {
    if (!is_in(cell, OUTPUT_JSON)) continue;
    fputs(first, out);
    write_json_string(cell->name, out);
    fputs(": ", out);
    put_json(cell, out);
    first = between;
  }
}

void cells_figures(const Cell *cells, const char *scope, const char *name, FILE *out) {
  for (const Cell *cell = cells; cell->kind; cell++)
    if (is_in(cell, OUTPUT_CSV) && cell->kind == CELL_NUMBER)
      write_csv_figure(scope, name, cell->name, cell->value, cell->unit ? cell->unit : "", out);
}

static void put_csv_line(const Cell *cells, bool headings, FILE *out) {
  const char *before = "";
  for (const Cell *cell = cells; cell->kind; cell++) {
    if (!is_in(cell, OUTPUT_CSV)) continue;
    fputs(before, out);
    if (headings)
      csv_put_text(cell->name, out);
    else
      put_csv(cell, out);
    before = ",";
  }
  putc('\n', out);
}

/* A space between columns, two before those on the left. */
static void put_table_line(const Rows *self, const Cell *cells, bool headings) {
  const char *before = self->indent;
  char text[32];
  for (const Cell *cell = cells; cell->kind; cell++) {
    if (!is_in(cell, OUTPUT_TABLE)) continue;
    fputs(before ? before : cell->width > 0 ? " " : "  ", self->out);
    write_cell(headings ? cell->head : shown_text(cell, text), cell->width, self->out);
    before = NULL;
  }
  putc('\n', self->out);
}

void rows_put(Rows *self, const Cell *cells) {
  const bool first = !self->any;
  self->any = true;
  if (self->format == OUTPUT_JSON) {
    fprintf(self->out, "%s%s{", first ? "[" : *self->gap ? "," : ", ", self->gap);
    cells_json(cells, "", ", ", self->out);
    putc('}', self->out);
  } else if (self->format == OUTPUT_CSV) {
    if (first) put_csv_line(cells, true, self->out);
    if (!self->headings_only) put_csv_line(cells, false, self->out);
  } else {
    if (first) put_table_line(self, cells, true);
    if (!self->headings_only) put_table_line(self, cells, false);
  }
}

void rows_end(Rows *self) {
  if (self->format != OUTPUT_JSON) return;
  if (!self->any) putc('[', self->out);
  fputs(self->end + (self->any ? 0 : strspn(self->end, "\n ")), self->out);
}
