/* Tables with any separator, and what is common to them and to JSON. Fields are as RFC 4180 has
 * them, but within one line: in quotes, they may hold the separator, and quotes twice. */
#include "traces/layout.h"
#include "sim/base/file_kind.h"
#include "sim/base/hash.h"
#include "traces/json_rows.h"
#include <stdlib.h>
#include <string.h>

/* ---- Fields of a line ---- */

/* The quote that closes the one at `start`; NULL when none does. */
static const char *closing_quote(const char *start, const char *end) {
  for (const char *at = start + 1; at < end; at++) {
    at = memchr(at, '"', (size_t)(end - at));
    if (!at) return NULL;
    if (at + 1 == end || at[1] != '"') return at;
    at++;
  }
  return NULL;
}

/* The field at `*at`, without quotes and spaces around it; `*at` moves behind its separator, or to
 * NULL when the line ends. A quote that nothing closes is text. */
static Field take_field(const Line *line, const char **at, char separator) {
  const char *end = line->text + line->length, *start = *at;
  while (start < end && *start == ' ')
    start++;
  const char *close = start < end && *start == '"' ? closing_quote(start, end) : NULL;
  const char *from = close ? close + 1 : start;
  const char *stop = memchr(from, separator, (size_t)(end - from));
  if (!stop) stop = end;
  *at = stop < end ? stop + 1 : NULL;
  const Field rest = field_trim((Field){from, (int)(stop - from)});
  if (close && rest.length == 0) return (Field){start + 1, (int)(close - start - 1)};
  return field_trim((Field){start, (int)(stop - start)});
}

static int count_fields(const Line *line, char separator) {
  int n = 0;
  for (const char *at = line->text; at; n++)
    take_field(line, &at, separator);
  return n;
}

char table_separator(const Line *header) {
  static const char separators[] = "\t;,";
  char best = ',';
  int most = 1;
  for (int i = 0; separators[i]; i++) {
    const int n = count_fields(header, separators[i]);
    if (n <= most) continue;
    most = n;
    best = separators[i];
  }
  return best;
}

int table_column(const Line *header, char separator, const char *name) {
  int i = 0;
  for (const char *at = header->text; at; i++)
    if (field_is(take_field(header, &at, separator), name)) return i;
  return -1;
}

/* ---- The first line ---- */

/* The names in the header, in quotes, as many as there is room for. */
static const char *header_names(const Line *header, char separator, Arena *arena) {
  enum { SHOWN = 8 };
  const char *names = "";
  int n = 0;
  for (const char *at = header->text; at; n++) {
    const Field field = take_field(header, &at, separator);
    if (n < SHOWN)
      names = arena_printf(arena, "%s%s'%.*s'", names, n ? ", " : "",
                           field.length < 30 ? field.length : 30, field.text);
  }
  return n <= SHOWN ? names : arena_printf(arena, "%s and %d more", names, n - SHOWN);
}

static int unknown_format(const Line *first, Diag *diag) {
  Arena *arena = &diag->arena;
  const char *kind = file_kind(first->text, (size_t)first->length);
  if (kind)
    return diag_error(diag, place_of_file(first->path),
                      "'%s' is %s, where a trace is CSV or JSON lines in UTF-8, or gzip of them",
                      first->path, kind);
  diag_error(diag, line_place(first, (Field){0}), "no known trace format begins like this");
  if (format_line_is_json(first))
    diag_hint(diag, "name its keys: columns: {arrival: …, prompt: …, output: …}");
  else
    diag_hint(diag,
              "name its columns, as a workload's columns: {arrival: …, prompt: …, output: …}, or "
              "with --columns; it has %s; known formats: 'tandem list traces'",
              header_names(first, table_separator(first), arena));
  return -1;
}

/* A column that the user gave by its number; −1: it is none. */
static int numbered_column(const char *name, int n_columns) {
  char *end = NULL;
  const long number = strtol(name, &end, 10);
  return *name && !*end && number >= 1 && number <= n_columns ? (int)number - 1 : -1;
}

static int missing_column(const TraceLayout *self, const Line *first, const char *name, bool given,
                          Diag *diag) {
  const Place at = line_place(first, (Field){0});
  if (given)
    diag_error(diag, at, "there is no column '%s'", name);
  else
    diag_error(diag, at, "the header of format '%s' has a column '%s'", self->format->name, name);
  diag_hint(diag, "this one has %s", header_names(first, self->separator, &diag->arena));
  return -1;
}

/* A first line that has a time and tokens where columns are given by number is a row. */
static bool is_row(const TraceLayout *self, const Line *first) {
  Field fields[TRACE_FIELDS] = {{0}};
  int64_t tokens;
  int i = 0;
  for (const char *at = first->text; at; i++) {
    const Field field = take_field(first, &at, self->separator);
    for (int k = 0; k < TRACE_FIELDS; k++)
      if (self->at[k] == i) fields[k] = field;
  }
  return clock_of(fields[TRACE_ARRIVAL]) != CLOCK_AUTO &&
         field_decimal(fields[TRACE_PROMPT], 0, &tokens) &&
         field_decimal(fields[TRACE_OUTPUT], 0, &tokens);
}

static int find_columns(TraceLayout *self, const TraceReading *reading, const Line *first,
                        Diag *diag) {
  int status = 0;
  bool by_number = true;
  self->separator = table_separator(first);
  self->n_columns = count_fields(first, self->separator);
  for (int i = 0; i < TRACE_FIELDS; i++) {
    const char *name = self->names[i];
    self->at[i] = name ? table_column(first, self->separator, name) : -1;
    if (!name || self->at[i] >= 0) {
      by_number &= !name;
      continue;
    }
    if (reading->columns[i]) self->at[i] = numbered_column(name, self->n_columns);
    if (self->at[i] < 0)
      status = missing_column(self, first, name, reading->columns[i] != NULL, diag);
  }
  self->has_header = !by_number || !is_row(self, first);
  return status;
}

/* A table or JSON of the user's own. */
static const TraceFormat own_format = {.name = "columns",
                                       .forms = TRACE_TABLE | TRACE_JSON,
                                       .clock = CLOCK_AUTO,
                                       .leaves_out_empty = true};

static bool names_all(const TraceReading *reading) {
  for (int i = 0; i < TRACE_NEEDED; i++)
    if (!reading->columns[i]) return false;
  return true;
}

int layout_init(TraceLayout *self, const TraceReading *reading, const Line *first, Arena *arena,
                Diag *diag) {
  const TraceFormat *format = reading->format;
  if (!format) format = names_all(reading) ? &own_format : format_of_line(first);
  if (!format) return unknown_format(first, diag);
  *self = (TraceLayout){.format = format, .is_json = format_line_is_json(first)};
  if (self->is_json && !(format->forms & TRACE_JSON)) self->is_json = false;
  if (!self->is_json && !(format->forms & TRACE_TABLE)) self->is_json = true;
  for (int i = 0; i < TRACE_FIELDS; i++) {
    const char *given = reading->columns[i];
    self->names[i] = given ? arena_copy(arena, given, strlen(given)) : format->columns[i];
  }
  self->clock = reading->clock != CLOCK_AUTO ? reading->clock : format->clock;
  return self->is_json ? 0 : find_columns(self, reading, first, diag);
}

/* ---- Rows ---- */

int layout_time(TraceLayout *self, const Line *line, Field field, RawRow *ret_row, Diag *diag) {
  const TraceFormat *format = self->format;
  const char *name = self->names[TRACE_ARRIVAL];
  const bool own = format->read_time && self->clock == format->clock;
  ret_row->time_field = field;
  if (own) {
    if (format->read_time(field, &ret_row->time)) return 0;
    return field_error(line, field, name, format->time_is, diag);
  }
  if (self->clock == CLOCK_AUTO) self->clock = clock_of(field);
  if (self->clock != CLOCK_AUTO && clock_read(self->clock, field, &ret_row->time)) return 0;
  return field_error(line, field, name, clock_name(self->clock), diag);
}

int layout_tokens(const TraceLayout *self, const Line *line, Field field, TraceField which,
                  int32_t *ret_tokens, Diag *diag) {
  int64_t tokens = 1;
  const bool empty = field.length == 0 || (field_decimal(field, 0, &tokens) && tokens == 0);
  if (empty && self->format->leaves_out_empty) return 0;
  return field_tokens(line, field, self->names[which], ret_tokens, diag) ? -1 : 1;
}

void layout_session(Field session, RawRow *ret_row) {
  SegmentList *segments = ret_row->segments;
  if (session.length == 0 || segments->n > 0) return;
  ARENA_RESERVE(segments->arena, segments->items, segments->capacity, 1);
  const uint64_t id = hash_mix(hash_bytes(session.text, (size_t)session.length));
  segments->items[0] = (TraceSegment){id, INT32_MAX};
  segments->n = 1;
}

static int parse_table(TraceLayout *self, const Line *line, RawRow *ret_row, Diag *diag) {
  Field fields[TRACE_FIELDS] = {{0}};
  int n = 0;
  for (const char *at = line->text; at; n++) {
    const Field field = take_field(line, &at, self->separator);
    for (int i = 0; i < TRACE_FIELDS; i++)
      if (self->at[i] == n) fields[i] = field;
  }
  if (n != self->n_columns)
    return diag_error(diag, line_place(line, (Field){0}),
                      "expected %d fields as in the %s, found %d", self->n_columns,
                      self->has_header ? "header" : "first row", n);
  const int timed = layout_time(self, line, fields[TRACE_ARRIVAL], ret_row, diag);
  const int prompt =
      layout_tokens(self, line, fields[TRACE_PROMPT], TRACE_PROMPT, &ret_row->prompt_tokens, diag);
  const int output =
      layout_tokens(self, line, fields[TRACE_OUTPUT], TRACE_OUTPUT, &ret_row->output_tokens, diag);
  if (timed < 0 || prompt < 0 || output < 0) return -1;
  layout_session(fields[TRACE_SESSION], ret_row);
  return prompt > 0 && output > 0;
}

int layout_parse(TraceLayout *self, const Line *line, RawRow *ret_row, Diag *diag) {
  if (!self->is_json) return parse_table(self, line, ret_row, diag);
  const JsonRow row = {.line = line, .block_tokens = self->format->block_tokens};
  return json_row_parse(self, &row, ret_row, diag);
}
