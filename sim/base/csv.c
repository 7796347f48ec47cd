/* Tables are split in place, line by line; numbers are told from what strtod would also take (NAN,
 * infinity, hexadecimal) by their characters. */
#include "sim/base/csv.h"
#include "sim/base/cleanup.h"
#include "sim/base/text.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
  SHOWN_MAX = 60,  // of a cell in a message
  NUMBER_MAX = 64, // characters of a number
};

/* ---- Opening ---- */

static void begin(Csv *self, const char *path, const char *text, size_t length, Arena *arena) {
  bool mark = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
  *self = (Csv){.path = path, .arena = arena, .next = text + (mark ? 3 : 0), .end = text + length};
}

void csv_open_text(Csv *self, const char *name, const char *text, size_t length, Arena *arena) {
  begin(self, name, arena_copy(arena, text, length), length, arena);
}

int csv_open(Csv *self, const char *path, Arena *arena, Diag *diag) {
  Place at = place_of_file(path);
  CLEANUP_FILE FILE *file = fopen(path, "rb");
  if (!file) return diag_environment(diag, at, "cannot open: %s", strerror(errno));
  struct stat status;
  if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
    return diag_environment(diag, at, "is a directory, not a file");
  char *text = NULL;
  size_t length = 0, capacity = 0, got = 0;
  do {
    ARENA_RESERVE(arena, text, capacity, length + (64 << 10));
    got = fread(text + length, 1, capacity - length, file);
    length += got;
    if (length > CSV_MAX_BYTES)
      return diag_error(diag, at, "the file is larger than %d MiB", CSV_MAX_BYTES >> 20);
  } while (got > 0);
  if (ferror(file)) return diag_environment(diag, at, "cannot read: %s", strerror(errno));
  begin(self, path, text, length, arena);
  return 0;
}

/* ---- Lines ---- */

static CsvField trim(CsvField field) {
  while (field.length > 0 && (*field.text == ' ' || *field.text == '\t')) {
    field.text++;
    field.length--;
  }
  while (field.length > 0 &&
         (field.text[field.length - 1] == ' ' || field.text[field.length - 1] == '\t'))
    field.length--;
  return field;
}

static bool field_is(CsvField field, const char *text) {
  return (size_t)field.length == strlen(text) && memcmp(field.text, text, strlen(text)) == 0;
}

/* Makes the next line that is not blank the newest. */
static bool next_line(Csv *self) {
  while (self->next < self->end) {
    const char *start = self->next;
    const char *newline = memchr(start, '\n', (size_t)(self->end - start));
    const char *stop = newline ? newline : self->end;
    self->next = newline ? newline + 1 : self->end;
    if (stop > start && stop[-1] == '\r') stop--;
    self->line_number++;
    self->line = start;
    self->line_length = (int)(stop - start); // a file is at most CSV_MAX_BYTES long
    if (trim((CsvField){start, self->line_length}).length > 0) return true;
  }
  return false;
}

bool csv_comment(Csv *self, CsvField *ret_comment) {
  Csv before = *self;
  if (next_line(self) && self->line[0] == '#') {
    *ret_comment = trim((CsvField){self->line + 1, self->line_length - 1});
    return true;
  }
  *self = before;
  return false;
}

/* The field at `at`, which moves behind its comma, or to NULL when the line ends. A field that
 * starts with a quote goes on to the one that closes it; the text is what stands between. */
static CsvField take_field(const char **at, const char *end) {
  const char *start = *at, *from = start;
  if (start < end && *start == '"') {
    const char *close = memchr(start + 1, '"', (size_t)(end - start - 1));
    if (close) from = close;
  }
  const char *comma = memchr(from, ',', (size_t)(end - from));
  const char *stop = comma ? comma : end;
  *at = comma ? comma + 1 : NULL;
  if (from > start && stop == from + 1) return (CsvField){start + 1, (int)(from - start - 1)};
  return trim((CsvField){start, (int)(stop - start)});
}

static int count_fields(const char *line, int length) {
  int n = 0;
  for (const char *at = line; at; n++)
    take_field(&at, line + length);
  return n;
}

/* Fills `fields` with the newest line's; false if there are not as many. */
static bool split_line(Csv *self) {
  int n = 0;
  for (const char *at = self->line; at; n++) {
    CsvField field = take_field(&at, self->line + self->line_length);
    if (n < self->n_fields) self->fields[n] = field;
  }
  return n == self->n_fields;
}

/* ---- Places ---- */

static Place field_place(const Csv *self, CsvField field) {
  return (Place){.path = self->path,
                 .line = self->line_number,
                 .column = (int)(field.text - self->line) + 1,
                 .width = field.length > 0 ? field.length : 1,
                 .source = self->line,
                 .source_length = self->line_length};
}

static Place line_place(const Csv *self) {
  return field_place(self, (CsvField){self->line, self->line_length});
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
  if (!column || !csv_has(self, column)) return line_place(self);
  return field_place(self, self->fields[self->position[find_column(self, column)]]);
}

static int cell_error(const Csv *self, CsvField cell, const char *name, const char *expected,
                      Diag *diag) {
  int shown = cell.length < SHOWN_MAX ? cell.length : SHOWN_MAX;
  Place at = field_place(self, cell);
  if (shown == 0) return diag_error(diag, at, "'%s' is empty, it must be %s", name, expected);
  return diag_error(diag, at, "'%s' must be %s, not '%.*s'", name, expected, shown, cell.text);
}

int csv_error(const Csv *self, const char *column, const char *expected, Diag *diag) {
  assert(csv_has(self, column));
  return cell_error(self, self->fields[self->position[find_column(self, column)]], column, expected,
                    diag);
}

/* ---- The header ---- */

/* Where a column stands in the header, −1 with `*error` set when it is missing or there twice. */
static int place_column(const Csv *self, const CsvColumn *column, int *error, Diag *diag) {
  int found = -1;
  for (int i = 0; i < self->n_fields; i++) {
    if (!field_is(self->fields[i], column->name)) continue;
    if (found >= 0)
      *error = diag_error(diag, field_place(self, self->fields[i]), "column '%s' is there twice",
                          column->name);
    found = i;
  }
  if (found < 0 && !column->may_miss)
    *error = diag_error(diag, line_place(self), "column '%s' is missing", column->name);
  return found;
}

static int check_unknown(const Csv *self, Diag *diag) {
  int error = 0;
  const char **names = ARENA_ARRAY(self->arena, const char *, self->n_columns + 1);
  for (int i = 0; i < self->n_columns; i++)
    names[i] = self->columns[i].name;
  for (int i = 0; i < self->n_fields; i++) {
    CsvField field = self->fields[i];
    const char *text = arena_copy(self->arena, field.text, (size_t)field.length);
    if (find_column(self, text) >= 0) continue;
    error = diag_error(diag, field_place(self, field), "unknown column '%.*s'", SHOWN_MAX, text);
    diag_hint_near(diag, text, names);
  }
  return error;
}

int csv_header(Csv *self, const CsvColumn *columns, bool exact, Diag *diag) {
  CsvField comment;
  while (csv_comment(self, &comment))
    continue;
  if (!next_line(self))
    return diag_error(diag, place_of_file(self->path), "the file has no header row");
  self->columns = columns;
  while (columns[self->n_columns].name)
    self->n_columns++;
  self->n_fields = count_fields(self->line, self->line_length);
  self->fields = ARENA_ARRAY(self->arena, CsvField, self->n_fields);
  self->position = ARENA_ARRAY(self->arena, int, self->n_columns);
  split_line(self);
  int error = 0;
  for (int i = 0; i < self->n_columns; i++)
    self->position[i] = place_column(self, &columns[i], &error, diag);
  if (exact && check_unknown(self, diag)) error = -1;
  return error;
}

/* ---- Rows ---- */

bool csv_drop_torn(Csv *self) {
  const char *line = self->end;
  while (line > self->next && line[-1] != '\n')
    line--;
  const int length = (int)(self->end - line);
  if (trim((CsvField){line, length}).length == 0 || count_fields(line, length) >= self->n_fields)
    return false;
  self->end = line;
  return true;
}

/* A finite decimal number, the same in every locale. */
static bool read_number(CsvField cell, double *ret_value) {
  char text[NUMBER_MAX + 1];
  if (cell.length < 1 || cell.length > NUMBER_MAX) return false;
  for (int i = 0; i < cell.length; i++) {
    if (!strchr("0123456789+-.eE", cell.text[i]) || cell.text[i] == '\0') return false;
    text[i] = cell.text[i];
  }
  text[cell.length] = '\0';
  char *stop = NULL;
  *ret_value = strtod(text, &stop);
  return *stop == '\0' && stop != text && isfinite(*ret_value);
}

static bool in_range(CsvRange range, double value) {
  return range == CSV_ANY || value > 0 || (range == CSV_NOT_NEGATIVE && value == 0);
}

static int bind_number(const Csv *self, const CsvColumn *column, CsvField cell, void *field,
                       Diag *diag) {
  static const char *const expected[2][3] = {
      {"a number", "a number, 0 or more", "a number above 0"},
      {"a whole number", "a whole number, 0 or more", "a whole number above 0"}};
  bool whole = column->type == CSV_INT;
  double value = whole ? 0 : NAN;
  bool is_empty = cell.length == 0 && column->may_be_empty;
  if (!is_empty && (!read_number(cell, &value) || !in_range(column->range, value) ||
                    (whole && (value != floor(value) || fabs(value) > (double)(INT64_C(1) << 53)))))
    return cell_error(self, cell, column->name, expected[whole][column->range], diag);
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
  return marks > 0 || !read_number((CsvField){text, length - percent}, &number);
}

static int bind_text(const Csv *self, const CsvColumn *column, CsvField cell, const char **field,
                     Diag *diag) {
  const bool marked = cell.length > 1 && *cell.text == '\'' && is_formula(cell.text, cell.length);
  if (*field && field_is((CsvField){cell.text + marked, cell.length - marked}, *field)) return 0;
  const char *text = arena_copy(self->arena, cell.text + marked, (size_t)(cell.length - marked));
  const bool empty = cell.length == 0 && !column->may_be_empty;
  if (empty || strchr(text, '"') || (int)strlen(text) < cell.length - marked ||
      !text_is_plain(text))
    return cell_error(self, cell, column->name,
                      "a text in UTF-8 without quotes and control characters", diag);
  *field = text;
  return 0;
}

int csv_next(Csv *self, void *target, Diag *diag) {
  if (!next_line(self)) return 0;
  if (!split_line(self))
    return diag_error(diag, line_place(self), "expected %d fields as in the header, found %d",
                      self->n_fields, count_fields(self->line, self->line_length));
  int status = 1;
  for (int i = 0; i < self->n_columns; i++) {
    const CsvColumn *column = &self->columns[i];
    void *field = (char *)target + column->offset;
    bool is_there = self->position[i] >= 0;
    CsvField cell = is_there ? self->fields[self->position[i]] : (CsvField){self->line, 0};
    CsvColumn relaxed = *column;
    relaxed.may_be_empty |= !is_there;
    int failed = column->type == CSV_TEXT ? bind_text(self, &relaxed, cell, field, diag)
                                          : bind_number(self, &relaxed, cell, field, diag);
    if (failed) status = -1;
  }
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
