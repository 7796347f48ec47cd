/* What a trace format is: one const table in one file, and one line in traces/formats.def.
 *
 * A format knows how a file of its kind begins and where a row has what: columns between commas, or
 * keys of a JSON object on a line of its own. A format whose lines hold many rows, in any order of
 * time, indexes them; its files are held. Reading lines, order of time and the shift to 0 are the
 * same for all and live in traces/trace_file.c. */
#ifndef TRACES_FORMAT_H
#define TRACES_FORMAT_H
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

typedef struct RawRow {
  TraceTime time;
  Field text;       // its part of the line; NULL: the whole
  Field time_field; // where the time stands in the line
  int32_t prompt_tokens, output_tokens;
  SegmentList *segments; // to be filled; empty: the row names none
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
    Tick at;
    Field text;
    int32_t line; // of `lines`
  } * rows;
  size_t n_rows, rows_capacity;
} TraceIndex;

/* Adds a line, and rows of the newest one. */
void trace_index_add_line(TraceIndex *self, const Line *line, int32_t block_tokens);
void trace_index_add(TraceIndex *self, Tick at, Field text);
/* Puts the rows in order of time; of one time, in that of the file. */
void trace_index_sort(TraceIndex *self);

enum { TRACE_COLUMNS_MAX = 16 };

typedef struct TraceColumn {
  int at;           // from 0; of JSON not used
  const char *name; // column or key
} TraceColumn;

typedef struct TraceFormat {
  const char *name;
  const char *help;
  bool is_wall_clock; // the first row's time becomes 0; otherwise times are kept
  TraceColumn time, prompt, output;
  bool (*read_time)(Field field, TraceTime *ret_time);
  const char *time_is; // "'timestamp' must be …"
  // comma-separated: the first line, letter for letter
  const char *header;
  int n_columns;
  // JSON, where there is no header
  const char *mark;         // a key that the first line has, by which the format is known
  int32_t block_tokens;     // of `hash_ids`, unless the index says
  bool last_may_be_unnamed; // `hash_ids` may end before a last block that is not full
  bool output_may_be_0;     // and is 1 then
  // Adds the rows of a line to the index: 0, or −1 with entries. NULL: a line is a row
  int (*index)(const Line *line, TraceIndex *index, Diag *diag);
} TraceFormat;

/* A line as a row; `ret_row->segments` is empty. 0, or −1 with entries. */
int format_parse(const TraceFormat *self, const Line *line, RawRow *ret_row, Diag *diag);
/* The i-th format of the list, NULL past its end. */
const TraceFormat *format_at(int i);
/* The format a file with this first line has, or NULL. */
const TraceFormat *format_of_line(const Line *first);
/* "auto", then the names in order, NULL-terminated: index i + 1 is format_at(i). */
extern const char *const format_choices[];
#endif
