/* What all trace formats share: the header, order of time, and time as ticks. */
#include "traces/trace_file.h"
#include "base/hash.h"
#include "traces/json_rows.h"
#include <stdio.h>

/* Whether lines are of a format that has many rows in one. */
static bool lines_are_indexed(const TraceFile *self) {
  return self->layout.is_json && self->layout.format->index;
}

/* All rows; those of a format that has lines of many are found by it. */
static int index_lines(TraceFile *self, Diag *diag) {
  const TraceFormat *format = self->layout.format;
  Line line;
  int status = 1;
  bool first = true;
  self->index.untimed = self->reading.untimed;
  while ((status = line_reader_next(&self->reader, &line, diag)) > 0) {
    RawRow raw = {.segments = &self->segments, .inputs = &self->inputs};
    const bool header = first && !self->layout.is_json && self->layout.has_header;
    first = false;
    if (header) continue;
    const bool indexed = lines_are_indexed(self);
    if (indexed && format->index(&line, &self->index, diag)) return -1;
    if (indexed) continue;
    self->segments.n = self->inputs.n = 0;
    const int kept = layout_parse(&self->layout, &line, &raw, diag);
    if (kept < 0) return -1;
    if (kept == 0) self->n_left_out++;
    if (kept == 0) continue;
    trace_index_add_line(&self->index, &line, format->block_tokens);
    trace_index_add(&self->index, raw.time, (Field){line.text, line.length});
  }
  return status;
}

/* Holds the file, and puts its rows in order of time. */
static int index_rows(TraceFile *self, Diag *diag) {
  self->held = true;
  if (line_reader_hold(&self->reader, diag) || index_lines(self, diag)) return -1;
  trace_index_sort(&self->index);
  return 0;
}

/* Reads up to the first row: finds out how the file is written, unless that is known without its
 * first line, which may be longer than a line that is read on its own. */
static int begin(TraceFile *self, Diag *diag) {
  const TraceFormat *stated = self->reading.format;
  Line line = {.text = "{", .length = 1, .path = self->reader.path};
  if (!stated || stated->forms != TRACE_JSON || !stated->index) {
    const int status = line_reader_next(&self->reader, &line, diag);
    if (status < 0 && !stated && self->reader.end > LINE_LENGTH_MAX)
      diag_hint(diag, "a line with a session of an agent may be longer if the format is set: weka");
    if (status < 0) return -1;
    if (status == 0) return diag_error(diag, place_of_file(self->reader.path), "the file is empty");
  }
  if (layout_init(&self->layout, &self->reading, &line, self->reader.arena, diag)) return -1;
  if (self->reading.sort || lines_are_indexed(self)) return index_rows(self, diag);
  const bool is_row = self->layout.is_json || !self->layout.has_header;
  return is_row ? line_reader_rewind(&self->reader, diag) : 0;
}

static int begin_or_close(TraceFile *self, Diag *diag) {
  if (begin(self, diag) == 0) return 0;
  trace_file_close(self);
  return -1;
}

static void init(TraceFile *self, const TraceReading *reading, Arena *arena) {
  *self = (TraceFile){.segments.arena = arena, .inputs.arena = arena, .index.arena = arena};
  if (reading) self->reading = *reading;
}

int trace_file_open(TraceFile *self, const char *path, const TraceReading *reading, Arena *arena,
                    Diag *diag) {
  init(self, reading, arena);
  if (line_reader_open(&self->reader, path, arena, diag)) return -1;
  return begin_or_close(self, diag);
}

int trace_file_open_text(TraceFile *self, const char *name, const char *text, size_t length,
                         const TraceReading *reading, Arena *arena, Diag *diag) {
  init(self, reading, arena);
  line_reader_open_text(&self->reader, name, text, length, arena);
  return begin_or_close(self, diag);
}

static int too_far(const Line *line, const RawRow *raw, TraceClock clock, Diag *diag) {
  diag_error(diag, line_place(line, raw->time_field),
             "the time is more than 106 days from the first row");
  if (!clock_is_wall(clock))
    diag_hint(diag, "times count from 0; if 'time' is epoch_…, they count from the first row");
  return -1;
}

/* Ticks from the origin to the row's time, which must not be before the row in front of it. */
static int row_ticks(TraceFile *self, const Line *line, const RawRow *raw, Tick *ret_at,
                     Diag *diag) {
  const TraceClock clock = self->layout.clock;
  if (self->n_rows == 0) self->origin = clock_is_wall(clock) ? raw->time : (TraceTime){0};
  Tick at = 0;
  int64_t seconds = raw->time.seconds - self->origin.seconds;
  if (__builtin_mul_overflow(seconds, TICKS_PER_SECOND, &at) ||
      __builtin_add_overflow(at, raw->time.fraction - self->origin.fraction, &at))
    return too_far(line, raw, clock, diag);
  *ret_at = at;
  if (self->n_rows == 0 || at >= self->previous) return 0;
  diag_error(diag, line_place(line, raw->time_field),
             "times must not decrease: '%.*s' comes after '%s'", raw->time_field.length,
             raw->time_field.text, self->previous_text);
  diag_hint(diag, "'sort: true' beside 'trace', or --sort, sorts the rows by time");
  return -1;
}

/* The next row of the index. */
static int next_indexed(TraceFile *self, Line *ret_line, RawRow *ret_raw, Diag *diag) {
  const TraceFormat *format = self->layout.format;
  if (self->n_indexed == self->index.n_rows) return 0;
  const struct TraceIndexRow *row = &self->index.rows[self->n_indexed++];
  const struct TraceIndexLine *line = &self->index.lines[row->line];
  const JsonRow json = {&line->line, row->text, line->block_tokens, (uint64_t)row->line + 1};
  *ret_line = line->line;
  int status = 0;
  if (!lines_are_indexed(self))
    status = layout_parse(&self->layout, &line->line, ret_raw, diag);
  else
    status = format->parse ? format->parse(&json, ret_raw, diag)
                           : json_row_parse(&self->layout, &json, ret_raw, diag);
  if (status < 0) return -1;
  ret_raw->text = row->text;
  ret_raw->time = row->time;
  return 1;
}

/* The next row as it is written, and its line: 1, 0 at the end, -1. */
static int next_raw(TraceFile *self, Line *ret_line, RawRow *ret_raw, Diag *diag) {
  for (;;) {
    *ret_raw = (RawRow){.segments = &self->segments, .inputs = &self->inputs};
    self->segments.n = self->inputs.n = 0;
    if (self->held) return next_indexed(self, ret_line, ret_raw, diag);
    const int status = line_reader_next(&self->reader, ret_line, diag);
    if (status <= 0) return status;
    const int kept = layout_parse(&self->layout, ret_line, ret_raw, diag);
    if (kept != 0) return kept;
    self->n_left_out++;
  }
}

static int no_rows(const TraceFile *self, Diag *diag) {
  diag_error(diag, place_of_file(self->reader.path), "the file has no rows");
  if (self->n_left_out > 0)
    diag_hint(diag, "rows without a prompt or an output, as of failed requests, are left out: %lld",
              (long long)self->n_left_out);
  return -1;
}

/* Images without a name are like no other of the file. */
static void name_images(TraceFile *self) {
  for (int32_t i = 0; i < self->inputs.n; i++) {
    TraceInput *image = &self->inputs.items[i];
    if (image->id == 0) image->id = hash_fold(hash_mix((uint64_t)self->n_rows), (uint64_t)i) | 1;
  }
}

int trace_file_next(TraceFile *self, TraceRow *ret_row, Diag *diag) {
  Line line;
  RawRow raw;
  Tick at = 0;
  const int status = next_raw(self, &line, &raw, diag);
  if (status < 0) return -1;
  if (status == 0 && self->n_rows == 0) return no_rows(self, diag);
  if (status == 0) return 0;
  if (row_ticks(self, &line, &raw, &at, diag)) return -1;
  self->n_rows++;
  name_images(self);
  self->previous = at;
  snprintf(self->previous_text, sizeof self->previous_text, "%.*s", raw.time_field.length,
           raw.time_field.text);
  *ret_row = (TraceRow){.at = at,
                        .prompt_tokens = raw.prompt_tokens,
                        .output_tokens = raw.output_tokens,
                        .max_tokens = raw.max_tokens,
                        .place = line_place(&line, raw.text),
                        .segments = self->segments.items,
                        .n_segments = self->segments.n,
                        .inputs = self->inputs.items,
                        .n_inputs = self->inputs.n};
  return 1;
}

int trace_file_rewind(TraceFile *self, Diag *diag) {
  Line header;
  self->n_rows = 0;
  self->n_indexed = 0;
  if (self->held) return 0;
  self->n_left_out = 0;
  if (line_reader_rewind(&self->reader, diag)) return -1;
  if (self->layout.is_json || !self->layout.has_header) return 0;
  return line_reader_next(&self->reader, &header, diag) > 0 ? 0 : -1;
}

void trace_file_close(TraceFile *self) {
  line_reader_close(&self->reader);
}
