/* The list of trace formats, built from traces/formats.def. */
#include "base/json.h"
#include "traces/format.h"
#include "traces/table.h"
#include <assert.h>

const char *const trace_field_names[TRACE_FIELDS + 1] = {
    "arrival", "prompt", "output", "session", "max_tokens", "images", NULL};

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

/* The names of a header, or the keys of an object as far as it is well-formed. */
typedef struct Names {
  const Line *line;
  bool json;
  char separator;
  const char *at;
  JsonScanner scanner;
} Names;

static Names names_of(const Line *first) {
  const bool json = format_line_is_json(first);
  return (Names){.line = first,
                 .json = json,
                 .separator = json ? '\0' : table_separator(first),
                 .at = first->text,
                 .scanner = json_scanner(first, (Field){0}, NULL)};
}

static bool next_name(Names *self, Field *ret_name) {
  Field value;
  if (self->json) return json_member(&self->scanner, ret_name, &value) > 0;
  if (!self->at) return false;
  *ret_name = table_take(self->line, &self->at, self->separator);
  return true;
}

static bool has_name(const Line *first, const char *wanted) {
  Names names = names_of(first);
  Field name;
  while (next_name(&names, &name))
    if (field_is(name, wanted)) return true;
  return false;
}

Field format_name(const TraceFormat *format, const Line *first, TraceField which) {
  Names names = names_of(first);
  Field name, found = {0};
  while (next_name(&names, &name)) {
    if (!format->is_usual(which, name)) continue;
    if (found.text) return (Field){0};
    found = name;
  }
  return found;
}

const char *format_shown_names(const Line *first, Arena *arena) {
  enum { SHOWN = 8 };
  Names all = names_of(first);
  const char *names = "";
  Field name;
  int n = 0;
  for (; next_name(&all, &name); n++)
    if (n < SHOWN)
      names = arena_printf(arena, "%s%s'%.*s'", names, n ? ", " : "",
                           name.length < 30 ? name.length : 30, name.text);
  return n <= SHOWN ? names : arena_printf(arena, "%s and %d more", names, n - SHOWN);
}

static bool is_marked(const TraceFormat *format, const Line *first) {
  for (int i = 0; i < TRACE_MARKS && format->marks[i]; i++)
    if (has_name(first, format->marks[i])) return true;
  return !format->marks[0];
}

Field format_count_of_requests(const Line *first) {
  Names names = names_of(first);
  Field name;
  while (next_name(&names, &name))
    if (format_counts_requests(name)) return name;
  return (Field){0};
}

static bool is_of(const TraceFormat *format, const Line *first, const bool *needed) {
  const bool json = format_line_is_json(first);
  if (!(format->forms & (json ? TRACE_JSON : TRACE_TABLE)) || !is_marked(format, first))
    return false;
  for (int i = 0; i < TRACE_NEEDED; i++) {
    if (!needed[i] || (json && !format->is_usual)) continue; // its keys may stand further down
    const bool there = format->is_usual ? format_name(format, first, (TraceField)i).text != NULL
                                        : has_name(first, format->columns[i]);
    if (!there) return false;
  }
  return true;
}

const TraceFormat *format_of_line(const Line *first, const bool *needed) {
  if (format_count_of_requests(first).text) return NULL;
  for (int i = 0; formats[i]; i++)
    if (is_of(formats[i], first, needed)) return formats[i];
  return NULL;
}
