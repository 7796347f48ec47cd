/* What is common to tables and JSON: formats, columns of the user's own, times, token counts. */
#include "traces/layout.h"
#include "base/file_kind.h"
#include "base/hash.h"
#include "base/json.h"
#include "traces/images.h"
#include "traces/json_rows.h"
#include "traces/table.h"
#include <ctype.h>
#include <string.h>

/* ---- What is no trace ---- */

static int check_json(const Line *first, Diag *diag) {
  JsonScanner scanner = json_scanner(first, (Field){0}, diag);
  return json_object(&scanner, NULL, 0, NULL);
}

void layout_hint_arrivals(Diag *diag) {
  diag_hint(diag, "name it with columns: {arrival: …} or --columns arrival=…; clients that wait "
                  "for answers, closed_loop: {clients: …}, need no arrivals unless 'start', "
                  "'duration' or 'sort' is set, and as many clients as rows send all at once");
}

/* Lengths are known, or named, but not when rows arrive. */
static int no_arrivals(const Line *first, Diag *diag) {
  diag_error(diag, line_place(first, (Field){0}), "no known column holds the arrivals");
  layout_hint_arrivals(diag);
  return -1;
}

static int unknown_format(const Line *first, Diag *diag) {
  const bool json = format_line_is_json(first);
  const char *kind = file_kind(first->text, (size_t)first->length);
  if (kind)
    return diag_error(diag, place_of_file(first->path),
                      "'%s' is %s; CSV or JSON lines in UTF-8, or gzip of them, are expected",
                      first->path, kind);
  if (json && check_json(first, diag)) return -1;
  if (*field_trim((Field){first->text, first->length}).text == '[') {
    diag_error(diag, line_place(first, (Field){0}),
               "a JSON trace must have one object on each line, not a list");
    diag_hint(diag, "jq -c '.[]' FILE writes the objects of a list one on a line");
    return -1;
  }
  const Field count = format_count_of_requests(first);
  if (count.text)
    return diag_error(diag, line_place(first, count),
                      "column '%.*s' counts requests: each row must be one request", count.length,
                      count.text);
  diag_error(diag, line_place(first, (Field){0}), "the trace is in no known format");
  diag_hint(diag,
            "name its %s with columns: {arrival: …, prompt: …, output: …} in the workload or with "
            "--columns; it has %s; known formats: 'tandem list traces'",
            json ? "keys" : "columns", format_shown_names(first, &diag->arena));
  return -1;
}

/* ---- Columns ---- */

/* The number of a column, from 1; 0: it is beyond all; -1: the text is no number. */
static int column_number(const char *text) {
  int number = 0;
  if (!*text) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return -1;
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, *text - '0', &number))
      number = 0;
  }
  return number;
}

static int missing_column(const TraceLayout *self, const Line *first, TraceField which, bool given,
                          Diag *diag) {
  const char *name = self->names[which];
  const Place at = line_place(first, (Field){0});
  if (given && column_number(name) >= 0)
    diag_error(diag, at, "there is no column %s: the first line has %d", name, self->n_columns);
  else if (given)
    diag_error(diag, at, "there is no column '%s'", name);
  else
    diag_error(diag, at, "format '%s' needs a column '%s' in the header", self->format->name, name);
  diag_hint(diag, "the columns are %s", format_shown_names(first, &diag->arena));
  if (which == TRACE_ARRIVAL && !given) layout_hint_arrivals(diag);
  return -1;
}

/* Another column of this name; -1: there is none. */
static int next_column(const TraceLayout *self, const Line *first, const char *name, int after) {
  for (int i = after + 1; i < self->n_columns; i++)
    if (field_is(table_field(first, self->separator, i), name)) return i;
  return -1;
}

/* A column that is taken already, or whose name another one has, too. */
static int check_alone(const TraceLayout *self, const Line *first, TraceField which, Diag *diag) {
  const int at = self->at[which];
  const Place place = line_place(first, table_field(first, self->separator, at));
  for (int i = 0; i < (int)which && which != TRACE_SESSION; i++) {
    if (self->at[i] != at) continue;
    diag_error(diag, place, "'%s' and '%s' are both column %d", trace_field_names[i],
               trace_field_names[which], at + 1);
    diag_hint(diag, "columns are numbered from 1");
    return -1;
  }
  if (self->by_number[which] || next_column(self, first, self->names[which], at) < 0) return 0;
  diag_error(diag, place, "several columns have the name '%s'", self->names[which]);
  diag_hint(diag, "name the column by its number, %s=%d for this one", trace_field_names[which],
            at + 1);
  return -1;
}

/* Where a column is: by its number, which goes before a name of digits, or its name. */
static int find_column(TraceLayout *self, const Line *first, TraceField which, bool given,
                       Diag *diag) {
  const char *name = self->names[which];
  const int number = given ? column_number(name) : -1;
  self->by_number[which] = number >= 1 && number <= self->n_columns;
  self->at[which] =
      self->by_number[which] ? number - 1 : table_column(first, self->separator, name);
  if (self->at[which] < 0) return missing_column(self, first, which, given, diag);
  return check_alone(self, first, which, diag);
}

/* Whether a row could have this field there: 1, 0, or -1 when it is empty. */
static int fits_row(const TraceLayout *self, TraceField which, Field field) {
  TraceTime time;
  int64_t tokens;
  if (field.length == 0) return -1;
  if (which != TRACE_ARRIVAL) return field_decimal(field_whole(field), 0, &tokens);
  return self->clock == CLOCK_AUTO ? clock_of(field, CLOCK_AUTO) != CLOCK_AUTO
                                   : clock_read(self->clock, field, &time);
}

/* Whether a word stands where the time is: no time begins with a letter. */
static bool is_word(Field field) {
  return field.length > 0 && (isalpha((unsigned char)*field.text) || *field.text == '_');
}

/* A first line of which some fields could be a row's, and others a header's. */
static int neither(const TraceLayout *self, const Line *first, TraceField odd, TraceField fits,
                   Diag *diag) {
  const Field there = table_field(first, self->separator, self->at[odd]);
  const Field number = table_field(first, self->separator, self->at[fits]);
  diag_error(diag, line_place(first, there),
             "the first line is neither a row, because '%.*s' is given for '%s', nor a header, "
             "because '%.*s' is given for '%s'",
             there.length, there.text, trace_field_names[odd], number.length, number.text,
             trace_field_names[fits]);
  diag_hint(diag, "if it is a header, name the columns as it does");
  return -1;
}

static int row_with_names(const TraceLayout *self, const Line *first, TraceField named,
                          Diag *diag) {
  diag_error(diag, line_place(first, table_field(first, self->separator, self->at[named])),
             "the first line is a row: there is no header with a column '%s'", self->names[named]);
  diag_hint(diag, "without a header, columns are named by their numbers, from 1");
  return -1;
}

/* Whether the first line is a header: it has a name that was given, a word for a time, or nothing
 * that a row could have where a number was given. A name of digits says nothing. */
static int find_header(TraceLayout *self, const Line *first, Diag *diag) {
  int odd = -1, fits = -1, named = -1, digits = -1;
  for (int i = 0; i < TRACE_FIELDS; i++) {
    if (self->at[i] < 0) continue;
    const bool by_name = !self->by_number[i], is_digits = column_number(self->names[i]) >= 0;
    if (by_name && is_digits) digits = i;
    if (by_name && !is_digits) named = i;
    if (i >= TRACE_NEEDED || (by_name && is_digits)) continue;
    const Field field = table_field(first, self->separator, self->at[i]);
    const int status = fits_row(self, (TraceField)i, field);
    if (status == 0) odd = i;
    if (status == 1) fits = i;
    if (i == TRACE_ARRIVAL && !by_name && is_word(field)) named = i;
  }
  self->has_header = named >= 0 || (fits < 0 && (odd >= 0 || digits >= 0));
  if (named < 0 && odd >= 0 && fits >= 0)
    return neither(self, first, (TraceField)odd, (TraceField)fits, diag);
  const int name = named >= 0 ? named : digits;
  if (name >= 0 && odd < 0 && fits >= 0) return row_with_names(self, first, (TraceField)name, diag);
  return 0;
}

/* Columns that were given by number are called as the header has them, if it does. */
static void name_columns(TraceLayout *self, const Line *first, Arena *arena) {
  for (int i = 0; i < TRACE_FIELDS; i++) {
    if (self->at[i] < 0 || !self->by_number[i]) continue;
    const Field field = table_field(first, self->separator, self->at[i]);
    self->names[i] = self->has_header && field.length > 0
                         ? arena_copy(arena, field.text, (size_t)field.length)
                         : arena_printf(arena, "column %d", self->at[i] + 1);
  }
}

static int find_columns(TraceLayout *self, const TraceReading *reading, const Line *first,
                        Arena *arena, Diag *diag) {
  int status = 0;
  self->separator = table_separator(first);
  self->n_columns = table_count(first, self->separator);
  for (int i = 0; i < TRACE_FIELDS; i++) {
    self->at[i] = -1;
    if (self->names[i])
      status |= find_column(self, first, (TraceField)i, reading->columns[i] != NULL, diag);
  }
  if (status || find_header(self, first, diag)) return -1;
  name_columns(self, first, arena);
  return 0;
}

/* ---- The first line ---- */

/* A table or JSON of the user's own. */
static const TraceFormat own_format = {.name = "columns",
                                       .forms = TRACE_TABLE | TRACE_JSON,
                                       .clock = CLOCK_AUTO,
                                       .leaves_out_empty = true};

/* The format of a file that states none; NULL with an entry. */
static const TraceFormat *find_format(const TraceReading *reading, const Line *first, Diag *diag) {
  bool needed[TRACE_NEEDED];
  for (int i = 0; i < TRACE_NEEDED; i++)
    needed[i] = !reading->columns[i];
  const bool lengths = !needed[TRACE_PROMPT] && !needed[TRACE_OUTPUT];
  if (lengths && !needed[TRACE_ARRIVAL]) return &own_format;
  const TraceFormat *format = format_of_line(first, needed);
  if (format) return format;
  needed[TRACE_ARRIVAL] = false;
  format = lengths ? &own_format : format_of_line(first, needed);
  if (format && reading->untimed) return format;
  if (format && !reading->columns[TRACE_ARRIVAL])
    no_arrivals(first, diag);
  else
    unknown_format(first, diag);
  return NULL;
}

/* Whether times are not read; those of a format with an index put its rows in order. */
static bool is_untimed(const TraceFormat *format, const TraceReading *reading) {
  return reading->untimed && !format->index;
}

static void take_names(TraceLayout *self, const TraceReading *reading, const Line *first,
                       Arena *arena) {
  const TraceFormat *format = self->format;
  for (int i = 0; i < TRACE_FIELDS; i++) {
    const char *given = reading->columns[i];
    Field found = {0};
    if (given)
      found = (Field){given, (int)strlen(given)};
    else if (format->is_usual)
      found = format_name(format, first, (TraceField)i);
    self->names[i] =
        found.text ? arena_copy(arena, found.text, (size_t)found.length) : format->columns[i];
  }
  if (is_untimed(format, reading) && !reading->columns[TRACE_ARRIVAL])
    self->names[TRACE_ARRIVAL] = NULL;
}

/* Lines of many rows are not read by keys that were named. */
static int check_columns(const TraceFormat *format, const TraceReading *reading, const Line *first,
                         Diag *diag) {
  for (int i = 0; format->index && i < TRACE_FIELDS; i++) {
    if (!reading->columns[i]) continue;
    diag_error(diag, line_place(first, (Field){0}),
               "format '%s' has its own keys: '%s' cannot be named", format->name,
               trace_field_names[i]);
    diag_hint(diag, "if arrival, prompt and output are all named, lines are read by these keys");
    return -1;
  }
  return 0;
}

int layout_init(TraceLayout *self, const TraceReading *reading, const Line *first, Arena *arena,
                Diag *diag) {
  const TraceFormat *format = reading->format;
  if (!format) format = find_format(reading, first, diag);
  if (!format) return -1;
  *self = (TraceLayout){.format = format, .is_json = format_line_is_json(first)};
  if (self->is_json && check_columns(format, reading, first, diag)) return -1;
  if (self->is_json && !(format->forms & TRACE_JSON)) self->is_json = false;
  if (!self->is_json && !(format->forms & TRACE_TABLE)) self->is_json = true;
  take_names(self, reading, first, arena);
  self->clock = reading->clock != CLOCK_AUTO ? reading->clock : format->clock;
  if (!self->is_json && find_columns(self, reading, first, arena, diag)) return -1;
  if (is_untimed(format, reading)) self->names[TRACE_ARRIVAL] = NULL, self->at[TRACE_ARRIVAL] = -1;
  return 0;
}

/* ---- Rows ---- */

int layout_time(TraceLayout *self, const Line *line, Field field, RawRow *ret_row, Diag *diag) {
  const TraceFormat *format = self->format;
  const char *name = self->names[TRACE_ARRIVAL];
  const bool own = format->read_time && self->clock == format->clock;
  ret_row->time_field = field;
  if (!name) return 0; // nobody asks when
  if (own) {
    if (format->read_time(field, &ret_row->time)) return 0;
    return field_error(line, field, name, format->time_is, diag);
  }
  if (self->clock == CLOCK_AUTO) self->clock = clock_of(field, clock_of_name(name));
  if (self->clock != CLOCK_AUTO && clock_read(self->clock, field, &ret_row->time)) return 0;
  return field_error(line, field, name, clock_name(self->clock), diag);
}

/* Columns of the user's own say what may be left out. */
static void hint_columns(const TraceLayout *self, Diag *diag) {
  const char *arrival = self->names[TRACE_ARRIVAL];
  diag_hint(diag,
            "a failed request has none: such rows are left out and counted if all columns are "
            "named: columns: {arrival: %s, prompt: %s, output: %s}, or with --columns",
            arrival ? arrival : "…", self->names[TRACE_PROMPT], self->names[TRACE_OUTPUT]);
}

int layout_tokens(const TraceLayout *self, const Line *line, Field field, TraceField which,
                  int32_t *ret_tokens, Diag *diag) {
  const TraceFormat *format = self->format;
  const bool none = field_is_none(field);
  if (none && format->leaves_out_empty) return 0;
  if (field_row_tokens(line, field, self->names[which], ret_tokens, diag) == 0) return 1;
  if (none && !format->index && format->block_tokens == 0) hint_columns(self, diag);
  return -1;
}

/* What its client allows at most; an empty field or 0: it says nothing. */
static int read_max_tokens(const TraceLayout *self, const Line *line, Field field, RawRow *ret_row,
                           Diag *diag) {
  if (field_is_none(field)) return 0;
  const char *name = self->names[TRACE_MAX_TOKENS];
  if (field_row_tokens(line, field, name, &ret_row->max_tokens, diag)) return -1;
  if (ret_row->max_tokens >= ret_row->output_tokens) return 0;
  return diag_error(diag, line_place(line, field), "'%s' is %d, but the output has %d tokens", name,
                    ret_row->max_tokens, ret_row->output_tokens);
}

int layout_rest(const TraceLayout *self, const Line *line, const Field *fields, RawRow *ret_row,
                Diag *diag) {
  if (read_max_tokens(self, line, fields[TRACE_MAX_TOKENS], ret_row, diag)) return -1;
  return images_read(line, fields[TRACE_IMAGES], self->names[TRACE_IMAGES], ret_row, diag);
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
    const Field field = table_take(line, &at, self->separator);
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
  if (prompt == 0 || output == 0) return 0;
  return layout_rest(self, line, fields, ret_row, diag) < 0 ? -1 : 1;
}

int layout_parse(TraceLayout *self, const Line *line, RawRow *ret_row, Diag *diag) {
  if (!self->is_json) return parse_table(self, line, ret_row, diag);
  const JsonRow row = {.line = line, .block_tokens = self->format->block_tokens};
  return json_row_parse(self, &row, ret_row, diag);
}
