/* The Mooncake traces (github.com/kvcache-ai/Mooncake), a JSON object on each line:
 *
 *     {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
 *
 * Times are milliseconds from the start of the trace and are kept. Keys come in any order; those
 * that are not needed, such as the prefix blocks `hash_ids`, are stepped over without a look at
 * what is inside, however deep. */
#include "traces/format.h"
#include <string.h>

enum { MS_PLACES = 9 }; // a millisecond is 10^9 ticks

/* Position in a line, and where messages about it go. */
typedef struct Scanner {
  const Line *line;
  const char *next, *end;
  Diag *diag;
} Scanner;

static void skip_space(Scanner *self) {
  while (self->next < self->end && (*self->next == ' ' || *self->next == '\t'))
    self->next++;
}

static int expected(const Scanner *self, const char *what) {
  bool inside = self->next < self->end;
  Field here = {self->next, inside ? 1 : 0};
  return diag_error(self->diag, line_place(self->line, here), "expected %s%s", what,
                    inside ? "" : " before the end of the line");
}

/* Steps over white space and `c`. */
static bool accept(Scanner *self, char c) {
  skip_space(self);
  if (self->next == self->end || *self->next != c) return false;
  self->next++;
  return true;
}

/* The inside of a string, escapes left as they are. */
static int scan_string(Scanner *self, Field *ret_field) {
  if (!accept(self, '"')) return expected(self, "a string");
  const char *start = self->next;
  while (self->next < self->end && *self->next != '"')
    self->next += *self->next == '\\' && self->next + 1 < self->end ? 2 : 1;
  if (self->next == self->end) return expected(self, "'\"'");
  *ret_field = (Field){start, (int)(self->next - start)};
  self->next++;
  return 0;
}

/* Steps over a list or map by counting brackets outside strings. */
static int skip_nested(Scanner *self) {
  int depth = 0;
  do {
    char c = *self->next;
    Field ignored;
    if (c == '"') {
      if (scan_string(self, &ignored)) return -1;
      continue;
    }
    if (c == '[' || c == '{') depth++;
    if (c == ']' || c == '}') depth--;
    self->next++;
  } while (depth > 0 && self->next < self->end);
  return depth == 0 ? 0 : expected(self, "']' or '}'");
}

/* A value: a number or word gives its text, anything else an empty field. */
static int scan_value(Scanner *self, Field *ret_field) {
  skip_space(self);
  *ret_field = (Field){self->next, 0};
  if (self->next == self->end) return expected(self, "a value");
  if (*self->next == '"') {
    Field text;
    if (scan_string(self, &text)) return -1;
  } else if (*self->next == '[' || *self->next == '{') {
    if (skip_nested(self)) return -1;
  } else {
    while (self->next < self->end && !strchr(",}] \t", *self->next))
      self->next++;
    if (self->next == ret_field->text) return expected(self, "a value");
  }
  ret_field->length = (int)(self->next - ret_field->text);
  return 0;
}

enum { TIMESTAMP, INPUT_LENGTH, OUTPUT_LENGTH, KEYS };
static const char *const key_names[KEYS] = {"timestamp", "input_length", "output_length"};

/* The values of the needed keys; those that are absent stay without text. */
static int scan_object(Scanner *self, Field ret_values[KEYS]) {
  if (!accept(self, '{')) return expected(self, "'{'");
  bool is_empty = accept(self, '}');
  while (!is_empty) {
    Field key, value;
    if (scan_string(self, &key)) return -1;
    if (!accept(self, ':')) return expected(self, "':'");
    if (scan_value(self, &value)) return -1;
    for (int i = 0; i < KEYS; i++) {
      if (!field_is(key, key_names[i])) continue;
      if (ret_values[i].text)
        return diag_error(self->diag, line_place(self->line, key), "duplicate key '%s'",
                          key_names[i]);
      ret_values[i] = value;
    }
    if (accept(self, '}')) break;
    if (!accept(self, ',')) return expected(self, "',' or '}'");
  }
  skip_space(self);
  return self->next == self->end ? 0 : expected(self, "nothing after '}'");
}

static int mooncake_parse(const Line *line, RawRow *ret_row, Diag *diag) {
  Scanner scanner = {line, line->text, line->text + line->length, diag};
  Field values[KEYS] = {{0}};
  if (scan_object(&scanner, values)) return -1;
  int status = 0;
  for (int i = 0; i < KEYS; i++)
    if (!values[i].text)
      status = diag_error(diag, line_place(line, (Field){0}), "key '%s' is missing", key_names[i]);
  if (status) return status;
  int64_t ticks = 0;
  ret_row->time_field = values[TIMESTAMP];
  if (!field_decimal(values[TIMESTAMP], MS_PLACES, &ticks))
    status = field_error(line, values[TIMESTAMP], "timestamp",
                         "a number of milliseconds from 0 to 9e9", diag);
  ret_row->time = (TraceTime){ticks / TICKS_PER_SECOND, ticks % TICKS_PER_SECOND};
  status |= field_tokens(line, values[INPUT_LENGTH], key_names[INPUT_LENGTH],
                         &ret_row->prompt_tokens, diag);
  status |= field_tokens(line, values[OUTPUT_LENGTH], key_names[OUTPUT_LENGTH],
                         &ret_row->output_tokens, diag);
  return status;
}

static bool mooncake_accepts(const Line *first) {
  return first->length > 0 && first->text[0] == '{';
}

const TraceFormat format_mooncake = {
    .name = "mooncake",
    .help = "Mooncake traces, JSON lines; arrivals in milliseconds are kept",
    .accepts = mooncake_accepts,
    .parse = mooncake_parse,
};
