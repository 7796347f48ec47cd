/* What a trace format is: one const table in one file, and one line in traces/formats.def.
 *
 * A format knows where a row has what: columns of a table with a header, found by their names, or
 * keys of a JSON object on a line of its own. A format whose lines hold many rows, in any order of
 * time, indexes them; its files are held. Reading lines, separators, order of time and the shift to
 * 0 are the same for all and live in traces/layout.c and traces/trace_file.c. */
#ifndef TRACES_FORMAT_H
#define TRACES_FORMAT_H
#include "traces/clock.h"
#include "traces/fields.h"
#include "traces/trace.h"
#include <stdbool.h>

/* The segments of a row, in memory that the next row reuses. */
typedef struct SegmentList {
  Arena *arena;
  TraceSegment *items;
  size_t capacity;
  int32_t n;
} SegmentList;

/* Its images likewise. One without a name has id 0. */
typedef struct InputList {
  Arena *arena;
  TraceInput *items;
  size_t capacity;
  int32_t n;
} InputList;

typedef struct RawRow {
  TraceTime time;
  Field text;       // its part of the line; NULL: the whole
  Field time_field; // where the time stands in the line
  int32_t prompt_tokens, output_tokens, max_tokens;
  SegmentList *segments; // to be filled; empty: the row names none
  InputList *inputs;     // the same
} RawRow;

/* Where rows stand in lines that hold many. */
typedef struct TraceIndex {
  Arena *arena;
  struct TraceIndexLine {
    Line line;
    int32_t block_tokens; // of `hash_ids`
  } * lines;
  size_t n_lines, lines_capacity;
  struct TraceIndexRow {
    TraceTime time;
    Field text;
    int32_t line; // of `lines`
  } * rows;
  size_t n_rows, rows_capacity;
  bool untimed; // nobody asks when
} TraceIndex;

/* Adds a line, and rows of the newest one. */
void trace_index_add_line(TraceIndex *self, const Line *line, int32_t block_tokens);
void trace_index_add(TraceIndex *self, TraceTime time, Field text);
/* Puts the rows in order of time; of one time, in that of the file. */
void trace_index_sort(TraceIndex *self);

typedef enum TraceField {
  TRACE_ARRIVAL,
  TRACE_PROMPT,
  TRACE_OUTPUT,
  TRACE_SESSION,
  TRACE_MAX_TOKENS,
  TRACE_IMAGES,
} TraceField;
enum { TRACE_NEEDED = TRACE_SESSION, TRACE_FIELDS = TRACE_IMAGES + 1, TRACE_MARKS = 2 };
extern const char *const trace_field_names[TRACE_FIELDS + 1]; // "arrival", …, NULL

typedef enum TraceForms {
  TRACE_TABLE = 1, // a header, then fields between commas, tabs or semicolons
  TRACE_JSON = 2,  // an object on each line
} TraceForms;

struct JsonRow;

typedef struct TraceFormat {
  const char *name;
  const char *help;
  int forms;                         // TraceForms
  const char *columns[TRACE_FIELDS]; // names of columns or keys; NULL: it has none
  TraceClock clock;
  bool (*read_time)(Field field, TraceTime *ret_time); // NULL: by `clock`
  const char *time_is;                                 // "'timestamp' must be …", with that
  // further columns, or keys of the first line, by one of which the format is known; NULL: none
  const char *marks[TRACE_MARKS];
  bool (*is_usual)(TraceField which, Field name); // NULL: names are those of `columns`
  bool leaves_out_empty; // rows without a prompt or an output are left out, and counted
  // JSON
  int32_t block_tokens;     // of `hash_ids`, unless the index says
  bool last_may_be_unnamed; // `hash_ids` may end before a last block that is not full
  bool output_may_be_0;     // and is 1 then
  // Adds the rows of a line to the index: 0, or −1 with entries. NULL: a line is a row
  int (*index)(const Line *line, TraceIndex *index, Diag *diag);
  // A row of the index, as layout_parse gives rows; NULL: the keys of an object
  int (*parse)(const struct JsonRow *row, RawRow *ret_row, Diag *diag);
} TraceFormat;

/* The i-th format of the list, NULL past its end. */
const TraceFormat *format_at(int i);
/* The format a file with this first line has, or NULL. `needed`: [TRACE_NEEDED], what a table's
 * header must have. */
const TraceFormat *format_of_line(const Line *first, const bool *needed);
/* The one name there that a format with `is_usual` takes for this; its text is NULL when there is
 * none, or several. */
Field format_name(const TraceFormat *format, const Line *first, TraceField which);
/* The names of a header or the keys of an object, in quotes: the first eight, and how many more. */
const char *format_shown_names(const Line *first, Arena *arena);
/* What a column or key is called where a row is of many requests, as in bills. */
bool format_counts_requests(Field name);
/* The first such name of a header or object; its text is NULL when there is none. */
Field format_count_of_requests(const Line *first);
/* Whether the line is one of JSON, as far as it begins. */
bool format_line_is_json(const Line *first);
/* "auto", then the names in order, NULL-terminated: index i + 1 is format_at(i). */
extern const char *const format_choices[];
#endif
