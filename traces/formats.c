/* The list of trace formats, built from traces/formats.def. */
#include "sim/base/json.h"
#include "traces/format.h"
#include "traces/json_rows.h"
#include <assert.h>
#include <string.h>

#define FORMAT(name) extern const TraceFormat format_##name;
#include "traces/formats.def"
#undef FORMAT

#define FORMAT(name) &format_##name,
static const TraceFormat *const formats[] = {
#include "traces/formats.def"
    NULL};
#undef FORMAT

#define FORMAT(name) #name,
const char *const format_choices[] = {"auto",
#include "traces/formats.def"
                                      NULL};
#undef FORMAT

const TraceFormat *format_at(int i) {
  assert(i >= 0 && i < (int)(sizeof formats / sizeof *formats));
  return formats[i];
}

const TraceFormat *format_of_line(const Line *first) {
  for (int i = 0; formats[i]; i++) {
    const TraceFormat *format = formats[i];
    if (format->header ? line_is(first, format->header) : json_line_has(first, format->mark))
      return format;
  }
  return NULL;
}

static int parse_tokens(const Line *line, const Field *fields, const TraceColumn *column,
                        int32_t *ret_tokens, Diag *diag) {
  return field_tokens(line, fields[column->at], column->name, ret_tokens, diag);
}

int format_parse(const TraceFormat *self, const Line *line, RawRow *ret_row, Diag *diag) {
  Field fields[TRACE_COLUMNS_MAX];
  if (!self->header) {
    const JsonRow row = {.line = line, .block_tokens = self->block_tokens};
    return json_row_parse(self, &row, ret_row, diag);
  }
  if (fields_split(line, fields, self->n_columns, diag)) return -1;
  int status = 0;
  ret_row->time_field = fields[self->time.at];
  if (!self->read_time(ret_row->time_field, &ret_row->time))
    status = field_error(line, ret_row->time_field, self->time.name, self->time_is, diag);
  status |= parse_tokens(line, fields, &self->prompt, &ret_row->prompt_tokens, diag);
  return status | parse_tokens(line, fields, &self->output, &ret_row->output_tokens, diag);
}
