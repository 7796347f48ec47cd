/* The rows of one trace file, as they stand in it, or in order of time: no crop, no scaling.
 *
 * Time is checked to go forward and is given as ticks: since the first row for wall-clock times,
 * since the file's own zero for others. */
#ifndef TRACES_TRACE_FILE_H
#define TRACES_TRACE_FILE_H
#include "traces/layout.h"
#include "traces/trace.h"

typedef struct TraceFile {
  LineReader reader;
  TraceReading reading;
  TraceLayout layout;
  bool held;          // all rows are in the index
  int64_t n_rows;     // handed out since the start of the file
  int64_t n_left_out; // since then: requests that failed
  TraceTime origin;   // what counts as 0
  Tick previous;      // time of the newest row, and its text
  char previous_text[48];
  SegmentList segments; // of the newest row
  InputList inputs;     // the same
  TraceIndex index;     // of a file that is held; row n_indexed is the next
  size_t n_indexed;
} TraceFile;

/* Opens a file and checks its header. `reading` NULL: all is found out. */
int trace_file_open(TraceFile *self, const char *path, const TraceReading *reading, Arena *arena,
                    Diag *diag);
/* The same for a copy of `text`, which `name` stands for in messages. */
int trace_file_open_text(TraceFile *self, const char *name, const char *text, size_t length,
                         const TraceReading *reading, Arena *arena, Diag *diag);
/* 1 and the next row, 0 at the end, -1 with entries; a file without a row is an error. */
int trace_file_next(TraceFile *self, TraceRow *ret_row, Diag *diag);
/* Back to the first row. */
int trace_file_rewind(TraceFile *self, Diag *diag);
void trace_file_close(TraceFile *self);
#endif
