/* Comma-separated tables: comment lines, a header row, rows bound to structs by a table of columns.
 *
 * The whole file is held in memory, so places point into it for as long as the arena lives; see
 * lines.h. Comments are the lines before the header that start with '#'.
 *
 * A cell that a spreadsheet would take for a formula, text that begins with = + - or @ and is no
 * number, is written with an apostrophe before it, which reading takes away again. */
#ifndef BASE_CSV_H
#define BASE_CSV_H
#include "base/lines.h"
#include <stdint.h>

typedef enum CsvType {
  CSV_TEXT, // const char *, NUL-terminated; plain, see text.h
  CSV_INT,  // int64_t; "8.0" is taken for 8
  CSV_REAL, // double
} CsvType;

typedef enum CsvRange { CSV_ANY, CSV_NOT_NEGATIVE, CSV_POSITIVE } CsvRange;

/* A column and the field of a struct that it fills. */
typedef struct CsvColumn {
  const char *name;
  CsvType type;
  size_t offset;
  CsvRange range;    // of a number
  bool may_be_empty; // an empty cell is "", 0 or NAN; otherwise it is an error
  bool may_miss;     // the whole column may be absent; its cells are then empty
} CsvColumn;

/* The column of the name of a field, whose cells may not be empty. */
#define CSV_FIELD(Type, field, kind, limits)                                                       \
  { .name = #field, .type = kind, .offset = offsetof(Type, field), .range = limits }

typedef struct Csv {
  LineReader lines;
  Line line;                // the newest
  const CsvColumn *columns; // what csv_header was given
  int *position;            // of each of them in a row, −1: absent
  int n_columns, n_fields;  // of `columns`; in a row of the file
  Field *fields;            // of the newest row
  bool filled;              // a row was: what absent columns have stays as it is
} Csv;

/* Reads a file; one that cannot be read is DIAG_ENVIRONMENT. `path` must outlive the table. */
int csv_open(Csv *self, const char *path, Arena *arena, Diag *diag);
/* Reads a copy of `text`, which `name` stands for in messages. */
void csv_open_text(Csv *self, const char *name, const char *text, size_t length, Arena *arena);
/* The next comment without its '#' and the spaces around; false when the header comes next. */
bool csv_comment(Csv *self, Field *ret_comment);
/* Reads the header and finds `columns` (ended by a row without name) in it, in any order. Reports
 * all that are missing or there twice, and when `exact` those that are not in the table. */
int csv_header(Csv *self, const CsvColumn *columns, bool exact, Diag *diag);
/* Whether the header had this one of `columns`. */
bool csv_has(const Csv *self, const char *column);
/* Cuts off the file's last line when it has no newline and fewer cells than the header: whatever
 * wrote it was stopped in the middle. Whether it did; csv_header comes before. */
bool csv_drop_torn(Csv *self);
/* Fills `target` from the next row: 1, 0 at the end, or −1 with entries for everything wrong in it,
 * after which the next row can be read. `target` is zeroed before the first row and then handed in
 * as it was left: a text equal to the row before's is the same pointer. */
int csv_next(Csv *self, void *target, Diag *diag);
/* The cell of `column` (by name) in the newest row; the whole line when NULL or absent. */
Place csv_place(const Csv *self, const char *column);
/* "'COLUMN' must be EXPECTED, not 'CELL'" at a cell of the newest row. Returns −1. */
int csv_error(const Csv *self, const char *column, const char *expected, Diag *diag);
/* Writes a cell of text: in quotes when it needs them (RFC 4180), with '?' for control characters
 * that are no white space and for what is not UTF-8. */
void csv_put_text(const char *text, FILE *out);
#endif
