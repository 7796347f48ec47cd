/* Rows of values under their names, written from one list of cells as a table for people, as CSV
 * or as JSON.
 *
 * A list of cells ends with one of kind CELL_END (`{0}`), and all rows of one table have the same
 * columns. */
#ifndef EXPERIMENTS_BASE_CELLS_H
#define EXPERIMENTS_BASE_CELLS_H
#include "experiments/base/writer.h"

typedef enum CellKind {
  CELL_END,
  CELL_TEXT,   // NULL is null in JSON, nothing in CSV, "-" in tables
  CELL_NUMBER, // NAN likewise
  CELL_WHOLE,
  CELL_FLAG, // true or false, in CSV 1 or 0
  CELL_JSON, // in JSON what `write` writes; elsewhere a text
} CellKind;

/* Formats that a cell is in. */
enum {
  CELL_IN_TABLE = 1 << OUTPUT_TABLE,
  CELL_IN_CSV = 1 << OUTPUT_CSV,
  CELL_IN_JSON = 1 << OUTPUT_JSON,
  CELL_NOWHERE = 1 << (OUTPUT_JSON + 1),
};

typedef struct Cell {
  CellKind kind;
  const char *name; // heading in CSV, key in JSON; NULL: in tables alone
  const char *text;
  double value;
  int64_t whole;
  void (*write)(const void *of, FILE *out); // of CELL_JSON
  const void *of;
  int only;         // CELL_IN_…; 0: CSV and JSON where it has a name, tables where it has a head
  const char *unit; // of a number, for lines of figures; NULL: none
  const char *format; // of a number for programs, in place of nine digits
  const char *head;   // of its column in a table
  int width;          // of that column, on the left when negative; 0 as long as it is
  const char *show;   // format of a number in a table, in place of "%.6g",
  double times;       // multiplied by this; 0: as it is
  const char *shown;  // text in a table, in place of the value
} Cell;

/* The value of a cell for designators, and its column in tables. */
#define COLUMN(heading, of_width) .head = heading, .width = of_width
#define COLUMN_PERCENT(heading, of_width, digits)                                                  \
  COLUMN(heading, of_width), .show = digits "%%", .times = 100
#define CELL_OF_TEXT(key, of_text)      .kind = CELL_TEXT, .name = key, .text = of_text
#define CELL_OF_NUMBER(key, of_value)   .kind = CELL_NUMBER, .name = key, .value = of_value
#define CELL_OF_WHOLE(key, of_whole)    .kind = CELL_WHOLE, .name = key, .whole = of_whole
#define CELL_OF_FLAG(key, of_flag)      .kind = CELL_FLAG, .name = key, .whole = of_flag
#define CELL_OF_JSON(key, writes, what) .kind = CELL_JSON, .name = key, .write = writes, .of = what

/* `"name": value` of each cell that JSON has: `first` before the first, `between` before others. */
void cells_json(const Cell *cells, const char *first, const char *between, FILE *out);

/* A line "scope,name,statistic,value,unit" of each number that CSV has; its name is the statistic.
 */
void cells_figures(const Cell *cells, const char *scope, const char *name, FILE *out);

/* A table, as its rows come. */
typedef struct Rows {
  OutputFormat format;
  FILE *out;
  const char *indent;    // before each line for people
  const char *gap, *end; // JSON: before each object, and what ends the list
  bool any;              // whether there was a row
  bool headings_only;    // rows to come are there for their headings alone
} Rows;

/* A row, the headings before the first. */
void rows_put(Rows *self, const Cell *cells);
/* Ends the list of JSON. */
void rows_end(Rows *self);
#endif
