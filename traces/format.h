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

typedef struct TraceFormat {
  const char *name;
  const char *help;
  const char *header; // the first line, letter for letter; NULL: rows start at once, see `accepts`
  bool (*accepts)(const Line *first); // without a header: whether the first line is of this format
  bool is_wall_clock;                 // the first row's time becomes 0; otherwise times are kept
  int (*parse)(const Line *line, RawRow *ret_row, Diag *diag); // 0, or -1 with entries
} TraceFormat;

/* The i-th format of the list, NULL past its end. */
const TraceFormat *format_at(int i);
/* The format a file with this first line has, or NULL. */
const TraceFormat *format_of_line(const Line *first);
/* "auto", then the names in order, NULL-terminated: index i + 1 is format_at(i). */
extern const char *const format_choices[];
#endif
