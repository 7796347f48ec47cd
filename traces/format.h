/* What a trace format is: one const table in one file, and one line in traces/formats.def.
 *
 * A format knows how a file of its kind begins and how one line of it becomes a row. Reading lines,
 * order of time and the shift to 0 are the same for all and live in traces/trace_file.c. */
#ifndef TRACES_FORMAT_H
#define TRACES_FORMAT_H
#include "traces/fields.h"
#include <stdbool.h>

/* A point in time of the file's own clock. Seconds and the rest are apart because picoseconds since
 * 1970 do not fit in a Tick. */
typedef struct TraceTime {
  int64_t seconds;
  Tick fraction; // 0 … TICKS_PER_SECOND - 1
} TraceTime;

typedef struct RawRow {
  TraceTime time;
  Field time_field; // where the time stands in the line
  int32_t prompt_tokens, output_tokens;
} RawRow;

enum { TRACE_COLUMNS_MAX = 16 };

typedef struct TraceColumn {
  int at; // from 0
  const char *name;
} TraceColumn;

typedef struct TraceFormat {
  const char *name;
  const char *help;
  bool is_wall_clock; // the first row's time becomes 0; otherwise times are kept
  // comma-separated: the first line, letter for letter, and which of its columns matter
  const char *header;
  TraceColumn time, prompt, output;
  int n_columns;
  bool (*read_time)(Field field, TraceTime *ret_time);
  const char *time_is; // "'timestamp' must be …"
  // anything else: whether the first line is of this format, and 0, or −1 with entries
  bool (*accepts)(const Line *first);
  int (*parse)(const Line *line, RawRow *ret_row, Diag *diag);
} TraceFormat;

/* A line as a row. 0, or −1 with entries. */
int format_parse(const TraceFormat *self, const Line *line, RawRow *ret_row, Diag *diag);
/* The i-th format of the list, NULL past its end. */
const TraceFormat *format_at(int i);
/* The format a file with this first line has, or NULL. */
const TraceFormat *format_of_line(const Line *first);
/* "auto", then the names in order, NULL-terminated: index i + 1 is format_at(i). */
extern const char *const format_choices[];
#endif
