/* Where the rows of one file have what, and how its times are written: a format, or columns that
 * the user named, as the file's first line has them. */
#ifndef TRACES_LAYOUT_H
#define TRACES_LAYOUT_H
#include "traces/format.h"

/* What the user says about a file. Zeroes: all is found out. */
typedef struct TraceReading {
  const TraceFormat *format;         // NULL: by the first line
  const char *columns[TRACE_FIELDS]; // names, or numbers from 1; NULL: as the format has it
  TraceClock clock;
  bool untimed; // nobody asks when rows arrive: times are not read, and need not be there
  bool sort;    // the file is held, and its rows are put in order of time
} TraceReading;

typedef struct TraceLayout {
  const TraceFormat *format;
  bool is_json;
  const char *names[TRACE_FIELDS]; // columns or keys as messages call them; NULL: none
  TraceClock clock;                // CLOCK_AUTO until the first row is read
  // of a table
  char separator;
  bool has_header;
  int n_columns;
  int at[TRACE_FIELDS]; // columns from 0; −1: none
  bool by_number[TRACE_FIELDS];
} TraceLayout;

/* Finds out from the first line, or says what is wrong; what it keeps is in `arena`. */
int layout_init(TraceLayout *self, const TraceReading *reading, const Line *first, Arena *arena,
                Diag *diag);
/* A file has no arrivals, as far as is known: what to do. */
void layout_hint_arrivals(Diag *diag);
/* A line as a row; `ret_row->segments` is empty. 1, 0 when the row is to be left out, or −1 with
 * entries. */
int layout_parse(TraceLayout *self, const Line *line, RawRow *ret_row, Diag *diag);
/* Of a time: by the format, or as the first one looks. 0, or −1 with an entry. */
int layout_time(TraceLayout *self, const Line *line, Field field, RawRow *ret_row, Diag *diag);
/* A count of tokens: 1; 0 when it is empty or 0 and such rows are left out; −1 with an entry. */
int layout_tokens(const TraceLayout *self, const Line *line, Field field, TraceField which,
                  int32_t *ret_tokens, Diag *diag);
/* What its client allows at most, and its images, where they are given; behind prompt and output.
 * `fields`: [TRACE_FIELDS]. 0, or -1 with an entry. */
int layout_rest(const TraceLayout *self, const Line *line, const Field *fields, RawRow *ret_row,
                Diag *diag);
/* The tokens of a row are the first ones of its session. */
void layout_session(Field session, RawRow *ret_row);
#endif
