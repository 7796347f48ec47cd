/* The list of trace formats, built from traces/formats.def. */
#include "traces/format.h"
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
    if (format->header ? line_is(first, format->header) : format->accepts(first)) return format;
  }
  return NULL;
}
