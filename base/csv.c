/* See csv.h. */
#include "base/csv.h"
#include "base/text.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { SHOWN_MAX = 60 }; // of a column in a message

void csv_open_text(Csv *self, const char *name, const char *text, size_t length, Arena *arena) {
  *self = (Csv){.n_columns = 0};
  line_reader_open_text(&self->lines, name, text, length, arena);
}

int csv_open(Csv *self, const char *path, Arena *arena, Diag *diag) {
  *self = (Csv){.n_columns = 0};
  return line_reader_load(&self->lines, path, arena, diag);
}

/* ---- Lines and places ---- */

/* Lines that are held cannot fail. */
static bool next_line(Csv *self) {
  return line_reader_next(&self->lines, &self->line, NULL) > 0;
}

bool csv_comment(Csv *self, Field *ret_comment) {
  const Csv before = *self;
  if (next_line(self) && self->line.text[0] == '#') {
    *ret_comment = field_trim((Field){self->line.text + 1, self->line.length - 1});
    return true;
  }
  *self = before;
  return false;
}

/* Fills `fields` with the newest line's; false if there are not as many. */
static bool split_line(Csv *self) {
  return line_split(&self->line, self->fields, self->n_fields) == self->n_fields;
}

static int find_column(const Csv *self, const char *name) {
  for (int i = 0; i < self->n_columns; i++)
    if (strcmp(self->columns[i].name, name) == 0) return i;
  return -1;
}

bool csv_has(const Csv *self, const char *column) {
  const int i = find_column(self, column);
  return i >= 0 && self->position[i] >= 0;
}

Place csv_place(const Csv *self, const char *column) {
  Field cell = {NULL, 0};
  if (column && csv_has(self, column))
    cell = self->fields[self->position[find_column(self, column)]];
  return line_place(&self->line, cell);
}

int csv_error(const Csv *self, const char *column, const char *expected, Diag *diag) {
  assert(csv_has(self, column));
  return field_error(&self->line, self->fields[self->position[find_column(self, column)]], column,
                     expected, diag);
}

/* ---- The header ---- */

/* Where a column stands in the header, −1 with `*error` set when it is missing or there twice. */
static int place_column(const Csv *self, const CsvColumn *column, int *error, Diag *diag) {
  int found = -1;
  for (int i = 0; i < self->n_fields; i++) {
    if (!field_is(self->fields[i], column->name)) continue;
    if (found >= 0)
      *error = diag_error(diag, line_place(&self->line, self->fields[i]), "duplicate column '%s'",
                          column->name);
    found = i;
  }
  if (found < 0 && !column->may_miss)
    *error =
        diag_error(diag, line_place(&self->line, (Field){0}), "missing column '%s'", column->name);
  return found;
}

static int check_unknown(const Csv *self, Diag *diag) {
  int error = 0;
  const char **names = ARENA_ARRAY(self->lines.arena, const char *, self->n_columns + 1);
  for (int i = 0; i < self->n_columns; i++)
    names[i] = self->columns[i].name;
  for (int i = 0; i < self->n_fields; i++) {
    Field field = self->fields[i];
    const char *text = arena_copy(self->lines.arena, field.text, (size_t)field.length);
    if (find_column(self, text) >= 0) continue;
    error =
        diag_error(diag, line_place(&self->line, field), "unknown column '%.*s'", SHOWN_MAX, text);
    diag_hint_near(diag, text, names);
  }
  return error;
}

int csv_header(Csv *self, const CsvColumn *columns, bool exact, Diag *diag) {
  Field comment;
  while (csv_comment(self, &comment))
    continue;
  if (!next_line(self))
    return diag_error(diag, place_of_file(self->lines.path), "the file has no header row");
  self->columns = columns;
  while (columns[self->n_columns].name)
    self->n_columns++;
  self->n_fields = line_split(&self->line, NULL, 0);
  self->fields = ARENA_ARRAY(self->lines.arena, Field, self->n_fields);
  self->position = ARENA_ARRAY(self->lines.arena, int, self->n_columns);
  split_line(self);
  int error = 0;
  for (int i = 0; i < self->n_columns; i++)
    self->position[i] = place_column(self, &columns[i], &error, diag);
  if (exact && check_unknown(self, diag)) error = -1;
  return error;
}

/* ---- Rows ---- */

bool csv_drop_torn(Csv *self) {
  const char *begin = self->lines.buffer + self->lines.begin;
  const char *end = self->lines.buffer + self->lines.end, *start = end;
  while (start > begin && start[-1] != '\n')
    start--;
  const Line last = {.text = start, .length = (int)(end - start)};
  if (field_trim((Field){start, last.length}).length == 0 ||
      line_split(&last, NULL, 0) >= self->n_fields)
    return false;
  self->lines.end -= (size_t)last.length;
  return true;
}

static bool in_range(CsvRange range, double value) {
  return range == CSV_ANY || value > 0 || (range == CSV_NOT_NEGATIVE && value == 0);
}

static int bind_number(const Csv *self, const CsvColumn *column, Field cell, void *field,
                       Diag *diag) {
  static const char *const expected[2][3] = {
      {"a number", "a number, 0 or more", "a number above 0"},
      {"a whole number", "a whole number, 0 or more", "a whole number above 0"}};
  bool whole = column->type == CSV_INT;
  double value = whole ? 0 : NAN;
  bool is_empty = cell.length == 0 && column->may_be_empty;
  if (!is_empty && (!field_real(cell, &value) || !in_range(column->range, value) ||
                    (whole && (value != floor(value) || fabs(value) > (double)(INT64_C(1) << 53)))))
    return field_error(&self->line, cell, column->name, expected[whole][column->range], diag);
  if (whole)
    *(int64_t *)field = (int64_t)value;
  else
    *(double *)field = value;
  return 0;
}

/* Whether a spreadsheet would run the text; apostrophes before such a text are part of the mark. */
static bool is_formula(const char *text, int length) {
  int marks = 0;
  while (marks < length && text[marks] == '\'')
    marks++;
  if (marks == length || !text[marks] || !strchr("=+-@\t\r", text[marks])) return false;
  const bool percent = text[length - 1] == '%';
  double number = 0;
  return marks > 0 || !field_real((Field){text, length - percent}, &number);
}

static int bind_text(const Csv *self, const CsvColumn *column, Field cell, const char **field,
                     Diag *diag) {
  const bool marked = cell.length > 1 && *cell.text == '\'' && is_formula(cell.text, cell.length);
  if (*field && field_is((Field){cell.text + marked, cell.length - marked}, *field)) return 0;
  const char *text =
      arena_copy(self->lines.arena, cell.text + marked, (size_t)(cell.length - marked));
  const bool empty = cell.length == 0 && !column->may_be_empty;
  if (empty || strchr(text, '"') || (int)strlen(text) < cell.length - marked ||
      !text_is_plain(text))
    return field_error(&self->line, cell, column->name,
                       "text in UTF-8 without quotes and control characters", diag);
  *field = text;
  return 0;
}

int csv_next(Csv *self, void *target, Diag *diag) {
  if (!next_line(self)) return 0;
  if (!split_line(self))
    return diag_error(diag, line_place(&self->line, (Field){0}),
                      "expected %d fields as in the header, found %d", self->n_fields,
                      line_split(&self->line, NULL, 0));
  int status = 1;
  for (int i = 0; i < self->n_columns; i++) {
    const CsvColumn *column = &self->columns[i];
    void *field = (char *)target + column->offset;
    bool is_there = self->position[i] >= 0;
    if (!is_there && self->filled) continue;
    Field cell = is_there ? self->fields[self->position[i]] : (Field){self->line.text, 0};
    CsvColumn relaxed = *column;
    relaxed.may_be_empty |= !is_there;
    int failed = column->type == CSV_TEXT ? bind_text(self, &relaxed, cell, field, diag)
                                          : bind_number(self, &relaxed, cell, field, diag);
    if (failed) status = -1;
  }
  self->filled = true;
  return status;
}

/* ---- Writing ---- */

void csv_put_text(const char *text, FILE *out) {
  const char *quote = strpbrk(text, ",\"\r\n") ? "\"" : "";
  fputs(quote, out);
  if (is_formula(text, (int)strlen(text))) putc('\'', out);
  for (size_t run = 0; *text; text += run) {
    run = strcspn(text, "\"\n\t");
    text_put(out, text, run, '?');
    if (!text[run]) break;
    if (text[run] == '"') putc('"', out);
    putc(text[run++], out);
  }
  fputs(quote, out);
}
