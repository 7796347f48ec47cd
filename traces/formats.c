/* The list of trace formats, built from traces/formats.def. */
#include "sim/base/json.h"
#include "traces/format.h"
#include "traces/layout.h"
#include <assert.h>

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

bool format_line_is_json(const Line *first) {
  const Field text = field_trim((Field){first->text, first->length});
  return text.length > 0 && *text.text == '{';
}

static bool is_of(const TraceFormat *format, const Line *first, bool json) {
  if (json) return format->forms & TRACE_JSON && json_line_has(first, format->mark);
  if (!(format->forms & TRACE_TABLE)) return false;
  const char separator = table_separator(first);
  for (int i = 0; i < TRACE_NEEDED; i++)
    if (table_column(first, separator, format->columns[i]) < 0) return false;
  return !format->mark || table_column(first, separator, format->mark) >= 0;
}

const TraceFormat *format_of_line(const Line *first) {
  const bool json = format_line_is_json(first);
  for (int i = 0; formats[i]; i++)
    if (is_of(formats[i], first, json)) return formats[i];
  return NULL;
}
