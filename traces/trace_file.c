/* What all trace formats share: the header, order of time, and time as ticks. */
#include "traces/trace_file.h"
#include "traces/json_rows.h"
#include <stdio.h>

/* Says that the first line is of no known format, and how those that exist begin. */
static int unknown_format(const Line *first, Diag *diag) {
  char known[512] = "";
  size_t used = 0;
  for (int i = 0; format_at(i) && used < sizeof known; i++) {
    const TraceFormat *format = format_at(i);
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s (%s)", i ? ", " : "",
                             format->name,
                             format->header ? format->header
                             : format->mark ? format->mark
                                            : "JSON");
  }
  diag_error(diag, line_place(first, (Field){0}), "no known trace format begins like this");
  diag_hint(diag, "the formats are %s", known);
  return -1;
}

/* Holds the file, and puts its rows in order of time. */
static int index_rows(TraceFile *self, Diag *diag) {
  Line line;
  int status = line_reader_hold(&self->reader, diag);
  if (status) return -1;
  while ((status = line_reader_next(&self->reader, &line, diag)) > 0)
    if (self->format->index(&line, &self->index, diag)) return -1;
  trace_index_sort(&self->index);
  return status;
}

/* Reads up to the first row: finds the format if it is not set, and checks the header. */
static int begin(TraceFile *self, Diag *diag) {
  self->n_rows = 0;
  Line line;
  if (self->format && self->format->index) return index_rows(self, diag);
  if (self->format && !self->format->header) return 0;
  const TraceFormat *wanted = self->format;
  int status = line_reader_next(&self->reader, &line, diag);
  if (status < 0 && !wanted && self->reader.end > LINE_LENGTH_MAX)
    diag_hint(diag, "a session of an agent may be as long if its format is stated: weka");
  if (status < 0) return -1;
  if (status == 0) return diag_error(diag, place_of_file(self->reader.path), "the file is empty");
  if (!wanted) self->format = format_of_line(&line);
  if (!self->format) return unknown_format(&line, diag);
  if (self->format->index) return index_rows(self, diag);
  if (!self->format->header) return line_reader_rewind(&self->reader, diag);
  if (!wanted || line_is(&line, wanted->header)) return 0;
  return diag_error(diag, line_place(&line, (Field){0}), "the header of format '%s' is '%s'",
                    wanted->name, wanted->header);
}

static int begin_or_close(TraceFile *self, Diag *diag) {
  if (begin(self, diag) == 0) return 0;
  trace_file_close(self);
  return -1;
}

static void init(TraceFile *self, const TraceFormat *format, Arena *arena) {
  *self = (TraceFile){.format = format, .segments.arena = arena, .index.arena = arena};
}

int trace_file_open(TraceFile *self, const char *path, const TraceFormat *format, Arena *arena,
                    Diag *diag) {
  init(self, format, arena);
  if (line_reader_open(&self->reader, path, arena, diag)) return -1;
  return begin_or_close(self, diag);
}

int trace_file_open_text(TraceFile *self, const char *name, const char *text, size_t length,
                         const TraceFormat *format, Arena *arena, Diag *diag) {
  init(self, format, arena);
  line_reader_open_text(&self->reader, name, text, length, arena);
  return begin_or_close(self, diag);
}

/* Ticks from the origin to the row's time, which must not be before the row in front of it. */
static int row_ticks(TraceFile *self, const Line *line, const RawRow *raw, Tick *ret_at,
                     Diag *diag) {
  if (self->n_rows == 0) self->origin = self->format->is_wall_clock ? raw->time : (TraceTime){0};
  Tick at = 0;
  int64_t seconds = raw->time.seconds - self->origin.seconds;
  if (__builtin_mul_overflow(seconds, TICKS_PER_SECOND, &at) ||
      __builtin_add_overflow(at, raw->time.fraction - self->origin.fraction, &at))
    return diag_error(diag, line_place(line, raw->time_field),
                      "the time is more than 106 days from the first row");
  if (self->n_rows > 0 && at < self->previous)
    return diag_error(diag, line_place(line, raw->time_field),
                      "time goes back: '%.*s' comes after '%s'", raw->time_field.length,
                      raw->time_field.text, self->previous_text);
  *ret_at = at;
  return 0;
}

/* The next row as it is written, and its line: 1, 0 at the end, -1. */
static int next_raw(TraceFile *self, Line *ret_line, RawRow *ret_raw, Diag *diag) {
  *ret_raw = (RawRow){.segments = &self->segments};
  self->segments.n = 0;
  if (!self->format->index) {
    const int status = line_reader_next(&self->reader, ret_line, diag);
    if (status <= 0) return status;
    return format_parse(self->format, ret_line, ret_raw, diag) ? -1 : 1;
  }
  if ((size_t)self->n_rows == self->index.n_rows) return 0;
  const struct TraceIndexRow *row = &self->index.rows[self->n_rows];
  const struct TraceIndexLine *line = &self->index.lines[row->line];
  const JsonRow json = {&line->line, row->text, line->block_tokens, (uint64_t)row->line + 1};
  *ret_line = line->line;
  if (json_row_parse(self->format, &json, ret_raw, diag)) return -1;
  ret_raw->text = row->text;
  ret_raw->time = (TraceTime){row->at / TICKS_PER_SECOND, row->at % TICKS_PER_SECOND};
  return 1;
}

int trace_file_next(TraceFile *self, TraceRow *ret_row, Diag *diag) {
  Line line;
  RawRow raw;
  Tick at = 0;
  const int status = next_raw(self, &line, &raw, diag);
  if (status < 0) return -1;
  if (status == 0 && self->n_rows == 0)
    return diag_error(diag, place_of_file(self->reader.path), "the file has no rows");
  if (status == 0) return 0;
  if (row_ticks(self, &line, &raw, &at, diag)) return -1;
  self->n_rows++;
  self->previous = at;
  snprintf(self->previous_text, sizeof self->previous_text, "%.*s", raw.time_field.length,
           raw.time_field.text);
  *ret_row = (TraceRow){.at = at,
                        .prompt_tokens = raw.prompt_tokens,
                        .output_tokens = raw.output_tokens,
                        .place = line_place(&line, raw.text),
                        .segments = self->segments.items,
                        .n_segments = self->segments.n};
  return 1;
}

int trace_file_rewind(TraceFile *self, Diag *diag) {
  self->n_rows = 0;
  if (self->format->index) return 0;
  return line_reader_rewind(&self->reader, diag) || begin(self, diag) ? -1 : 0;
}

void trace_file_close(TraceFile *self) {
  line_reader_close(&self->reader);
}
